"""Merging the releases of several groups: one study of all their answers, and its release."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from sqlalchemy.orm import Session

from hsfiq.collect.answers import count_stored_answers
from hsfiq.db.engine import added, open_database
from hsfiq.db.tables import Participant, Study, TextVersion
from hsfiq.errors import UnreadableInput
from hsfiq.kinds.tables import IMAGES
from hsfiq.releases.export import Outcome, export_releases
from hsfiq.releases.folder import ANALYSIS, ReleaseFolder
from hsfiq.releases.import_release import (
    SOURCE,
    Items,
    Row,
    RowsOfQuestions,
    StudyRestorer,
    fitting,
    images_in_sets,
    open_valid,
    plan_in,
    publication_in,
    restored_study,
    rows_of,
)
from hsfiq.releases.table_files import TableWriter
from hsfiq.releases.verify import OF_SYSTEMS, text_versions
from hsfiq.releases.verify_rows import STRUCK
from hsfiq.study.filters import Filters
from hsfiq.study.publication import KEY, OPENED_AT, AnalysisPlan, Earlier, Publication

# New ids for the rows of releases that become one: no two groups share a participant.
#
# Queries with the same id, text and images are the same query, pairs with the same sets (searches:
# the same systems) the same pair, and retrievers with the same version and corpus the same system;
# others that have one id get new ids.

OF_QUESTIONS = ("question_id", "repeated_id", "set_id", "set_1", "set_2")
"""Columns whose ids begin with the participant's."""
OF_TRIPLETS = ("dataset", "reference_id", "target_id", "captions")
ROWS_AT_ONCE = 5_000


@dataclass(slots=True)
class Renaming:
    """The new ids of one release's rows by old ids; other ids do not change."""

    people: dict[str, str]
    queries: dict[str, str] = field(default_factory=dict)
    triplets: dict[str, str] = field(default_factory=dict)
    items: dict[str, str] = field(default_factory=dict)
    versions: dict[int, int] = field(default_factory=dict)
    systems: dict[str, str] = field(default_factory=dict)

    def renamed(self, row: Row) -> Row:
        new = dict(row)
        person = row.get("participant_id")
        if person is not None:
            new["participant_id"] = self.people[person]
            for name in OF_QUESTIONS:
                if name in row:
                    new[name] = self.of_participant(row[name], person)
            if "set_ids" in row:
                new["set_ids"] = [self.of_participant(each, person) for each in row["set_ids"]]
        ids: tuple[tuple[str, Mapping[Any, Any]], ...] = (
            ("query_id", self.queries),
            ("triplet_id", self.triplets),
            ("item_id", self.items),
            ("pair_id", self.items),
            ("text_version", self.versions),
            *((name, self.systems) for name in OF_SYSTEMS),
        )
        for name, known in ids:
            if row.get(name) is not None:
                new[name] = known.get(row[name], row[name])
        return new

    def of_participant(self, id_: str, person: str) -> str:
        return f"{self.people[person]}{id_.removeprefix(person)}"


@dataclass(slots=True)
class Taken:
    """The ids renamed so far, with their meaning."""

    queries: dict[str, Row] = field(default_factory=dict)
    triplets: dict[str, Row] = field(default_factory=dict)
    items: dict[str, str] = field(default_factory=dict)
    texts: dict[int, Any] = field(default_factory=dict)
    retrievers: dict[str, Any] = field(default_factory=dict)

    def rename(self, release: ReleaseFolder, people: dict[str, str]) -> Renaming:
        renaming = Renaming(people)
        for row in rows_of(release, "queries"):
            self.rename_query(row, renaming)
        for entry in release.manifest.get("retrievers", ()):
            self.rename_retriever(entry, renaming)
        self.rename_items(release, renaming)
        for number, texts in text_versions(release.path):
            same = [each for each, known in self.texts.items() if known == texts]
            new = same[0] if same else max(self.texts, default=0) + 1
            renaming.versions[number] = new
            self.texts[new] = texts
        return renaming

    def rename_query(self, row: Row, renaming: Renaming) -> None:
        triplet = row["triplet_id"]
        if triplet not in renaming.triplets:
            facts = {name: row[name] for name in OF_TRIPLETS}
            new = unused(triplet, "@", lambda id_: self.triplets.get(id_, facts) != facts)
            renaming.triplets[triplet] = new
            self.triplets[new] = facts
        owner = renaming.triplets[triplet]
        wanted = f"{owner}{row['query_id'].removeprefix(triplet)}"
        text = {"text": row["text"]}
        if self.queries.get(wanted, text) != text:
            wanted = unused(owner, "#", lambda id_: self.queries.get(id_, text) != text)
        renaming.queries[row["query_id"]] = wanted
        self.queries[wanted] = text

    def rename_retriever(self, entry: Mapping[str, Any], renaming: Renaming) -> None:
        """Systems with the same name and different descriptions are different systems."""
        facts = {name: entry[name] for name in ("version", "corpus")}
        new = unused(entry["system"], "@", lambda id_: self.retrievers.get(id_, facts) != facts)
        renaming.systems[entry["system"]] = new
        self.retrievers[new] = facts

    def rename_items(self, release: ReleaseFolder, renaming: Renaming) -> None:
        """Pairs with the same sets, or with the same systems for searches, have the same id.

        Other pairs get the next numbers of their query.
        """
        known = {(item.rpartition("/")[0], digest): item for item, digest in self.items.items()}
        for item, digest in items_of(release, renaming.systems):
            if item in renaming.items:
                continue
            old, _, number = item.rpartition("/")
            query = renaming.queries[old]
            same = known.get((query, digest))
            new = same or unused_item(query, int(number), self.items)
            renaming.items[item] = new
            self.items[new] = digest


