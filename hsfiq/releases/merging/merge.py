"""Merging the releases of several groups: one study of all their answers, and its release."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sqlalchemy.orm import Session

from hsfiq.collect.answers import count_stored_answers
from hsfiq.db.engine import added, open_database
from hsfiq.db.tables import Participant, Study, TextVersion
from hsfiq.errors import UnreadableInput
from hsfiq.releases.checking.counts import STRUCK
from hsfiq.releases.checking.tables import ReleaseFolder
from hsfiq.releases.export import export_releases
from hsfiq.releases.filters import Filters
from hsfiq.releases.folder import Outcome
from hsfiq.releases.merging.renaming import (
    Taken,
    new_pseudonyms,
    participants_in,
    write_renamed,
)
from hsfiq.releases.restoring.items import Items
from hsfiq.releases.restoring.restore import StudyRestorer, fitting, images_in_sets, open_valid
from hsfiq.releases.restoring.rows import rows_of
from hsfiq.releases.restoring.study import SOURCE, publication_in, restored_study
from hsfiq.study.publication import KEY, Earlier, Publication

INSTRUMENT = (
    *("kind", "scale", "ties_allowed", "languages", "wording", "searches"),
    *("filters", "simulated", "without"),
)
"""What must be the same in all manifests."""


def merge_releases(
    folders: Sequence[Path], out: Path, *, name: str, title: str, seed: int, version: str
) -> Outcome:
    """Merge releases, and write the release of all their answers to a folder.

    Raises:
        NothingToDo: a release is not what it says.
        UnreadableInput: a folder is no release, one is there twice, or they do not go together.
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
                what = f"{name} is {value}, and of {first.path} {own}"
                raise UnreadableInput(where, what, "merge releases of the same instrument")
        if list(rows_of(release, "fields")) != list(rows_of(first, "fields")):
            what = f"asks other extra questions than {first.path}"
            raise UnreadableInput(where, what, "merge releases of the same instrument")
        if images_in_sets(release) != images_in_sets(first):
            what = f"has sets of {images_in_sets(release)} images, and {first.path} of "
            raise UnreadableInput(where, f"{what}{images_in_sets(first)}")
        if digests[release.manifest["content_sha256"]] > 1:
            raise UnreadableInput(where, "is there twice", "name each release once")


def renamed_releases(
    releases: Sequence[ReleaseFolder], place: Path, seed: int
) -> tuple[list[ReleaseFolder], dict[int, Any]]:
    """The releases with ids that do not clash, and the texts of all versions."""
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
    )


def common_publication(releases: Sequence[ReleaseFolder]) -> Publication:
    """What all owners stated alike: none can license or sign the answers of another group."""
    first, *others = [asdict(publication_in(release.manifest)) for release in releases]
    return Publication(**{
        name: value for name, value in first.items() if all(value == each[name] for each in others)
    })  # fmt: skip


def add_step(steps: dict[str, dict[str, Any]], step: Mapping[str, Any]) -> None:
    """Add the counts of a step; what one of the releases has not recorded counts as none."""
    known = steps.setdefault(
        step["rule"], {"rule": step["rule"], "dropped": None, "broken_by": None}
    )
    for name in ("dropped", "broken_by"):
        if step.get(name) is not None:
            known[name] = (known[name] or 0) + step[name]
