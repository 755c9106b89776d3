"""What a release of a next study records, and what earlier releases hold out."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sqlalchemy import select

from hsfiq.db.engine import Database
from hsfiq.db.source_tables import Dataset, Image, RankedList, System
from hsfiq.db.tables import Pair, Study
from tests.hsfiq.active.chosen_pairs import pairs_of, study_of
from tests.hsfiq.samples import hsfiq, on_sqlite
from tests.studies import SYSTEMS, Seat

pytestmark = pytest.mark.usefixtures("database")


def test_a_release_says_how_its_pairs_were_chosen(study_database: Database, tmp_path: Path) -> None:
    assert hsfiq("study", "next", "--n", "4", "--strategy", "random", "--seed", "3").code == 0
    study = study_of(study_database, "small-2")
    Seat.taken(study_database, study.id).answer_all()
    words = ("export", "--study", "small-2", "--release", "hp", "--out", tmp_path / "hp")
    assert hsfiq(*words).code == 0
    manifest = json.loads((tmp_path / "hp" / "manifest.json").read_text())
    assert manifest["chosen_by"] == {"strategy": "random", "seed": 3}
    card = (tmp_path / "hp" / "README.md").read_text()
    assert "## How the pairs were chosen" in card
    assert "no random sample" not in card


@on_sqlite
def test_triplets_held_out_by_a_release_are_not_chosen(
    study_database: Database, tmp_path: Path
) -> None:
    Seat.taken(study_database, 1).answer_all()
    Seat.taken(study_database, 1).answer_all()
    words = ("--split", "triplet", "--test-share", "0.5")
    assert hsfiq("export", "--release", "hp", "--out", tmp_path / "hp", *words).code == 0
    release = tmp_path / "hp"
    parts = {
        row["question_id"]: row["part"]
        for row in pq.read_table(release / "splits.parquet").to_pylist()
    }
    held_out = {
        row["query_id"]
        for row in pq.read_table(release / "preferences.parquet").to_pylist()
        if parts[row["question_id"]] == "test"
    }
    assert held_out
    n = 12 - len(held_out)
    random = ("--strategy", "random", "--release", release)
    command = hsfiq("study", "next", "--study", "small", "--n", str(n), *random, "--json")
    assert command.code == 0
    assert command.result["held_out_triplets"] == len(held_out)
    assert {name for name, _ in pairs_of(study_database, "small-2")}.isdisjoint(held_out)


@on_sqlite
def test_a_split_by_participant_holds_out_no_triplet(
    study_database: Database, tmp_path: Path
) -> None:
    for _ in range(3):
        Seat.taken(study_database, 1).answer_all()
    words = ("--split", "participant", "--test-share", "0.4")
    assert hsfiq("export", "--release", "hp", "--out", tmp_path / "hp", *words).code == 0
    command = hsfiq(
        "study", "next", "--n", "2", "--strategy", "random", "--release", tmp_path / "hp"
    )
    assert command.code == 2
    assert "holds out participants and no triplets; leave --release out" in command.err


@on_sqlite
def test_with_split_by_both_no_held_out_triplet_is_chosen(
    study_database: Database, tmp_path: Path
) -> None:
    """Including triplets that only participants in the training part have judged."""
    for _ in range(3):
        Seat.taken(study_database, 1).answer_all()
    words = ("--split", "both", "--test-share", "0.5")
    assert hsfiq("export", "--release", "hp", "--out", tmp_path / "hp", *words).code == 0
    rows = pq.read_table(tmp_path / "hp" / "splits.parquet").to_pylist()
    n_train = sum(row["part"] == "train" for row in rows)
    split = json.loads((tmp_path / "hp" / "manifest.json").read_text())["split"]
    random = ("--strategy", "random", "--release", tmp_path / "hp")
    command = hsfiq("study", "next", "--n", str(n_train), *random, "--json")
    assert command.code == 0
    assert command.result["held_out_triplets"] == len(rows) - n_train >= split["held_out_triplets"]


@on_sqlite
def test_a_release_of_another_dataset(study_database: Database, tmp_path: Path) -> None:
    Seat.taken(study_database, 1).answer_all()
    words = ("--split", "triplet", "--test-share", "0.5")
    assert hsfiq("export", "--release", "hp", "--out", tmp_path / "hp", *words).code == 0
    with study_database.writing() as session:
        session.scalars(select(Dataset)).one().name = "renamed"
        study = session.scalars(select(Study)).one()
        study.design = study.design | {"queries": study.design["queries"] | {"dataset": "renamed"}}
    command = hsfiq(
        "study", "next", "--n", "2", "--strategy", "random", "--release", tmp_path / "hp"
    )
    assert command.code == 2
    assert "--release: asks about small, not renamed" in command.err


@on_sqlite
def test_runs_imported_later_are_not_compared(study_database: Database) -> None:
    with study_database.writing() as session:
        system = System(name="delta")
        session.add(system)
        session.flush()
        query = session.scalars(select(Pair.query_id)).first()
        images = session.scalars(select(Image.id)).all()[:3]
        session.add(RankedList(system_id=system.id, query_id=query, image_ids=list(images)))
    command = hsfiq("study", "next", "--n", "12", "--strategy", "random", "--json")
    assert command.code == 0
    assert set(command.result["systems"]) == set(SYSTEMS)


@on_sqlite
def test_a_release_that_leaks_is_refused(study_database: Database, tmp_path: Path) -> None:
    Seat.taken(study_database, 1).answer_all()
    words = ("--split", "triplet", "--test-share", "0.5")
    assert hsfiq("export", "--release", "hp", "--out", tmp_path / "hp", *words).code == 0
    path = tmp_path / "hp" / "splits.parquet"
    kept = pq.read_table(path).to_pylist()[1:]
    pq.write_table(pa.Table.from_pylist(kept, schema=pq.read_schema(path)), path)
    command = hsfiq(
        "study", "next", "--n", "2", "--strategy", "random", "--release", tmp_path / "hp"
    )
    assert command.code == 2
    assert "splits.parquet" in command.err
