"""Checking the images of a study, and recording their digests to detect changes."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from sqlalchemy import bindparam, delete, or_, select, update
from sqlalchemy.orm import Session

from hsfiq.db.engine import Database
from hsfiq.db.source_tables import Dataset, Image, ImageChange, Query, Triplet
from hsfiq.db.tables import METADATA, FurtherSet, Pair, RetrievedImage, Study
from hsfiq.errors import FileErrors
from hsfiq.images.check import NOT_DECODED, FindFault, Track, fault_of, inspect_files, sha256_of
from hsfiq.images.folder import CHANGED, Fault, FaultKind
from hsfiq.images.store import Original, Root, open_images, root_named
from hsfiq.kinds import KINDS
from hsfiq.text import count_text, first_few

# The images that a study's participants see, by role, and what is wrong with their files.

Role = Literal["reference", "candidate"]

LISTED = 100
"""The most broken images that an error names."""

NO_FOLDER = Fault("missing", "its dataset has no image folder")


class BrokenImages(FileErrors):
    """Files of a study's images that cannot be shown, one message each."""

    def __init__(self, broken: Sequence[FaultyImage]) -> None:
        lines = [
            f"{image.file}: {image.why}; needed for {first_few(image.queries)}"
            if image.queries
            else f"{image.file}: {image.why}"
            for image in broken[:LISTED]
        ]
        if len(broken) > LISTED:
            lines.append(f"and {len(broken) - LISTED:,} more")
        number = count_text(len(broken), "image file")
        remedy = "replace or repair the files; deleted files count as missing images"
        super().__init__([*lines, f"{number} cannot be shown to participants; {remedy}"])


@dataclass(frozen=True, slots=True)
class RoleCheck:
    """The number of images with a role, and of the faulty ones by kind."""

    images: int
    kinds: dict[str, int]


@dataclass(frozen=True, slots=True)
class FaultyImage:
    """A faulty image, and the queries of the pairs that show it.

    `file` is its path, None if there is no file. `sha256` is the digest of a changed file.
    """

    image: str
    kind: FaultKind
    why: str
    file: str | None
    sha256: str | None
    roles: tuple[Role, ...]
    queries: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NewImage:
    """An image that can be shown and whose digest is not recorded yet."""

    image: str
    file: str
    sha256: str


@dataclass(frozen=True, slots=True)
class StudyImages:
    """The images of a study's pairs.

    Attributes:
        dataset_id: the database key of the dataset, None if the study has no pairs.
        folder: of the dataset, None if it has none.
        decoded: whether files were decoded; otherwise only missing and empty ones are counted.
        pairs: of the study, and those with a faulty image.
        new: the images that can be shown and whose digest is not recorded yet.
    """

    study: str
    dataset_id: int | None
    folder: str | None
    decoded: bool
    images: int
    roles: Mapping[Role, RoleCheck]
    pairs: int
    pairs_touched: int
    faulty: tuple[FaultyImage, ...]
    new: tuple[NewImage, ...]

    @property
    def changed(self) -> tuple[FaultyImage, ...]:
        return tuple(image for image in self.faulty if image.kind == "changed")

    @property
    def broken(self) -> tuple[FaultyImage, ...]:
        """The images with a file that cannot be shown."""
        return tuple(image for image in self.faulty if image.kind not in ("missing", "changed"))

    @property
    def kinds(self) -> dict[str, int]:
        return dict(Counter(image.kind for image in self.faulty))

    @property
    def passed(self) -> bool:
        return not self.faulty

    def warnings(self) -> list[str]:
        """A line about faulty images, if any, and one if files were not decoded."""
        lines = [] if self.decoded or not self.images else [NOT_DECODED]
        if self.passed:
            return lines
        counts = ", ".join(
            f"{sum(check.kinds.values()):,} of {check.images:,} {role}s"
            for role, check in self.roles.items()
            if check.images
        )
        line = (
            f"{len(self.faulty):,} of {self.images:,} images cannot be shown ({counts}), in "
            f"{self.pairs_touched:,} of {self.pairs:,} pairs: see `hsfiq images check --study "
            f"{self.study}`"
        )
        return [*lines, line]

    def to_json(self) -> dict[str, Any]:
        facts = asdict(self)
        del facts["dataset_id"]
        return {"well": self.passed, "kinds": self.kinds, **facts}


@dataclass(frozen=True, slots=True)
class InspectedFile:
    """An image's file; `sha256` is None if the file cannot be shown or read."""

    path: Original | None
    fault: Fault | None
    sha256: str | None = None


