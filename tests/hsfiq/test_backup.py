"""`hsfiq db backup`, `restore` and `copy`: what they hold, and what is refused."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy import MetaData, create_engine, make_url, select, text
from sqlalchemy.orm import Session

from hsfiq.actors import OWNER, Action
from hsfiq.audit import Selection, entries, record
from hsfiq.collect import participants
from hsfiq.db.engine import Database, connect, open_database
from hsfiq.db.schema import head_revision
from hsfiq.db.source_tables import Image
from hsfiq.drafts import create_draft, free_name, list_drafts, new_content, save_value, undo
from hsfiq.jobs import add_job
from tests.hsfiq.samples import CommandResult, hsfiq, on_sqlite
from tests.studies import OTHER, Seat, own_environment, small_study

on_postgres = pytest.mark.parametrize(
    "kind", [pytest.param("postgresql", marks=pytest.mark.postgres)], indirect=True
)


DIGEST = "d" * 64
REASON = 'öß \u202e 👗 \'s "quoted", a\\nb'


@pytest.fixture
def seat(database: Database) -> Seat:
    """A participant who has answered three questions, one of them twice; an image has a digest.

    There is also a draft that was changed once, and a job.
    """
    seat = Seat.taken(database, small_study(database))
    seat.answer_until(4)
    seat.submit(seat.question_ids[0], OTHER, revision=1)
    with database.writing() as session:
        session.execute(text("UPDATE responses SET reason = :reason"), {"reason": REASON})
        session.execute(text("UPDATE images SET sha256 = :digest WHERE id = 1"), {"digest": DIGEST})
        add_draft(session)
    return seat


def add_draft(session: Session) -> None:
    draft = create_draft(session, OWNER, new_content(free_name(session, "a"), REASON))
    save_value(session, draft.token, OWNER, "study.title", "Ours", REASON)
    add_job(session, OWNER, "rehearsal", REASON, [["draft", "rehearse"]], draft_id=draft.id)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "backups" / "a.backup"


@pytest.fixture
def new_url(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database of the same kind that holds nothing."""
    if kind == "sqlite":
        return f"sqlite:///{tmp_path / 'new.db'}"
    return str(request.getfixturevalue("empty_postgres"))


def back_up(url: str, file: Path) -> CommandResult:
    file.parent.mkdir(exist_ok=True)
    return hsfiq("db", "backup", file, "--database", url, "--json")


def copy(source: str, target: str) -> CommandResult:
    return hsfiq("db", "copy", source, target, "--json")


def made(url: str, file: Path) -> Path:
    result = back_up(url, file)
    assert (result.code, result.err) == (0, "")
    return file


def restore(file: Path, url: str) -> CommandResult:
    return hsfiq("db", "restore", file, "--database", url, "--json")


def complaint(result: CommandResult, code: int = 2) -> str:
    assert (result.code, result.out) == (code, "")
    assert result.err.count("\n") == 1
    return result.err


def record_one(database: Database) -> None:
    with database.writing() as session:
        record(session, OWNER, Action.STUDY_PAUSE, study="small")


def audit_log_of(url: str) -> list[str]:
    """The actions in the audit log of a database."""
    opened = open_database(url, create=False)
    with opened.reading() as session:
        actions = [entry.action for entry in entries(session, Selection())]
    opened.close()
    return actions


def rows_at(url: str) -> dict[str, list[tuple[object, ...]]]:
    """Every row of every table but the audit log."""
    engine = connect(url)
    tables = MetaData()
    try:
        tables.reflect(engine)
        with engine.connect() as connection:
            return {
                table.name: sorted(
                    (tuple(row) for row in connection.execute(select(table))), key=repr
                )
                for table in tables.sorted_tables
                if table.name != "audit_entries"
            }
    finally:
        engine.dispose()


def left_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# ------------------------------------------------------------------------------- what they hold


