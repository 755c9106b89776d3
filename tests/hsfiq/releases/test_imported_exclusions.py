"""What was dropped before a study was imported counts in its releases as in the original's."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from sqlalchemy import select

from hsfiq.collect.owner import forget
from hsfiq.collect.participants import by_name
from hsfiq.collect.studies import list_studies
from hsfiq.db.engine import Database, open_database
from hsfiq.db.tables import Participant
from hsfiq.releases.filters import Filters
from hsfiq.releases.restore import open_valid, restore
from hsfiq.study.publication import without_answers_of
from tests.databases import migrated_sqlite
from tests.hsfiq.releases.small_releases import small_pair_study, write_release
from tests.hsfiq.samples import hsfiq

INVALID = Filters(invalid=True)
EXCLUDED, FLAGGED = "p2", "p1"


def new_database(folder: Path, name: str) -> Database:
    path = folder / f"{name}.db"
    path.write_bytes(migrated_sqlite())
    return open_database(f"sqlite:///{path}")


@pytest.fixture
def original(tmp_path: Path) -> Iterator[Database]:
    """Five participants: p1 flagged a question, and p2 is excluded."""
    database = new_database(tmp_path, "original")
    key = small_pair_study(database)
    with database.writing() as session:
        person = session.scalars(
            select(Participant).where(Participant.study_id == key, Participant.name == EXCLUDED)
        ).one()
        person.status = "excluded"
    yield database
    database.close()


def export(database: Database, folder: Path, filters: Filters) -> Path:
    with database.reading() as session:
        (study,) = list_studies(session)
        key = study.id
    return write_release(database, key, "hs", folder, filters=filters)


def imported(release: Path, folder: Path) -> Database:
    opened, database = open_valid(release), new_database(folder, "imported")
    with database.writing() as session:
        restore(session, opened)
    return database


def exclusions(release: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(release / "exclusions.parquet").to_pylist()
    return sorted(rows, key=lambda row: str(row["question_id"]))


def require_same_answers(first: Path, second: Path) -> None:
    for table in ("preferences", "sets", "queries"):
        name = f"{table}.jsonl"
        assert (first / name).read_bytes() == (second / name).read_bytes(), table
    assert exclusions(first) == exclusions(second)
    funnels = [json.loads((each / "manifest.json").read_text())["funnel"]
               for each in (first, second)]  # fmt: skip
    assert funnels[0] == funnels[1]
    verified = hsfiq("release", "verify", second)
    assert (verified.code, verified.out) == (0, f"{second}: valid\n")


def test_a_filter_after_the_import_is_one_before_it(original: Database, tmp_path: Path) -> None:
    direct = export(original, tmp_path / "direct", INVALID)
    assert {row["rule"] for row in exclusions(direct)} == {"excluded", "irrelevant"}
    database = imported(export(original, tmp_path / "all", Filters()), tmp_path)
    with database.reading() as session:
        (study,) = list_studies(session)
        assert by_name(session, study, EXCLUDED).status == "excluded"
    later = export(database, tmp_path / "later", INVALID)
    database.close()
    require_same_answers(direct, later)
    figures = []
    for folder in (direct, later):
        analyzed = hsfiq("analyze", folder, "--metric", "recall@5", "--resamples", "50", "--json")
        assert analyzed.code == 0, analyzed.err
        figures.append(analyzed.result | {"release": None})
    assert figures[0] == figures[1]


@pytest.mark.parametrize("name", [EXCLUDED, FLAGGED])
def test_forgetting_covers_what_was_dropped_before_the_import(
    original: Database, tmp_path: Path, name: str
) -> None:
    database = imported(export(original, tmp_path / "before", INVALID), tmp_path)
    released = []
    for number, each in enumerate((original, database)):
        with each.writing() as session:
            (study,) = list_studies(session)
            forget(session, by_name(session, study, name))
        released.append(export(each, tmp_path / str(number), INVALID))
    database.close()
    require_same_answers(released[0], released[1])
    rules = {row["rule"] for row in exclusions(released[1]) if row["participant_id"] == name}
    assert rules == {"unanswered"}


def test_counts_that_were_not_recorded_stay_unknown() -> None:
    def row(person: str, *rules: str) -> dict[str, Any]:
        return {"participant_id": person, "question_id": f"{person}.f.0", "rule": rules[0],
                "value": "x", "rules": [*rules], "values": ["x"] * len(rules)}  # fmt: skip

    step = {"rule": "unanswered", "dropped": 1, "left": 2, "broken_by": 1}
    unknown = {"rule": "irrelevant", "dropped": None, "left": 2, "broken_by": None}
    checks = {"rule": "check", "dropped": 1, "left": 1, "broken_by": 1}
    failed = {"rule": "failed-checks", "dropped": 1, "left": 0, "broken_by": 2}
    design = {"imported_release": {
        "exclusions": [row("p1", "check", "failed-checks"), row("p1", "failed-checks"),
                       row("p2", "unanswered")],
        "repeats": [{"participant_id": "p1"}, {"participant_id": "p2"}],
        "steps": [step, unknown, checks, failed],
    }}  # fmt: skip
    changed = without_answers_of(design, "p1")["imported_release"]
    assert [each["rules"] for each in changed["exclusions"]] == [
        ["check", "unanswered"], ["unanswered"], ["unanswered"]
    ]  # fmt: skip
    assert [each["value"] for each in changed["exclusions"]] == ["x", "no response", "x"]
    assert changed["repeats"] == [{"participant_id": "p2"}]
    assert [(each["dropped"], each["broken_by"]) for each in changed["steps"]] == [
        (2, 3), (None, None), (1, 1), (0, 0)
    ]  # fmt: skip
    assert without_answers_of({"k": 1}, "p1") == {"k": 1}
