"""`hsfiq participant`: its output and its effect."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import typer
from sqlalchemy import func, select

from hsfiq.collect import participants
from hsfiq.db.engine import Database
from hsfiq.db.tables import CheckAnswer, Question, Response, Study
from tests.hsfiq.cli.owner_commands import complaint, count, output_of, seats, the_study
from tests.hsfiq.samples import hsfiq, on_sqlite
from tests.studies import NOW, Seat

pytestmark = pytest.mark.usefixtures("owners_folder")


def test_abandoned_questions_are_reassigned(database: Database) -> None:
    first, second = seats(database, 2)
    second.answer_all()
    first.submit(first.question_ids[0])
    assert "unanswered questions of p1 go" in output_of("study", "assign", "p1")
    assert Seat.taken(database, the_study(database).id).standing().total == 3
    assert complaint(hsfiq("study", "assign", "p9")) == "study autumn has no participant 'p9'"


@on_sqlite
def test_a_participants_status_can_be_changed_and_restored(database: Database) -> None:
    (seat,) = seats(database, 1)
    for command, status in (
        ("pause", "paused"),
        ("exclude", "excluded"),
        ("returned", "returned"),
        ("screened-out", "screened-out"),
    ):
        assert output_of("participant", command, "p1") == f"participant p1: active -> {status}\n"
        assert seat.participant().status == status
        resumed = json.loads(output_of("participant", "resume", "p1", "--json"))
        assert resumed == {
            "study": "autumn", "participant": "p1", "platform_id": None, "before": status,
            "status": "active",
        }  # fmt: skip
        assert "has no participant 'p2'" in complaint(hsfiq("participant", command, "p2"))


def platform_participant(database: Database, external_id: str) -> str:
    """Enrol somebody who came from Prolific; return their name."""
    with database.writing() as session:
        study = session.scalars(select(Study)).one()
        person = participants.enrol(
            session, study.id, now=NOW, source="prolific", external_id=external_id
        )
        return person.name


def test_participants_are_listed_and_platform_ids_accepted(database: Database) -> None:
    output_of("study", "create", "study.toml")
    assert output_of("participant", "list").startswith("no participant yet: hsfiq serve")
    Seat.taken(database, the_study(database).id).answer_until(4)
    assert platform_participant(database, "5f8e0c1d") == "p2"
    names, first, second = output_of("participant", "list").splitlines()
    assert names.split()[:2] == ["participant", "platform"]
    assert first.split()[:4] == ["p1", "active", "3", "4"]
    assert second.split()[:2] == ["p2", "5f8e0c1d"]
    rows = json.loads(output_of("participant", "list", "--json"))["participants"]
    assert [row["platform_id"] for row in rows] == [None, "5f8e0c1d"]
    assert [rows[0][key] for key in ("participant", "status", "answered")] == ["p1", "active", 3]
    for command, status in (("pause", "paused"), ("resume", "active"), ("returned", "returned")):
        line = output_of("participant", command, "5f8e0c1d")
        assert line.startswith("participant p2 (5f8e0c1d): ")
        assert line.endswith(f"-> {status}\n")
    assert "questions of p2 (5f8e0c1d) go" in output_of("study", "assign", "5f8e0c1d")
    forgotten = output_of("participant", "forget", "5f8e0c1d", "--yes")
    assert forgotten == "participant p2 (5f8e0c1d) of study autumn: 0 answers deleted\n"
    assert "no participant '5f8e0c1d'" in complaint(hsfiq("participant", "pause", "5f8e0c1d"))


@on_sqlite
def test_a_name_that_is_another_participants_platform_id_is_ambiguous(database: Database) -> None:
    (seat,) = seats(database, 1)
    platform_participant(database, "p1")
    for command in (["participant", "exclude"], ["participant", "forget", "--yes"]):
        assert "write name:p1 or id:p1" in complaint(hsfiq(*command, "p1"))
    assert seat.participant().status == "active"
    assert output_of("participant", "pause", "id:p1") == "participant p2 (p1): active -> paused\n"
    assert output_of("participant", "pause", "name:p1") == "participant p1: active -> paused\n"
    assert "no participant 'id:p2'" in complaint(hsfiq("participant", "pause", "id:p2"))


# -------------------------------------------------------------------------------------- forgetting


@on_sqlite
@pytest.mark.parametrize("identified_by", ["token", "name"])
def test_forgetting_names_the_releases_and_alters_none(
    database: Database, identified_by: str
) -> None:
    for seat in seats(database, 2):
        seat.answer_all()
    output_of("export")
    output_of("export", "--out", "elsewhere", "--release", "hs")
    before = contents()
    token = seat.known_token()
    name = seat.participant().name
    output = output_of(
        "participant", "forget", token if identified_by == "token" else name, "--yes"
    )
    first, *recorded, hp_folder, hs_folder = output.splitlines()
    assert first == f"participant {name} of study autumn: 4 answers deleted"
    assert [line.split()[:3] for line in recorded] == [
        ["release", "autumn-hs", "1.0.0"],
        ["release", "autumn-hp", "1.0.0"],
    ]
    assert all(f"has answers of {name}, as have all its" in line for line in recorded)
    assert [hp_folder, hs_folder] == [
        f"releases/autumn-hp-1.0.0 still holds answers of {name}; it was not altered",
        f"releases/autumn-hs-1.0.0 still holds answers of {name}; it was not altered",
    ]
    assert contents() == before
    with database.reading() as session:
        assert session.scalar(select(func.count(Response.id))) == 4
        assert session.scalar(select(func.count(CheckAnswer.id))) == 1
        assert participants.by_token(session, token) is None
    repeated = json.loads(
        output_of("participant", "forget", name, "--yes", "--json", "--releases", ".")
    )
    assert repeated == {
        "participant": name, "study": "autumn", "deleted": 0, "erased": True,
        "recorded_releases": [], "releases": ["elsewhere"],
    }  # fmt: skip
    assert "has no participant" in complaint(hsfiq("participant", "forget", token, "--yes"))


def contents() -> dict[Path, bytes]:
    return {
        path: path.read_bytes()
        for folder in ("releases", "elsewhere")
        for path in Path(folder).rglob("*")
        if path.is_file()
    }


@on_sqlite
def test_a_name_that_is_ones_own_platform_id_is_not_ambiguous(database: Database) -> None:
    output_of("study", "create", "study.toml")
    platform_participant(database, "p1")
    assert output_of("participant", "pause", "p1") == "participant p1 (p1): active -> paused\n"


@on_sqlite
@pytest.mark.parametrize("is_dropped", [True, False])
def test_a_release_has_who_was_dropped_but_nobody_without_answers(
    database: Database, is_dropped: bool
) -> None:
    first, second = seats(database, 2)
    second.submit(second.question_ids[0])
    if is_dropped:
        first.submit(first.question_ids[0])
        first.set_status("excluded")
    output_of("export", "--release", "hp")
    deleted, *releases = output_of("participant", "forget", "p1", "--yes").splitlines()
    assert deleted.startswith("participant p1 of study autumn: ")
    if is_dropped:
        recorded, folder = releases
        assert recorded.startswith("release autumn-hp 1.0.0 of ")
        assert folder.startswith("releases/autumn-hp-1.0.0 still holds answers of p1")
    else:
        assert releases == []


@on_sqlite
def test_broken_releases_do_not_stop_forgetting(database: Database) -> None:
    (seat,) = seats(database, 1)
    seat.answer_all()
    output_of("export")
    Path("releases/autumn-hp-1.0.0/preferences.jsonl").unlink()
    Path("releases/autumn-hs-1.0.0/preferences.jsonl").write_bytes(b"\xff{")
    Path("releases/other").mkdir()
    assert "4 answers deleted" in output_of("participant", "forget", "p1", "--yes")


@on_sqlite
def test_forgetting_asks_for_confirmation(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    (seat,) = seats(database, 1)
    seat.answer_all()
    answers = iter([False, True])

    def confirm(question: str, **_: Any) -> bool:
        assert question == "Delete all answers of p1?"
        return next(answers)

    monkeypatch.setattr(typer, "confirm", confirm)
    for code, n_left in ((2, 4), (0, 0)):
        assert hsfiq("participant", "forget", "p1").code == code
        assert (count(database, Response), count(database, Question)) == (n_left, 8)
