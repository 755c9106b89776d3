"""Forgetting and withdrawing leave nothing of a person in the database's files."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy import select, text

from hsfiq.collect import participants
from hsfiq.collect.withdrawal import ERASED_AFTER, ERASURE, erase_withdrawn, withdraw
from hsfiq.db.engine import Database
from hsfiq.db.source_tables import Query, Setting
from hsfiq.db.tables import Participant
from tests.databases import PostgresServer
from tests.hsfiq.samples import hsfiq
from tests.studies import NOW, Seat, draw, make_queries, pair_answer

REVISIONS = 40
"""Enough for SQLite to split pages, which leaves copies of rows in unused parts of pages."""

RELATIONS = text(
    "SELECT pg_read_binary_file(pg_relation_filepath(oid)) FROM pg_class"
    " WHERE relkind IN ('r', 't', 'i') AND relnamespace IN ('public'::regnamespace, "
    "'pg_toast'::regnamespace) AND pg_relation_filepath(oid) IS NOT NULL"
)


def bytes_of(database: Database) -> bytes:
    """The content of all files of the database; of PostgreSQL's, those of tables and indexes."""
    if database.engine.dialect.name == "sqlite":
        file = Path(str(database.engine.url.database))
        return b"".join(path.read_bytes() for path in sorted(file.parent.glob(f"{file.name}*")))
    with database.engine.connect() as connection:
        if not connection.scalar(text("SELECT rolsuper FROM pg_roles WHERE rolname = user")):
            pytest.skip("only a superuser can read PostgreSQL's files")
        connection.execute(text("CHECKPOINT"))
        return b"".join(connection.scalars(RELATIONS))


def traces(seat: Seat) -> list[bytes]:
    """What identifies a person or quotes them."""
    name = seat.participant().name
    reasons = [f"reason {number} of {name}.".encode() for number in range(REVISIONS)]
    keys = [f"key-{number}-of-{name}-".encode() for number in range(REVISIONS)]
    token, external_id = seat.participant().token_hash, seat.participant().external_id
    return [*reasons, *keys, token.encode(), str(external_id).encode()]


@pytest.fixture
def seats(database: Database) -> list[Seat]:
    """Two participants who have revised one answer many times."""
    study = draw(database, make_queries(database, {"shirt": 16}))
    seats = []
    for number in (1, 2):
        with database.writing() as session:
            participant = participants.enrol(
                session, study, now=NOW, source="prolific", external_id=f"platform-id-{number}"
            )
            participants.consent(participant, now=NOW)
            seats.append(Seat(database, participant.id))
    for revision in range(REVISIONS):
        for seat in seats:
            name = seat.participant().name
            # PostgreSQL would compress repetitive text, in which no bytes could be searched.
            reason = f"reason {revision} of {name}." + secrets.token_urlsafe(revision % 5 * 700)
            seat.submit(
                seat.question_ids[0],
                pair_answer(4, 2, 1, reason=reason),
                revision=revision,
                key=f"key-{revision}-of-{name}-{'k' * 20}",
            )
    return seats