@dataclass(frozen=True, slots=True)
class ShownPair:
    query_id: str
    references: frozenset[str]
    candidates: frozenset[str]

    @property
    def images(self) -> frozenset[str]:
        return self.references | self.candidates


@dataclass(frozen=True, slots=True)
class ShownImages:
    """The stored images of a study.

    Attributes:
        recorded: the digests of the dataset's images, by name.
        searched: the images that live retrievers may list.
    """

    study: str
    dataset_id: int | None
    root: Root | None
    recorded: Mapping[str, str]
    pairs: tuple[ShownPair, ...]
    searched: frozenset[str]

    @property
    def names(self) -> list[str]:
        return sorted(self.searched.union(*(pair.images for pair in self.pairs)))


def shown_images(session: Session, study: Study) -> ShownImages:
    """The images of a study's pairs; of a live kind, also those whose digests are recorded.

    These images were in the retrievers' corpora when the study was created.
    """
    dataset = dataset_of(session, study)
    recorded = {} if dataset is None else recorded_digests(session, dataset)
    return ShownImages(
        study=study.name,
        dataset_id=None if dataset is None else dataset.id,
        root=root_of(dataset),
        recorded=recorded,
        pairs=tuple(shown_pairs(session, study)),
        searched=frozenset(recorded if KINDS[study.kind].is_live else ()),
    )


def check_shown(
    shown: ShownImages, find_fault: FindFault | None = None, track: Track = iter
) -> StudyImages:
    """Check every image that the study's participants see, and compare it with its digest.

    `find_fault` decodes a file that is not empty, in several threads at once; if None, no file is
    decoded. `track` iterates over the images, for a progress bar.
    """
    pairs, names, root, recorded = shown.pairs, shown.names, shown.root, shown.recorded
    if root is None:
        files = dict.fromkeys(names, InspectedFile(None, NO_FOLDER))
    else:

        def inspect(name: str, path: Original | None) -> InspectedFile:
            return inspected(path, find_fault, recorded.get(name))

        files = dict(inspect_files(names, open_images(root), inspect, track))
    faults = {name: file.fault for name, file in files.items() if file.fault is not None}
    touched = [pair for pair in pairs if not pair.images.isdisjoint(faults)]
    queries = queries_by_image(touched)
    by_role: dict[Role, frozenset[str]] = {
        "reference": frozenset().union(*(pair.references for pair in pairs)),
        "candidate": shown.searched.union(*(pair.candidates for pair in pairs)),
    }
    return StudyImages(
        study=shown.study,
        dataset_id=shown.dataset_id,
        folder=None if root is None else str(root),
        decoded=find_fault is not None,
        images=len(names),
        roles={
            role: RoleCheck(
                len(images), dict(Counter(faults[name].kind for name in images & faults.keys()))
            )
            for role, images in by_role.items()
        },
        pairs=len(pairs),
        pairs_touched=len(touched),
        faulty=tuple(
            FaultyImage(
                image=name,
                kind=fault.kind,
                why=fault.why,
                file=None if (path := files[name].path) is None else str(path),
                sha256=files[name].sha256,
                roles=tuple(role for role, images in by_role.items() if name in images),
                queries=tuple(queries.get(name, ())),
            )
            for name, fault in faults.items()
        ),
        new=tuple(
            NewImage(name, str(file.path), file.sha256)
            for name, file in files.items()
            if file.fault is None and file.sha256 is not None and name not in recorded
        ),
    )


def queries_by_image(pairs: Iterable[ShownPair]) -> dict[str, list[str]]:
    """The queries that show each image, in the order of the pairs."""
    queries: dict[str, dict[str, None]] = {}
    for pair in pairs:
        for name in pair.images:
            queries.setdefault(name, {})[pair.query_id] = None
    return {name: list(query_ids) for name, query_ids in queries.items()}


def inspected(
    path: Original | None, find_fault: FindFault | None, recorded: str | None
) -> InspectedFile:
    """An image's file compared with the recorded digest, if there is one."""
    fault = fault_of(path, find_fault)
    if path is None or fault is not None:
        return InspectedFile(path, fault)
    digest = sha256_of(path)
    if isinstance(digest, Fault):
        return InspectedFile(path, digest)
    return InspectedFile(path, None if recorded in (None, digest) else CHANGED, digest)


def recorded_digests(session: Session, dataset: Dataset) -> dict[str, str]:
    """The recorded digests of a dataset's images, by name."""
    rows = session.execute(
        select(Image.name, Image.sha256).where(
            Image.dataset_id == dataset.id, Image.sha256.is_not(None)
        )
    )
    return {name: sha256 for name, sha256 in rows if sha256 is not None}


