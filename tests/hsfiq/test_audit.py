"""The audit log: what is written, selected and pruned."""

from __future__ import annotations

import os
import pwd
import re
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import update

from hsfiq.actors import NOBODY, OWNER, Action, Actor, Outcome, command_line
from hsfiq.audit import Selection, count_entries, entries, facts, newest_entries, prune, record
from hsfiq.db.engine import Database
from hsfiq.db.tables import AuditEntry
from tests.studies import ROOT

NOW = datetime(2026, 3, 1, 12, 0, 0, 123456, tzinfo=UTC)


def filled(database: Database) -> None:
    """Four entries, an hour apart, the last one at `NOW`."""
    with database.writing() as session:
        record(session, OWNER, Action.STUDY_OPEN, study="autumn")
        record(session, Actor("command line: ann"), Action.PARTICIPANT_PAUSE, study="spring")
        record(session, NOBODY, Action.LOGIN, outcome=Outcome.REFUSED)
        record(session, OWNER, Action.PARTICIPANT_FORGET, study="autumn", about="p7")
        for number, entry in enumerate(entries(session, Selection())):
            at = NOW - timedelta(hours=3 - number)
            session.execute(update(AuditEntry).where(AuditEntry.id == entry.id).values(at=at))


def actions(database: Database, selection: Selection) -> list[str]:
    with database.reading() as session:
        selected = [entry.action for entry in entries(session, selection)]
        assert count_entries(session, selection) == len(selected)
        newest = newest_entries(session, selection, 2)
        assert [entry.action for entry in newest] == selected[::-1][:2]
        return selected


def test_entries_are_selected(database: Database) -> None:
    filled(database)
    everything = ["study.open", "participant.pause", "login", "participant.forget"]
    assert actions(database, Selection()) == everything
    assert actions(database, Selection(study="autumn")) == [everything[0], everything[3]]
    general = Selection(study="autumn", with_general=True)
    assert actions(database, general) == [everything[0], *everything[2:]]
    assert actions(database, Selection(since=NOW - timedelta(hours=1))) == everything[2:]
    assert actions(database, Selection(actor="command line: ann")) == [everything[1]]
    assert actions(database, Selection(study="autumn", actor="ann")) == []


def test_an_entry_says_who_did_what_when_and_to_what(database: Database) -> None:
    filled(database)
    with database.reading() as session:
        *_, refused, forgotten = map(facts, entries(session, Selection()))
    assert forgotten == {
        "at": "2026-03-01T12:00:00.123Z", "actor": "owner", "action": "participant.forget",
        "study": "autumn", "about": "p7", "outcome": "done",
    }  # fmt: skip
    unknown = {"actor": "not logged in", "study": None, "about": "", "outcome": "refused"}
    assert refused == refused | unknown


def test_an_entry_is_written_with_its_action_or_not_at_all(database: Database) -> None:
    with database.writing() as session:
        record(session, OWNER, Action.STUDY_OPEN, study="autumn")
        session.rollback()
    assert actions(database, Selection()) == []


def test_pruning_is_recorded_itself(database: Database) -> None:
    filled(database)
    with database.writing() as session:
        assert prune(session, OWNER, NOW - timedelta(hours=1)) == 2
    assert actions(database, Selection()) == ["login", "participant.forget", "audit.prune"]
    with database.reading() as session:
        about = entries(session, Selection())[-1].about
    assert about == "2 entries before 2026-03-01T11:00:00Z"


def test_only_the_log_itself_has_to_do_with_the_table() -> None:
    """Elsewhere, nothing could change or delete entries."""
    users = {
        str(path.relative_to(ROOT))
        for folder in ("hsfiq", "annotate", "model")
        for path in (ROOT / folder).rglob("*.py")
        if re.search(r"AuditEntry|audit_entries", path.read_text(encoding="utf-8"))
    }
    assert users == {
        "hsfiq/audit.py",  # reads
        "hsfiq/cli/audit.py",  # names its type
        "hsfiq/cli/common.py",  # asks whether there is such a table
        "hsfiq/db/tables.py",
    }
    writing = re.findall(r"\b(update|delete|merge)\(", (ROOT / "hsfiq/audit.py").read_text())
    assert writing == ["delete"]  # in `prune`


def test_the_user_of_the_command_line_does_not_depend_on_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LOGNAME", "somebody-else")
    monkeypatch.setenv("USER", "somebody-else")
    name = pwd.getpwuid(os.getuid()).pw_name
    assert command_line() == Actor(f"command line: {name}")
    monkeypatch.setattr(os, "getuid", lambda: 987654)  # who has no name
    assert command_line() == Actor("command line: uid 987654")