def test_a_restored_backup_holds_every_row(
    database_url: str, seat: Seat, file: Path, new_url: str
) -> None:
    record_one(seat.database)
    facts = back_up(database_url, file).result
    assert facts["file"] == str(file)
    assert facts["bytes"] == file.stat().st_size
    counts = {"participants": 1, "answers": 3}
    expected = {"schema_revision": head_revision(), **counts}
    expected["studies"] = [{"study": "small", **counts}]
    assert {key: facts[key] for key in expected} == expected
    before = rows_at(database_url)
    Seat(seat.database, seat.participant_id).answer_all()
    restored = restore(file, new_url)
    assert (restored.code, restored.err) == (0, "")
    assert {key: restored.result[key] for key in expected} == expected
    assert rows_at(new_url) == before
    assert audit_log_of(new_url) == ["draft.create", "study.pause", "db.restore"]
    assert audit_log_of(database_url) == ["draft.create", "study.pause", "db.backup"]
    check = hsfiq("db", "check", "--database", new_url)
    assert (check.code, check.err) == (0, "")
    (_, row) = hsfiq("study", "list", "--database", new_url).out.splitlines()
    assert row.split()[:2] == ["small", "open"]
    assert made(new_url, file.with_name("again.backup")).is_file()


def test_only_the_owner_can_read_a_backup(database_url: str, file: Path, new_url: str) -> None:
    """Also of a database without studies."""
    before = os.umask(0o022)
    try:
        made(database_url, file)
    finally:
        os.umask(before)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert left_in(file.parent) == ["a.backup"]
    assert "0 studies: none" in hsfiq("db", "restore", file, "--database", new_url).out


@on_sqlite
def test_a_backup_of_sqlite_is_one_file_with_every_committed_answer(
    database_url: str, seat: Seat, file: Path
) -> None:
    """Also with answers that are only in the write-ahead log, and while a writer is at work."""
    database = seat.database
    assert Path(f"{make_url(database_url).database}-wal").stat().st_size > 0
    with database.writing() as session:
        session.connection().exec_driver_sql("DELETE FROM responses")
        assert back_up(database_url, file).result["answers"] == 3
        session.rollback()
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)
    assert left_in(file.parent) == ["a.backup"]


def test_an_older_schema_is_backed_up_and_a_newer_one_refused(
    database_url: str, database: Database, file: Path, new_url: str
) -> None:
    def set_revision(number: str) -> None:
        with database.engine.execution_options(hsfiq_writes=True).begin() as connection:
            connection.exec_driver_sql(f"UPDATE alembic_version SET version_num = '{number}'")

    set_revision("9999")
    assert "only a newer hsfiq knows" in complaint(back_up(database_url, file))
    assert left_in(file.parent) == []
    set_revision("0002")
    assert back_up(database_url, file).result["schema_revision"] == "0002"
    restored = hsfiq("db", "restore", file, "--database", new_url)
    assert "schema revision 0002; run `hsfiq db upgrade`" in restored.out


@on_postgres
def test_a_password_is_given_to_postgresql_but_not_shown(
    database_url: str, seat: Seat, file: Path
) -> None:
    name = f"O'Brien \\ {make_url(database_url).database}"
    url = make_url(database_url).update_query_dict({"application_name": name})
    with_password = url.set(password="hunter2 '\\").render_as_string(hide_password=False)
    file.parent.mkdir()
    assert back_up(with_password, file).code == 0
    missing = url.set(database="hsfiq_never_made", password="hunter2")
    refused = back_up(missing.render_as_string(hide_password=False), file)
    assert refused.code == 2
    assert "hunter2" not in refused.err


# -------------------------------------------------------------------------------- what is refused


def test_nothing_is_overwritten(database_url: str, seat: Seat, file: Path, new_url: str) -> None:
    made(database_url, file)
    before, rows = file.read_bytes(), rows_at(database_url)
    assert "already exists" in complaint(back_up(database_url, file))
    assert file.read_bytes() == before
    assert "already" in complaint(restore(file, database_url))
    assert rows_at(database_url) == rows
    link = file.with_name("link")
    link.symlink_to("elsewhere")
    assert "already exists" in complaint(back_up(database_url, link))
    assert left_in(file.parent) == ["a.backup", "link"]


@on_postgres
def test_a_database_with_tables_of_others_is_left_alone(
    database_url: str, file: Path, new_url: str
) -> None:
    made(database_url, file)
    engine = connect(new_url)
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE SCHEMA other CREATE TABLE theirs (id int)")
    engine.dispose()
    assert "already has tables" in complaint(restore(file, new_url))
    assert rows_at(new_url) == {}