def root_of(dataset: Dataset | None) -> Root | None:
    """The place of a dataset's images; None if unknown."""
    return None if dataset is None or dataset.image_root is None else root_named(dataset.image_root)


def dataset_of(session: Session, study: Study) -> Dataset | None:
    """The dataset of the study's queries; None if the study has none."""
    return session.scalars(
        select(Dataset)
        .join(Triplet, Triplet.dataset_id == Dataset.id)
        .join(Query, Query.triplet_id == Triplet.id)
        .join(Pair, Pair.query_id == Query.id)
        .where(Pair.study_id == study.id)
        .limit(1)
    ).one_or_none()


def shown_pairs(session: Session, study: Study) -> Iterator[ShownPair]:
    """The images of each pair of the study, in the order of the pairs."""
    candidates: dict[int, set[str]] = {}
    in_sets = select(Pair.id, Image.name).join(
        RetrievedImage,
        or_(RetrievedImage.set_id == Pair.first_id, RetrievedImage.set_id == Pair.second_id),
    )
    in_further_sets = (
        select(Pair.id, Image.name)
        .join(FurtherSet, FurtherSet.pair_id == Pair.id)
        .join(RetrievedImage, RetrievedImage.set_id == FurtherSet.set_id)
    )
    for shown in (in_sets, in_further_sets):
        rows = shown.join(Image, RetrievedImage.image_id == Image.id)
        for pair, name in session.execute(rows.where(Pair.study_id == study.id)):
            candidates.setdefault(pair, set()).add(name)
    queries = session.execute(
        select(Pair.id, Triplet.external_id, Query.suffix, Image.name)
        .join(Query, Pair.query_id == Query.id)
        .join(Triplet, Query.triplet_id == Triplet.id)
        .outerjoin(Image, Triplet.reference_id == Image.id)
        .where(Pair.study_id == study.id)
        .order_by(Pair.id)
    )
    for pair, triplet, suffix, reference in queries:
        references = frozenset(() if reference is None else (reference,))
        yield ShownPair(triplet + suffix, references, frozenset(candidates.get(pair, ())))


# Recording the digests of images' files, so that a changed file is noticed.

ROWS_AT_ONCE = 1000
"""Rows per transaction, so that other writers wait only milliseconds."""

_images, _changes = (METADATA.tables[table.__tablename__] for table in (Image, ImageChange))
IS_IMAGE = (_images.c.dataset_id == bindparam("dataset")) & (_images.c.name == bindparam("image"))


def check_and_record(database: Database, study: str, track: Track = iter) -> StudyImages:
    """Check the images of a study without decoding them, and record the digests of new ones."""
    with database.reading() as session:
        row = session.scalars(select(Study).where(Study.name == study)).one()
        shown = shown_images(session, row)
    states = check_shown(shown, track=track)
    record_new(database, states)
    return states


def record_new(database: Database, states: StudyImages) -> None:
    """Record the digests of images that have none yet."""
    statement = (
        update(_images)
        .where(IS_IMAGE, _images.c.sha256.is_(None))
        .values(sha256=bindparam("digest"))
    )
    rows = [
        {"dataset": states.dataset_id, "image": new.image, "digest": new.sha256}
        for new in states.new
    ]
    for batch in batches(rows):
        with database.writing() as session:
            session.connection().execute(statement, batch)


def accept_changed(database: Database, states: StudyImages) -> None:
    """Record the digests of the changed files in place of the earlier ones.

    The images get new tokens, so that no page mixes old and new files.
    """
    renew = (
        update(_images)
        .where(IS_IMAGE)
        .values(sha256=bindparam("digest"), token=bindparam("new_token"))
    )
    settled = delete(_changes).where(_changes.c.image_id.in_(select(_images.c.id).where(IS_IMAGE)))
    rows = [
        {
            "dataset": states.dataset_id,
            "image": changed.image,
            "digest": changed.sha256,
            "new_token": secrets.token_hex(16),
        }
        for changed in states.changed
    ]
    for batch in batches(rows):
        with database.writing() as session:
            session.connection().execute(renew, batch)
            keys = [{key: row[key] for key in ("dataset", "image")} for row in batch]
            session.connection().execute(settled, keys)


def batches(rows: Sequence[dict[str, Any]]) -> Iterator[Sequence[dict[str, Any]]]:
    for start in range(0, len(rows), ROWS_AT_ONCE):
        yield rows[start : start + ROWS_AT_ONCE]
