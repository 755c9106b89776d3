"""Importing datasets and published studies: complete, and only once."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from sqlalchemy import func, select

from hsfiq.collect.studies import list_studies
from hsfiq.db.engine import Database
from hsfiq.db.source_tables import Image, Triplet
from hsfiq.db.tables import Form, Pair, Question, RetrievedSet
from hsfiq.errors import UnreadableInput
from hsfiq.importing import Imported, dataset_named, import_published, import_source
from hsfiq.readers import datasets, hpfiq
from hsfiq.records import Source
from hsfiq.records import Triplet as TripletRecord
from tests.hsfiq.samples import (
    CIRR,
    FASHIONIQ,
    HPFIQ,
    hsfiq,
    import_fashioniq,
    import_hpfiq,
    imported,
    on_sqlite,
    published,
    release_of,
    rows,
)


def count(database: Database, table: type) -> int:
    with database.reading() as session:
        return session.scalar(select(func.count()).select_from(table)) or 0


def test_a_published_file_is_a_finished_study(database: Database) -> None:
    import_hpfiq(database)
    with database.reading() as session:
        (study,) = list_studies(session)
        assert (study.name, study.status, study.origin) == ("hpfiq", "closed", "imported")
        assert (study.k, study.forms_per_participant) == (5, 2)
    assert count(database, Form) == 4
    assert count(database, Question) == 5
    assert count(database, Pair) == 4  # user_2 meets a pair of user_1 with its sides swapped
    assert count(database, RetrievedSet) == 7


def test_importing_it_again_adds_nothing(database: Database) -> None:
    import_hpfiq(database)
    before = release_of(database).files
    with database.writing() as session:
        assert import_published(session, "hpfiq", hpfiq.read(HPFIQ)) == Imported(0, 5)
    assert release_of(database).files == before


def test_other_answers_under_the_same_name_are_refused(database: Database, tmp_path: Path) -> None:
    import_hpfiq(database)
    value = published()
    value["user_1"]["question_set_1"]["preferred set"][0] = "2"
    path = tmp_path / "other.json"
    path.write_text(json.dumps(value), encoding="utf-8")
    with pytest.raises(UnreadableInput, match="study hpfiq: already exists with other answers"):
        import_hpfiq(database, path)
    import_hpfiq(database, path, "second")
    with database.reading() as session:
        assert [study.name for study in list_studies(session)] == ["hpfiq", "second"]


def test_fashioniq_adopts_the_triplets_of_an_imported_study(database: Database) -> None:
    import_hpfiq(database)
    import_fashioniq(database)
    queries = rows(release_of(database), "queries")
    assert [row["query_id"] for row in queries] == [
        "shirt.val.0",
        "shirt.val.1~",
        "shirt.val.0~",
        "shirt.val.1#1",
    ]
    assert queries[0]["captions"] == ["is red", "has no collar"]
    assert queries[0]["split"] == "val"
    assert count(database, Triplet) == 5


def test_a_repeated_triplet_is_adopted_once(database: Database) -> None:
    import_hpfiq(database)
    twins = tuple(
        TripletRecord(f"shirt.val.{n}", "ref_a", "tgt_a", ("is red", f"has {n}"), "shirt", "val")
        for n in range(2)
    )
    with database.writing() as session:
        dataset = dataset_named(session, "fashioniq")
        source = Source(Path("twins"), "shirt.val", (), twins)
        assert import_source(session, dataset, source) == Imported(2, 0)
        assert import_source(session, dataset, source) == Imported(0, 2)
    ids = {row["triplet_id"] for row in rows(release_of(database), "queries")}
    assert ids == {"shirt.val.0", "shirt.hpfiq.ref_b.tgt_b"}


@on_sqlite
def test_importing_a_dataset_again_adds_nothing(database: Database) -> None:
    import_fashioniq(database)
    with database.writing() as session:
        dataset = dataset_named(session, "fashioniq")
        imported = [
            import_source(session, dataset, source) for source in datasets.read_fashioniq(FASHIONIQ)
        ]
    assert imported == [Imported(0, 1), Imported(0, 1), Imported(0, 3)]


@on_sqlite
def test_cirr(database: Database) -> None:
    with database.writing() as session:
        dataset = dataset_named(session, "cirr")
        imported = [import_source(session, dataset, source) for source in datasets.read_cirr(CIRR)]
        assert imported == [Imported(1, 0), Imported(2, 0)]
        triplets = {
            t.external_id: (t.category, t.target_id) for t in session.scalars(select(Triplet))
        }
    assert set(triplets) == {"3", "7", "12"}
    assert triplets["3"] == ("", None)


@on_sqlite
@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        ("captions/cap.shirt.val.json", "has stripes", "has dots", "triplet shirt.val.2 was"),
        ("captions/cap.shirt.val.json", '"s2"', '"s3"', "with another target_id"),
        ("image_splits/split.shirt.val.json", '"s9"', '"s10"', "other images (13 then, 13 now)"),
    ],
)
def test_changed_content_is_refused(
    database: Database, file: str, old: str, new: str, message: str, tmp_path: Path
) -> None:
    import_fashioniq(database)
    shutil.copytree(FASHIONIQ, tmp_path / "fiq")
    path = tmp_path / "fiq" / file
    path.write_text(path.read_text().replace(old, new, 1))
    before = count(database, Image)
    with pytest.raises(UnreadableInput) as error:
        import_fashioniq(database, tmp_path / "fiq")
    assert message in str(error.value)
    assert "cap.shirt.val.json" in str(error.value)
    assert count(database, Image) == before


# ----------------------------------------------------------------------------------- commands


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HSFIQ_DATABASE_URL", raising=False)


def test_the_commands_report_added_and_existing_rows(tmp_path: Path) -> None:
    first = hsfiq("import", "fashioniq", FASHIONIQ, "--category", "shirt")
    assert first.out == "shirt.test: 1 triplet added\nshirt.val: 3 triplets added\n"
    assert "15 of 15 images are missing" in first.err
    before = imported(tmp_path / "hsfiq.db")
    repeated = hsfiq("import", "fashioniq", FASHIONIQ, "--category", "shirt")
    assert "shirt.val: nothing new, all 3 triplets existed" in repeated.out
    assert imported(tmp_path / "hsfiq.db") == before
    assert hsfiq("import", "hpfiq", HPFIQ).out == "study hpfiq: 5 questions added\n"
    before = imported(tmp_path / "hsfiq.db")
    result = hsfiq("import", "hpfiq", HPFIQ, "--json").result
    assert result == {"study hpfiq": {"added": 0, "already": 5}}
    assert imported(tmp_path / "hsfiq.db") == before


def test_image_folders_are_detected(tmp_path: Path) -> None:
    shutil.copytree(FASHIONIQ, tmp_path / "fiq")
    (tmp_path / "fiq" / "images" / "shirt").mkdir(parents=True)
    (tmp_path / "fiq" / "images" / "shirt" / "s1.PNG").touch()
    command = hsfiq("import", "fashioniq", "fiq", "--split", "val", "--category", "shirt")
    assert command.err == "12 of 13 images are missing below fiq/images\n"


@pytest.mark.shared
def test_the_real_validation_files(shared: Path) -> None:
    for name in ("fashioniq", "cirr"):
        command = hsfiq("import", name, shared / "data" / name, "--json")
        assert command.code == 0
        counts = {corpus: count["added"] for corpus, count in command.result.items()}
        assert sum(counts.values()) == {"fashioniq": 6016, "cirr": 4181 + 4148}[name]
        assert "images are missing" in command.err