@on_sqlite
@pytest.mark.parametrize("suffix", ["-wal", "-journal"])
def test_a_log_of_a_removed_database_is_not_applied_to_a_restored_one(
    database_url: str, seat: Seat, file: Path, new_url: str, tmp_path: Path, suffix: str
) -> None:
    made(database_url, file)
    (tmp_path / f"new.db{suffix}").write_bytes(b"of another database")
    assert f"new.db{suffix}: exists already" in complaint(restore(file, new_url))
    assert not (tmp_path / "new.db").exists()


def test_a_missing_database_gives_no_backup(empty_url: str, kind: str, file: Path) -> None:
    line = complaint(back_up(empty_url, file), 1 if kind == "sqlite" else 2)
    assert ("the database does not exist" if kind == "sqlite" else "not hold an hsfiq data") in line
    assert left_in(file.parent) == []


@on_sqlite
def test_a_damaged_database_gives_no_backup(
    database_url: str, seat: Seat, file: Path, tmp_path: Path
) -> None:
    seat.database.close()
    damaged = tmp_path / "damaged.db"
    content = bytearray(Path(str(make_url(database_url).database)).read_bytes())
    content[3 * 4096 : 9 * 4096] = b"\xff" * 6 * 4096
    damaged.write_bytes(content)
    line = back_up(f"sqlite:///{damaged}", file)
    assert line.code in (1, 2)
    assert "malformed" in line.err or "damaged" in line.err
    assert left_in(file.parent) == []


@pytest.mark.parametrize("content", [b"", b"buy milk\n" * 1000, b"SQLite format 3\0", b"PGDMP"])
def test_a_foreign_file_is_neither_restored_nor_backed_up(
    new_url: str, file: Path, tmp_path: Path, content: bytes
) -> None:
    file.parent.mkdir()
    file.write_bytes(content)
    result = restore(file, new_url)
    assert result.code in (1, 2)
    assert result.err.startswith(f"hsfiq: {file}: ")
    assert not (tmp_path / "new.db").exists()
    if content:
        complaint(back_up(f"sqlite:///{file}", file.with_name("b")))
    assert left_in(file.parent) == ["a.backup"]


def test_a_backup_of_another_database_is_not_restored(
    kind: str, file: Path, new_url: str, tmp_path: Path
) -> None:
    file.parent.mkdir()
    if kind == "sqlite":
        with closing(sqlite3.connect(file)) as connection:
            connection.execute("CREATE TABLE theirs (id INTEGER)")
        other = file.with_name("b.backup")
        assert "does not hold an hsfiq database" in complaint(back_up(f"sqlite:///{file}", other))
        assert left_in(file.parent) == ["a.backup"]
    else:
        engine = connect(new_url)
        with engine.begin() as connection:
            connection.execute(text("CREATE TABLE theirs (id INTEGER)"))
        engine.dispose()
        options = [f"--dbname={make_url(new_url).render_as_string(hide_password=False)}"]
        subprocess.run(["pg_dump", "--format=custom", f"--file={file}", *options], check=True)
    assert "does not hold an hsfiq database" in complaint(restore(file, new_url))
    assert not (tmp_path / "new.db").exists()


def test_a_truncated_backup_and_one_of_the_other_kind_are_not_restored(
    database_url: str, kind: str, seat: Seat, file: Path, new_url: str, tmp_path: Path
) -> None:
    whole = made(database_url, file).read_bytes()
    for share in (0.1, 0.5, 0.97):
        file.write_bytes(whole[: int(share * len(whole))])
        result = restore(file, new_url)
        assert (result.code, result.err.count("\n")) == (1, 1), share
        assert result.err.startswith(f"hsfiq: {file}: "), share
        assert not (tmp_path / "new.db").exists()
    file.write_bytes(whole)
    other = {"sqlite": "postgresql://127.0.0.1:1/x", "postgresql": f"sqlite:///{tmp_path / 'x.db'}"}
    assert "backup, but" in complaint(restore(file, other[kind]))
    assert not (tmp_path / "x.db").exists()
    if kind == "sqlite":  # a copy of the database's file is no backup
        copied = Path(shutil.copyfile(str(make_url(database_url).database), tmp_path / "copied"))
        assert "was not made by `hsfiq db backup`" in complaint(restore(copied, new_url))
    assert restore(file, new_url).code == 0


