"""Releases with layouts, images, splits and parts left out, imported and merged."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from PIL import Image as Picture
from sqlalchemy import select

from hsfiq.collect.studies import list_studies
from hsfiq.db.engine import Database, open_database
from hsfiq.db.source_tables import Dataset, Image
from hsfiq.db.tables import QuestionnaireAnswers
from hsfiq.errors import NothingToDo
from hsfiq.releases.layouts.layouts import Extras
from hsfiq.releases.restore import open_valid, restore
from hsfiq.releases.splits import Split
from hsfiq.study.config import Checks, Design, Questionnaire
from hsfiq.study.design import draw_study
from hsfiq.study.instrument import ExtraQuestion
from hsfiq.study.publication import Publication
from tests.databases import migrated_sqlite
from tests.hsfiq.releases.small_releases import OnDisk, write_release
from tests.hsfiq.samples import hsfiq
from tests.studies import NOW, Seat, config, make_queries, pair_answer, set_status

ASKED = Questionnaire(
    after_each=(ExtraQuestion("words", "text", "Anything else?"),),
    at_end=(ExtraQuestion("age", "number", "How old?"), ExtraQuestion("job", "text", "Your job?")),
)
SPLIT = Split("triplet", seed=1, test_share=0.5)


@pytest.fixture(scope="module")
def groups(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Database, Database]]:
    """Two groups with the same questions; their answers and authors differ, not their licence."""
    folder = tmp_path_factory.mktemp("groups")
    made = []
    for name in ("ours", "theirs"):
        database = new_database(folder, name)
        answered_study(database, name, folder)
        made.append(database)
    yield made[0], made[1]
    for database in made:
        database.close()


def new_database(folder: Path, name: str) -> Database:
    path = folder / f"{name}.db"
    path.write_bytes(migrated_sqlite())
    return open_database(f"sqlite:///{path}")


def answered_study(database: Database, name: str, images: Path) -> None:
    queries = make_queries(database, {"shirt": 8}, length=5)
    wanted = replace(
        config(
            Design(questions_per_form=2, forms_per_participant=2, seed=1),
            checks=Checks(arithmetic=False),
        ),
        questionnaire=ASKED,
        release=Publication(licence="MIT", authors=(name,), date="2026-11-23"),
    )
    with database.writing() as session:
        key = draw_study(session, wanted, queries).id
        session.scalars(select(Dataset)).one().image_root = str(images)
        for image in sorted(session.scalars(select(Image.name)))[:-1]:
            Picture.new("RGB", (4, 4)).save(images / f"{image}.png")
    for person in range(2):
        seat = Seat.taken(database, key)
        for place, question in enumerate(seat.question_ids):
            score = 1 + (person + place + len(name)) % 4
            reason = "too dark" if place == 0 else None
            extra = {"words": "fine" if place else None}
            answer = pair_answer(
                score, 5 - score, 1 if score > 2 else 2, place == 1, reason, extra=extra
            )
            seat.submit(question, answer)
        with database.writing() as session:
            session.add(QuestionnaireAnswers(
                participant_id=seat.participant_id, submitted_at=NOW,
                answers={"age": 30 + person, "job": "nurse"},
            ))  # fmt: skip
    set_status(database, key, "closed")


def export(
    database: Database, folder: Path, extras: Extras, split: Split | None = None, kind: str = "hp"
) -> Path:
    with database.reading() as session:
        (study,) = list_studies(session)
        key = study.id
    return write_release(database, key, kind, folder, split, extras=extras)


def imported(release: Path, folder: Path) -> Database:
    opened, database = open_valid(release), new_database(folder, "imported")
    with database.writing() as session:
        restore(session, opened)
    return database


def manifest_of(release: Path) -> dict[str, Any]:
    manifest: dict[str, Any] = json.loads((release / "manifest.json").read_text(encoding="utf-8"))
    return manifest


def files_of(release: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in release.iterdir()}


@pytest.mark.parametrize(
    ("extras", "split"),
    [
        (Extras(layouts=("csv", "trl"), without=("texts",)), SPLIT),
        (Extras(layouts=("hpfiq",), without=("participant-answers",)), None),
        (Extras(without=("texts", "participant-answers")), SPLIT),
    ],
)
def test_the_same_options_give_the_same_files(
    groups: tuple[Database, Database], tmp_path: Path, extras: Extras, split: Split | None
) -> None:
    before = export(groups[0], tmp_path / "before", extras, split)
    database = imported(before, tmp_path)
    after = export(database, tmp_path / "after", extras, split)
    # What was left out stays left out if nobody asks for it.
    plain = export(database, tmp_path / "plain", replace(extras, without=()), split)
    database.close()
    first = files_of(before)
    for again in (after, plain):
        assert first | {"manifest.json": b""} == files_of(again) | {"manifest.json": b""}
        source = manifest_of(again).pop("imported_from")
        assert manifest_of(again) == manifest_of(before) | {"imported_from": source}
    assert manifest_of(before)["without"] == sorted(extras.without)
    assert "left out by the owner: " in first["README.md"].decode()


def test_packed_images_are_asked_for_again(
    groups: tuple[Database, Database], tmp_path: Path
) -> None:
    """The images' files are in no folder of the new database until somebody names one."""
    extras = Extras(layouts=("webdataset", "trl", "csv"), images=True)
    before = export(groups[0], tmp_path / "before", extras, SPLIT)
    assert hsfiq("release", "verify", before).code == 0
    url = f"sqlite:///{tmp_path / 'by-command.db'}"
    done = hsfiq("import", "release", before, "--database", url)
    assert done.code == 0
    assert "packed images were not imported" in done.err
    database = imported(before, tmp_path)
    with pytest.raises(NothingToDo, match="none of the"):
        export(database, tmp_path / "none", extras, SPLIT)
    with groups[0].reading() as session:
        root = session.scalars(select(Dataset.image_root)).one()
    with database.writing() as session:
        session.scalars(select(Dataset)).one().image_root = root
    after = export(database, tmp_path / "after", extras, SPLIT)
    database.close()
    assert files_of(before) | {"manifest.json": b""} == files_of(after) | {"manifest.json": b""}