def unused(id_: str, mark: str, is_other: Any) -> str:
    """The id itself, or the id with a mark and the first free number from 2."""
    number, new = 1, id_
    while is_other(new):
        number += 1
        new = f"{id_}{mark}{number}"
    return new


def unused_item(query: str, number: int, taken: Mapping[str, str]) -> str:
    while f"{query}/{number}" in taken:
        number += 1
    return f"{query}/{number}"


def items_of(release: ReleaseFolder, systems: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The item of each question, with a digest of its sets in an order of their own.

    For searches, a digest of the systems with their new names, in the order of the sides.
    """
    sets = RowsOfQuestions(rows_of(release, "sets"))
    for row in rows_of(release, release.kind.main):
        own = [systems[row[name]] for name in OF_SYSTEMS if systems and name in row] or sorted(
            json.dumps([each["system"], each["image_ids"]]) for each in sets.of(row["question_id"])
        )
        digest = hashlib.sha256("\n".join(own).encode()).hexdigest()
        yield row["pair_id"] if "pair_id" in row else row["item_id"], digest


def participants_in(release: ReleaseFolder) -> list[str]:
    """The participants of kept or dropped questions, in the order of the tables."""
    people: dict[str, None] = {}
    for table in (release.kind.main, "exclusions"):
        for batch in release.batches(table, "participant_id"):
            people.update(dict.fromkeys(batch.column("participant_id") or ()))
    return list(people)


def new_pseudonyms(groups: Sequence[Sequence[str]], seed: int) -> list[dict[str, str]]:
    """p1, p2, ... in a random order, for the participants of each group."""
    places = [(group, name) for group, names in enumerate(groups) for name in names]
    Random(f"merge:{seed}").shuffle(places)  # noqa: S311 (a seeded draw)
    new: list[dict[str, str]] = [{} for _ in groups]
    for number, (group, name) in enumerate(places, start=1):
        new[group][name] = f"p{number}"
    return new


def write_renamed(release: ReleaseFolder, renaming: Renaming, folder: Path) -> ReleaseFolder:
    """Write the tables with their new ids into an empty folder, without packed images."""
    tables = {name: table for name, table in release.tables.items() if name != IMAGES.name}
    schemas = {name: table.arrow() for name, table in tables.items()}
    with TableWriter(folder, schemas) as writer:
        for name in tables:
            for batch in release.batches(name):
                rows = [renaming.renamed(row) for _, row in batch.numbered()]
                writer.add({name: rows})
            writer.add({name: []})
    retrievers = [
        {**entry, "system": renaming.systems[entry["system"]]}
        for entry in release.manifest.get("retrievers", ())
    ]
    manifest = {**release.manifest, **({"retrievers": retrievers} if retrievers else {})}
    return replace(release, path=folder, tables=tables, manifest=manifest)


INSTRUMENT = (
    *("kind", "instrument", "scale", "ties_allowed", "languages", "wording", "searches"),
    *("filters", "simulated", "without"),
)
"""The manifest entries that must be equal."""


def merge_releases(
    folders: Sequence[Path], out: Path, *, name: str, title: str, seed: int, version: str
) -> Outcome:
    """Merge releases, and write the release of all their answers to a folder.

    Raises:
        NothingToDo: a release fails verification.
        UnreadableInput: a folder is not a release, a release is repeated, or the releases are
        incompatible.
    """
    releases = [open_valid(folder) for folder in folders]
    require_same_instrument(releases)
    with TemporaryDirectory(prefix="hsfiq-merge-") as scratch:
        place = Path(scratch)
        with fitting(releases[0]):
            renamed = renamed_releases(releases, place, seed)
        database = open_database(f"sqlite:///{place / 'merged.db'}")
        try:
            with fitting(releases[0]), database.writing() as session:
                study = merged_study(session, releases, renamed, name, title).id
            with database.reading() as session:
                row = session.get_one(Study, study)
                kind = releases[0].kind.name
                (outcome,) = export_releases(
                    session, row, [kind], Filters(), folder=out, version=version
                )
        finally:
            database.close()
    return outcome


def require_same_instrument(releases: Sequence[ReleaseFolder]) -> None:
    first = releases[0]
    digests = Counter(release.manifest["content_sha256"] for release in releases)
    for release in releases[1:]:
        where = str(release.path)
        for name in INSTRUMENT:
            value, own = release.manifest.get(name), first.manifest.get(name)
            if value != own:
                what = f"{name} is {value}, but {own} in {first.path}"
                raise UnreadableInput(where, what, "merge releases of the same instrument")
        if list(rows_of(release, "fields")) != list(rows_of(first, "fields")):
            what = f"has different extra questions than {first.path}"
            raise UnreadableInput(where, what, "merge releases of the same instrument")
        if images_in_sets(release) != images_in_sets(first):
            what = f"has sets of {images_in_sets(release)} images, and {first.path} of "
            raise UnreadableInput(where, f"{what}{images_in_sets(first)}")
        if digests[release.manifest["content_sha256"]] > 1:
            raise UnreadableInput(where, "is repeated", "name each release once")


def renamed_releases(
    releases: Sequence[ReleaseFolder], place: Path, seed: int
) -> tuple[list[ReleaseFolder], dict[int, Any]]:
    """The releases with unique ids, and the texts of all versions."""
    pseudonyms = new_pseudonyms([participants_in(release) for release in releases], seed)
    taken, renamed = Taken(), []
    for number, (release, people) in enumerate(zip(releases, pseudonyms, strict=True)):
        folder = place / str(number)
        folder.mkdir()
        renamed.append(write_renamed(release, taken.rename(release, people), folder))
    return renamed, taken.texts


def merged_study(
    session: Session,
    releases: Sequence[ReleaseFolder],
    renamed: tuple[list[ReleaseFolder], dict[int, Any]],
    name: str,
    title: str,
) -> Study:
    parts, texts = renamed
    k = images_in_sets(releases[0])
    study = restored_study(session, parts[0], name, k)
    study.title = title or study.title
    study.design = {
        **study.design,
        "release": asdict(common_publication(releases)),
        **common_plan(releases),
        KEY: asdict(merged_earlier(releases, parts)),
    }
    for number, words in texts.items():
        session.add(TextVersion(study_id=study.id, number=number, texts=words))
        study.text_version = number
    people = {
        person: added(session, Participant(study_id=study.id, name=person, source="imported")).id
        for person in sorted(
            {person for part in parts for person in participants_in(part)}, key=by_number
        )
    }
    items = Items(session, study)
    n_forms = 0
    for part in parts:
        items.add(part)
        restorer = StudyRestorer(session, study, part, items, people, n_forms)
        restorer.restore()
        n_forms = restorer.n_forms
    count_stored_answers(session, study)
    return study


def by_number(pseudonym: str) -> int:
    return int(pseudonym[1:])


def merged_earlier(releases: Sequence[ReleaseFolder], parts: Sequence[ReleaseFolder]) -> Earlier:
    """The sums of the funnels, and the rows of dropped questions with their new ids."""
    steps: dict[str, dict[str, Any]] = {}
    for release in releases:
        for step in release.manifest["funnel"]["steps"]:
            add_step(steps, step)
    dropped = [
        row for part in parts for row in rows_of(part, "exclusions") if row["rule"] != STRUCK
    ]
    repeats = [row for part in parts for row in rows_of(part, "repeats")]
    sources = [{key: release.manifest.get(key) for key in SOURCE} for release in releases]
    left_out: Counter[str] = Counter()
    for release in releases:
        left_out.update(release.manifest.get("left_out", {}))
    return Earlier(
        source={"merged": sources},
        facts={},
        steps=list(steps.values()),
        exclusions=sorted(dropped, key=lambda row: by_number(row["participant_id"])),
        repeats=sorted(repeats, key=lambda row: by_number(row["participant_id"])),
        without=releases[0].manifest.get("without", ()),
        left_out=dict(left_out),
        notes=["the merged studies declared different analysis plans, so this release has none"]
        * (len({plan_in(each.manifest) for each in releases}) > 1),
    )


def common_plan(releases: Sequence[ReleaseFolder]) -> dict[str, Any]:
    """The plan that all studies declared, and their opening time if it is the same."""
    plans = {plan_in(release.manifest) for release in releases}
    opened = {(release.manifest.get(ANALYSIS) or {}).get(OPENED_AT) for release in releases}
    return {
        ANALYSIS: asdict(plans.pop() if len(plans) == 1 else AnalysisPlan()),
        OPENED_AT: opened.pop() if len(opened) == 1 else None,
    }


def common_publication(releases: Sequence[ReleaseFolder]) -> Publication:
    """The statements that all owners share: no group can license or sign another's answers."""
    first, *others = [asdict(publication_in(release.manifest)) for release in releases]
    return Publication(**{
        name: value for name, value in first.items() if all(value == each[name] for each in others)
    })  # fmt: skip


def add_step(steps: dict[str, dict[str, Any]], step: Mapping[str, Any]) -> None:
    """Add the counts of a step; unrecorded counts of a release count as zero."""
    known = steps.setdefault(
        step["rule"], {"rule": step["rule"], "dropped": None, "broken_by": None}
    )
    for name in ("dropped", "broken_by"):
        if step.get(name) is not None:
            known[name] = (known[name] or 0) + step[name]