@on_sqlite
def test_nothing_is_restored_into_memory(database_url: str, file: Path) -> None:
    made(database_url, file)
    for url in ("sqlite://", "sqlite:///:memory:"):
        assert "in memory only" in complaint(restore(file, url))
        assert "does not exist yet" in complaint(back_up(url, file.with_name("b")), 1)


# ------------------------------------------------------------------------- PostgreSQL's programs


@on_postgres
def test_missing_and_old_programs_are_named(
    database_url: str, seat: Seat, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    monkeypatch.setenv("PATH", str(programs))
    line = complaint(back_up(database_url, file))
    assert "pg_dump: is not installed; install the client programs of PostgreSQL" in line
    old = programs / "pg_dump"
    old.write_text("#!/bin/sh\necho 'pg_dump (PostgreSQL) 9.6.1'\n")
    old.chmod(0o755)
    line = complaint(back_up(database_url, file))
    assert "pg_dump: is too old (pg_dump (PostgreSQL) 9.6.1)" in line
    assert left_in(file.parent) == []


@on_postgres
def test_an_interrupted_restore_leaves_nothing(
    database_url: str, seat: Seat, file: Path, new_url: str
) -> None:
    """A table that appears after the check makes pg_restore fail half-way."""
    made(database_url, file)
    engine = connect(new_url)
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE VIEW responses AS SELECT 1 AS id")
    line = complaint(restore(file, new_url))
    assert "pg_restore" in line
    assert "already exists" in line
    assert rows_at(new_url) == {}
    engine.dispose()


# ----------------------------------------------------------------------------- kills, full disks

KILLED = """
import os, signal, sys
from hsfiq import cli
os.link = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
cli.run(sys.argv[1:])
"""
"""Kills itself when the file is complete, but not yet in its place."""


def test_a_kill_leaves_no_part_of_a_backup(database_url: str, seat: Seat, file: Path) -> None:
    file.parent.mkdir()
    process = subprocess.run(
        [sys.executable, "-c", KILLED, "db", "backup", str(file)],
        env=own_environment(HSFIQ_DATABASE_URL=database_url),
        check=False,
    )
    assert process.returncode == -signal.SIGKILL
    assert not file.exists()
    made(database_url, file)


@contextmanager
def limited_files(n_bytes: int) -> Iterator[None]:
    """As on a full disk: this process cannot write larger files."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_leaves_no_part_of_a_backup(database_url: str, seat: Seat, file: Path) -> None:
    file.parent.mkdir()
    with limited_files(20_000):
        line = complaint(back_up(database_url, file))
    assert "cannot be written" in line or "pg_dump" in line
    assert left_in(file.parent) == []


@on_sqlite
def test_a_full_disk_leaves_no_part_of_a_restored_database(
    database_url: str, seat: Seat, file: Path, new_url: str, tmp_path: Path
) -> None:
    made(database_url, file)
    with limited_files(20_000):
        line = complaint(restore(file, new_url))
    assert "new.db: cannot be written" in line
    assert not list(tmp_path.glob("*new.db*"))


# ---------------------------------------------------------------------------------- while serving


def test_backups_hold_what_was_committed_before_they_began(
    database_url: str, database: Database, tmp_path: Path
) -> None:
    """A writer revises an answer again and again; each backup is one state of the database."""
    seat = Seat.taken(database, small_study(database))
    question, committed, ended = seat.question_ids[0], 0, threading.Event()

    def revise() -> None:
        nonlocal committed
        while not ended.wait(0.002):  # without a pause, it makes many thousands on a busy machine
            seat.submit(question, revision=committed)
            committed += 1

    writer = threading.Thread(target=revise)
    writer.start()
    try:
        counts = []
        for number in range(3):
            while committed < 10 * (number + 1):
                ended.wait(0.001)
            before = committed
            file = made(database_url, tmp_path / f"{number}.backup")
            counts.append((before, file, committed))
    finally:
        ended.set()
        writer.join()
    assert committed >= 30
    for before, file, after in counts:
        assert before <= revisions_in(file) <= after + 1


def revisions_in(file: Path) -> int:
    """The number of responses in a backup."""
    if file.read_bytes().startswith(b"SQLite"):
        engine = create_engine(f"sqlite:///{file}")
        with engine.connect() as connection:
            return int(connection.exec_driver_sql("SELECT count(*) FROM responses").scalar_one())
    sql = subprocess.run(
        ["pg_restore", "--data-only", "--table=responses", "--file=-", file],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return len(sql.partition("COPY public.responses")[2].partition("\\.\n")[0].splitlines()) - 1


@pytest.mark.postgres
def test_a_copy_holds_the_same_and_goes_on(
    seat: Seat, database: Database, database_url: str, empty_postgres: str, tmp_path: Path
) -> None:
    record_one(database)
    before = rows_at(database_url)
    back = f"sqlite:///{tmp_path / 'back.db'}"
    copied = copy(database_url, empty_postgres).result["tables"]
    copied_again = copy(empty_postgres, back).result["tables"]
    assert copied["responses"]["rows"] == 4
    assert [each.pop("audit_entries")["rows"] for each in (copied, copied_again)] == [2, 3]
    assert copied_again == copied
    assert rows_at(database_url) == before
    assert audit_log_of(database_url) == ["draft.create", "study.pause", "db.copy"]
    assert audit_log_of(back) == ["draft.create", "study.pause", "db.copy", "db.copy"]
    for url in (empty_postgres, back):
        opened = open_database(url)
        with opened.writing() as session:  # new rows get new keys
            assert set(session.scalars(select(Image.sha256))) == {DIGEST, None}
            assert set(session.scalars(text("SELECT reason FROM responses"))) == {REASON}
            participants.invite(session, 1, 1, now=datetime.now(UTC))
            undo(session, list_drafts(session)[0].token, OWNER)
            assert list_drafts(session)[0].content["config"]["study"]["title"] == REASON
            add_draft(session)
        opened.close()


@pytest.mark.postgres
def test_the_target_must_be_empty(
    seat: Seat, database_url: str, empty_postgres: str, tmp_path: Path
) -> None:
    (tmp_path / "old.db").write_bytes(b"something")
    assert "already" in complaint(copy(database_url, f"sqlite:///{tmp_path / 'old.db'}"))
    assert (tmp_path / "old.db").read_bytes() == b"something"
    engine = connect(empty_postgres)
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE mine (id integer)"))
    assert "already has tables" in complaint(copy(database_url, empty_postgres))
    engine.dispose()


@on_sqlite
@pytest.mark.postgres
def test_what_cannot_be_copied_is_told_in_one_line_and_leaves_nothing(
    seat: Seat, database: Database, database_url: str, empty_postgres: str, tmp_path: Path
) -> None:
    missing = f"sqlite:///{tmp_path / 'missing.db'}"
    assert "does not exist yet" in complaint(copy(missing, empty_postgres), 1)
    assert "no/such" in complaint(copy(database_url, f"sqlite:///{tmp_path}/no/such/a.db"))
    with database.writing() as session:
        session.execute(text("UPDATE responses SET reason = 'a' || char(0) || 'b' WHERE id = 2"))
    line = complaint(copy(database_url, empty_postgres))
    assert "table responses" in line
    assert "nothing was copied" in line
    assert rows_at(empty_postgres) == {}
    with database.writing() as session:
        session.execute(text("UPDATE alembic_version SET version_num = '0001'"))
    assert "hsfiq db upgrade" in complaint(copy(database_url, empty_postgres))


@pytest.mark.postgres
def test_a_password_in_the_command_is_warned_of(
    seat: Seat, database_url: str, empty_postgres: str, tmp_path: Path
) -> None:
    url = make_url(empty_postgres).set(username="postgres", password="SECRET")
    target = url.render_as_string(hide_password=False)
    for words in (
        ("db", "copy", database_url, target),
        ("db", "check", "--database", target),
        ("db", "backup", str(tmp_path / "file"), "--database", target),
        ("study", "list", "--database", target),
        ("doctor", "--database", target),
    ):
        result = hsfiq(*words)
        assert "SECRET" not in result.err
        assert result.err.count("other users can see the password in postgresql") == 1, words