def test_the_release_says_how_alike_participants_are(
    groups: tuple[Database, Database], tmp_path: Path
) -> None:
    release = OnDisk(export(groups[0], tmp_path / "release", Extras()))
    alike = {"table": "participant_answers", "fields": ["age"], "participants": 2, "k": 1,
             "unique": 2}  # fmt: skip
    assert manifest_of(release.folder)["k_anonymity"] == alike
    card = (release.folder / "README.md").read_text(encoding="utf-8")
    assert "answers to `age` in `participant_answers`, the smallest group" in card
    assert "has 1 of 2 (k = 1); 2 are alone" in card
    without = export(groups[0], tmp_path / "without", Extras(without=("participant-answers",)))
    assert "k_anonymity" not in manifest_of(without)
    release.json("manifest.json", lambda manifest: manifest["k_anonymity"].update(k=2))
    verified = hsfiq("release", "verify", release.folder)
    assert verified.code == 1
    assert verified.out.startswith("manifest.json, k_anonymity: is {")
    release.json("manifest.json", lambda manifest: manifest.pop("k_anonymity"))
    verified = hsfiq("release", "verify", release.folder)
    assert (verified.code, "has no k_anonymity" in verified.out) == (0, True)


def merge(tmp_path: Path, *folders: Path) -> tuple[int, str]:
    done = hsfiq("release", "merge", *folders, "--out", tmp_path / "merged")
    return done.code, done.err


def test_merging_leaves_images_and_split_behind(
    groups: tuple[Database, Database], tmp_path: Path
) -> None:
    extras = Extras(layouts=("csv", "trl"), images=True, without=("texts",))
    ours, theirs = (
        export(database, tmp_path / str(number), extras, SPLIT)
        for number, database in enumerate(groups)
    )
    code, err = merge(tmp_path, ours, theirs)
    assert (code, "packed images are not in the merged release" in err) == (0, True)
    merged = tmp_path / "merged"
    assert hsfiq("release", "verify", merged).code == 0
    manifest, own, other = map(manifest_of, (merged, ours, theirs))
    assert not {"images", "split", "layouts"} & manifest.keys()
    assert manifest["without"] == ["texts"]
    assert manifest["left_out"] == {
        what: n + other["left_out"][what] for what, n in own["left_out"].items()
    }
    assert manifest["rows"]["preferences"] == 2 * own["rows"]["preferences"]
    # Both stated the licence and the date, and each of them its own author.
    publication = manifest["publication"]
    assert (publication["licence"], publication["date"]) == ("MIT", "2026-11-23")
    assert publication["authors"] is None


def test_merging_what_lacks_texts_with_what_has_them_is_refused(
    groups: tuple[Database, Database], tmp_path: Path
) -> None:
    ours = export(groups[0], tmp_path / "ours", Extras(without=("texts",)))
    theirs = export(groups[1], tmp_path / "theirs", Extras())
    code, err = merge(tmp_path, ours, theirs)
    assert (code, err.count("\n")) == (2, 1)
    assert "without is None, and of " in err
    assert not (tmp_path / "merged").exists()
