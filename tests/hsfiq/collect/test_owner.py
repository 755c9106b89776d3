"""Owner's actions: the same lock and conflict check for the dashboard and the command line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import typer

from hsfiq.actors import OWNER
from hsfiq.collect import owner
from hsfiq.collect.owner import Deleted, OwnerAction, perform, prepare
from hsfiq.collect.participants import by_name
from hsfiq.collect.studies import list_studies
from hsfiq.db.engine import Database
from hsfiq.db.tables import Response
from hsfiq.errors import Conflict, Refused
from tests.hsfiq.samples import hsfiq, on_sqlite
from tests.studies import Seat, small_study


@pytest.fixture
def seat(database: Database, database_url: str, monkeypatch: pytest.MonkeyPatch) -> Seat:
    """Participant p1 of an open study, in the database that commands use."""
    monkeypatch.setenv("HSFIQ_DATABASE_URL", database_url)
    return Seat.taken(database, small_study(database))


def study_status(database: Database) -> str:
    with database.reading() as session:
        return list_studies(session)[0].status


def run_before_performing(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> None:
    """Run another command after the next action is prepared and before it is performed."""

    def interrupted(*call_arguments: Any) -> Deleted:
        monkeypatch.setattr(owner, "perform", perform)
        assert hsfiq(*arguments).code == 0
        return perform(*call_arguments)

    monkeypatch.setattr(owner, "perform", interrupted)


@pytest.mark.parametrize(
    ("first", "second", "status"),
    [("exclude", "resume", "excluded"), ("pause", "screened-out", "paused")],
)
def test_concurrent_commands_on_a_participant(
    seat: Seat, monkeypatch: pytest.MonkeyPatch, first: str, second: str, status: str
) -> None:
    run_before_performing(monkeypatch, "participant", first, "p1")
    command = hsfiq("participant", second, "p1")
    assert (command.code, command.out) == (1, "")
    assert f"p1 is now {status}, no longer active" in command.err
    assert seat.participant().status == status


def test_concurrent_commands_on_a_study(
    database: Database, seat: Seat, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_before_performing(monkeypatch, "study", "close")
    assert hsfiq("study", "pause").code == 1
    assert study_status(database) == "closed"


def test_a_status_change_while_deletion_is_confirmed(
    seat: Seat, monkeypatch: pytest.MonkeyPatch
) -> None:
    seat.answer_all()

    def confirm(_question: str, **_: Any) -> bool:
        return hsfiq("participant", "exclude", "p1").code == 0

    monkeypatch.setattr(typer, "confirm", confirm)
    assert hsfiq("participant", "forget", "p1").code == 1
    assert seat.participant().status == "excluded"
    with seat.database.reading() as session:
        assert session.query(Response).count() == 4


def prepared(
    database: Database, action: str, participant: str | None = None
) -> Callable[[], OwnerAction]:
    def run() -> OwnerAction:
        with database.reading() as session:
            study = list_studies(session)[0]
            person = by_name(session, study, participant) if participant else None
            return prepare(study, action, person)

    return run


@on_sqlite
def test_an_action_on_a_changed_row_conflicts(database: Database, seat: Seat) -> None:
    action = prepared(database, "exclude", "p1")()
    seat.set_status("returned")
    with pytest.raises(Conflict) as raised, database.writing() as session:
        perform(session, action, OWNER)
    assert raised.value.what == "p1 is now returned, no longer active"
    assert raised.value.remedy == "try again"


@on_sqlite
@pytest.mark.parametrize("participant", [None, "p1"])
def test_a_finished_study_cannot_be_changed(
    database: Database, seat: Seat, participant: str | None
) -> None:
    action = "reassign" if participant else "open"
    before = prepared(database, action, participant)()
    with database.writing() as session:
        list_studies(session)[0].origin = "imported"
    with pytest.raises(Refused, match="cannot accept more"):
        prepared(database, action, participant)()
    with pytest.raises(Refused, match="cannot accept more"), database.writing() as session:
        perform(session, before, OWNER)
    assert prepared(database, "exclude", "p1")().status_after == "excluded"