def wait_for_other_sessions(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """How long `forget` waits for other sessions."""
    monkeypatch.setattr("hsfiq.db.sqlite.BUSY_SECONDS", seconds)
    monkeypatch.setattr("hsfiq.db.postgres.BUSY_SECONDS", seconds)


def test_no_file_holds_what_a_forgotten_person_wrote(
    database: Database, seats: list[Seat], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Tests in other processes write to other databases of the same PostgreSQL server.
    wait_for_other_sessions(monkeypatch, 300)
    forgotten, other = map(traces, seats)
    before = bytes_of(database)
    assert all(trace in before for trace in (*forgotten, *other))
    url = database.engine.url.render_as_string(hide_password=False)
    ran = hsfiq("participant", "forget", "p1", "--yes", "--json", "--database", url)
    assert (ran.code, ran.err) == (0, "")
    assert (ran.result["deleted"], ran.result["erased"]) == (1, True)
    after = bytes_of(database)
    assert [trace for trace in forgotten if trace in after] == []
    assert all(trace in after for trace in other)


def test_no_file_holds_the_answers_of_a_deleted_study(
    database: Database, seats: list[Seat], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = database.engine.url.render_as_string(hide_password=False)
    deleted = [trace for seat in seats for trace in traces(seat)]
    assert hsfiq("study", "close", "small", "--database", url).code == 0
    wait_for_other_sessions(monkeypatch, 0.1)
    delete = ("study", "delete", "small", "--yes", "--database", url, "--backup")
    with old_state_being_read(database):
        ran = hsfiq(*delete, tmp_path / "in-use.backup", "--json")
    assert (ran.code, ran.result["erased"]) == (1, False)
    wait_for_other_sessions(monkeypatch, 300)
    erase_withdrawn(database, datetime.now(UTC) + 2 * ERASED_AFTER)
    after = bytes_of(database)
    assert [trace for trace in deleted if trace in after] == []

    with database.reading() as session:
        queries = session.scalars(select(Query.id)).all()
    draw(database, queries, name="again")
    assert hsfiq("study", "close", "again", "--database", url).code == 0
    ran = hsfiq(*delete[:2], "again", *delete[3:], tmp_path / "file.backup", "--json")
    assert (ran.code, ran.result["erased"]) == (0, True)
    with database.reading() as session:
        assert session.get(Setting, ERASURE) is None


@contextmanager
def old_state_being_read(database: Database) -> Iterator[None]:
    """Another transaction that still reads the state before the deletion."""
    began, may_end = threading.Event(), threading.Event()

    def read() -> None:
        with database.reading() as session:
            session.get(Participant, 1)
            began.set()
            may_end.wait()

    thread = threading.Thread(target=read)
    thread.start()
    began.wait()
    try:
        yield
    finally:
        may_end.set()
        thread.join()


def test_a_reader_of_the_old_state_is_reported(
    database: Database, seats: list[Seat], monkeypatch: pytest.MonkeyPatch
) -> None:
    url = database.engine.url.render_as_string(hide_password=False)
    forget = ("participant", "forget", "p1", "--yes", "--database", url)
    forgotten = traces(seats[0])
    wait_for_other_sessions(monkeypatch, 0.1)
    with old_state_being_read(database):
        ran = hsfiq(*forget)
    wait_for_other_sessions(monkeypatch, 300)
    assert ran.code == 1
    assert "p1 (platform-id-1) of study small: 1 answers deleted" in ran.out
    assert "files can still contain the deleted answers" in ran.out
    assert "repeat `hsfiq participant forget p1`" in ran.out
    ran = hsfiq(*forget)
    assert ran.code == 0
    assert "can still contain" not in ran.out
    after = bytes_of(database)
    assert [trace for trace in forgotten if trace in after] == []


@pytest.mark.parametrize("kind", [pytest.param("postgresql", marks=pytest.mark.postgres)])
def test_an_older_transaction_in_another_database_is_reported(
    database: Database,
    seats: list[Seat],
    postgres_server: PostgresServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """PostgreSQL's snapshots begin at the oldest transaction of all databases of the server."""
    url = database.engine.url.render_as_string(hide_password=False)
    forget = ("participant", "forget", "p1", "--yes", "--json", "--database", url)
    forgotten = traces(seats[0])
    wait_for_other_sessions(monkeypatch, 0.1)
    with postgres_server.engine.connect() as other_database:
        other_database.execution_options(isolation_level="READ COMMITTED")
        other_database.execute(text("SELECT pg_current_xact_id()"))
        ran = hsfiq(*forget)
        assert (ran.code, ran.result["erased"]) == (1, False)
        other_database.rollback()
    wait_for_other_sessions(monkeypatch, 300)
    ran = hsfiq(*forget)
    assert (ran.code, ran.result["erased"]) == (0, True)
    after = bytes_of(database)
    assert [trace for trace in forgotten if trace in after] == []


def test_no_file_holds_what_somebody_wrote_who_withdrew_an_hour_ago(
    database: Database, seats: list[Seat], monkeypatch: pytest.MonkeyPatch
) -> None:
    wait_for_other_sessions(monkeypatch, 300)
    withdrawn, other = map(traces, seats)
    with database.writing() as session:
        withdraw(session, session.get_one(Participant, seats[0].participant_id), NOW)
    erase_withdrawn(database, NOW + ERASED_AFTER / 2)
    with database.reading() as session:
        assert session.get(Setting, ERASURE) is not None
    erase_withdrawn(database, NOW + ERASED_AFTER)
    with database.reading() as session:
        assert session.get(Setting, ERASURE) is None
    after = bytes_of(database)
    assert [trace for trace in withdrawn if trace in after] == []
    assert all(trace in after for trace in other)


def test_erasing_waits_another_hour_where_the_old_state_is_being_read(
    database: Database, seats: list[Seat], monkeypatch: pytest.MonkeyPatch
) -> None:
    withdrawn = traces(seats[0])
    with database.writing() as session:
        withdraw(session, session.get_one(Participant, seats[0].participant_id), NOW)
    first, second = NOW + ERASED_AFTER, NOW + 2 * ERASED_AFTER
    wait_for_other_sessions(monkeypatch, 0.1)
    with old_state_being_read(database):
        erase_withdrawn(database, first)
    wait_for_other_sessions(monkeypatch, 300)
    with database.reading() as session:
        assert session.get_one(Setting, ERASURE).value == first.isoformat()
    erase_withdrawn(database, second)
    after = bytes_of(database)
    assert [trace for trace in withdrawn if trace in after] == []
