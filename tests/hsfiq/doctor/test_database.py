"""`hsfiq doctor`: faults of the database, made for the test and repaired as the doctor says."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import text, update
from sqlalchemy.engine import make_url

from hsfiq.db.engine import Database, connect
from hsfiq.db.schema import upgrade
from hsfiq.db.tables import Participant
from hsfiq.doctor import LARGEST_LOG, examine_clock
from tests.conftest import do_without
from tests.databases import PostgresServer
from tests.hsfiq.doctor.findings import fault, findings, is_well, of_check, repair
from tests.hsfiq.samples import hsfiq, on_sqlite
from tests.studies import Seat, small_study

PASSWORD = "telltale-password"


@pytest.fixture
def chosen(database: Database, database_url: str, monkeypatch: pytest.MonkeyPatch) -> Database:
    """A database of each kind, which the variable names."""
    monkeypatch.setenv("HSFIQ_DATABASE_URL", database_url)
    if database.engine.dialect.name == "sqlite":
        Path(str(database.engine.url.database)).chmod(0o600)
    return database


def test_a_database_that_works_has_no_problem(chosen: Database) -> None:
    assert is_well("database", "migrations", "clock", "images", "disk", "proxy")


@on_sqlite
def test_text_has_one_line_for_each_finding(chosen: Database) -> None:
    command = hsfiq("doctor")
    assert (command.code, command.err) == (0, "")
    lines = command.out.splitlines()
    assert len(lines) == len(findings())
    assert {line.split()[0] for line in lines} <= {"ok", "warning"}
    assert any("; to repair it: hsfiq secret create" in line for line in lines)


def test_bad_usage_has_exit_code_2() -> None:
    for options in (["--database", "x"], ["--public-url", "x"], ["--database", ""]):
        command = hsfiq("doctor", *options)
        assert (command.code, command.out, command.err.count("\n")) == (2, "", 1)


def test_a_missing_sqlite_file_is_told_and_not_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "new folder" / "new.db"
    monkeypatch.setenv("HSFIQ_DATABASE_URL", f"sqlite:///{file}")
    fix = fault("database", "problem", "no database yet")
    assert not file.parent.exists()
    repair(fix)
    assert is_well("database", "migrations")


@on_sqlite
def test_a_file_of_something_else(database_url: str, tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    other.write_bytes(b"not a database" * 100)
    fix = fault("database", "problem", "file is not a database", "--database", f"sqlite:///{other}")
    assert fix.startswith("hsfiq db restore")


@pytest.mark.postgres
def test_a_postgresql_database_that_is_not_there(
    postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"{postgres_server.prefix}_doctor"
    url = postgres_server.url.set(database=name)
    monkeypatch.setenv("HSFIQ_DATABASE_URL", url.render_as_string(hide_password=False))
    fix = fault("database", "problem", "does not exist")
    assert fix.split()[0] == "createdb"
    assert fix.split()[-1] == name


@pytest.mark.postgres
def test_a_server_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"postgresql://somebody:{PASSWORD}@127.0.0.1:1/hsfiq"
    monkeypatch.setenv("HSFIQ_DATABASE_URL", url)
    assert fault("database", "problem", "127.0.0.1:1/hsfiq") == "systemctl start postgresql"
    assert PASSWORD not in hsfiq("doctor").out
    assert of_check("migrations") == []


def test_an_older_schema(chosen: Database, tmp_path: Path) -> None:
    with chosen.writing() as session:
        session.execute(text("UPDATE alembic_version SET version_num = '0001'"))
    fix = fault("migrations", "problem", "revision 0001, needed is 00")
    assert fix == "hsfiq db backup FILE && hsfiq db upgrade"
    assert of_check("images") == []


def test_the_upgrade_that_the_doctor_names_repairs_it(
    empty_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HSFIQ_DATABASE_URL", empty_url)
    engine = connect(empty_url)
    with engine.execution_options(hsfiq_writes=True).begin() as connection:
        connection.exec_driver_sql("CREATE TABLE alembic_version (version_num varchar(32))")
    engine.dispose()
    fix = fault("migrations", "problem", "revision none")
    upgrade_only = fix.partition(" && ")[2]
    assert upgrade_only == "hsfiq db upgrade"


def test_a_newer_schema_and_other_tables(chosen: Database) -> None:
    with chosen.writing() as session:
        session.execute(text("CREATE TABLE unexpected (id integer)"))
    assert "hsfiq db restore" in fault("migrations", "problem", "unexpected")
    with chosen.writing() as session:
        session.execute(text("DROP TABLE unexpected"))
        session.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    fix = fault("migrations", "problem", "9999 is of a newer hsfiq")
    assert fix == "pip install --upgrade hsfiq"


# -------------------------------------------------------------------------------- SQLite


@on_sqlite
def test_a_file_without_write_ahead_log(chosen: Database, database_url: str) -> None:
    chosen.engine.dispose()
    with closing(sqlite3.connect(str(make_url(database_url).database))) as connection:
        connection.execute("PRAGMA journal_mode=DELETE")
    fix = fault("settings", "warning", "journal mode is delete")
    repair(fix)
    assert is_well("settings")


@on_sqlite
def test_a_damaged_file(chosen: Database, database_url: str) -> None:
    small_study(chosen)
    chosen.checkpoint()
    chosen.engine.dispose()
    file = Path(str(make_url(database_url).database))
    with closing(sqlite3.connect(file)) as connection:
        (page,) = connection.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = 'retrieved_images'"
        ).fetchone()
    content = bytearray(file.read_bytes())
    content[(page - 1) * 4096 : page * 4096] = os.urandom(4096)
    file.write_bytes(content)
    assert fault("settings", "problem", "damaged").startswith("hsfiq db restore ")


@on_sqlite
def test_a_log_that_a_reader_keeps(chosen: Database, database_url: str) -> None:
    file = str(make_url(database_url).database)
    with (
        closing(sqlite3.connect(file)) as reader,
        closing(sqlite3.connect(file)) as writer,
    ):
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM settings").fetchall()
        writer.execute("PRAGMA synchronous=OFF")
        writer.execute("CREATE TABLE filling AS SELECT zeroblob(?) AS bytes", (LARGEST_LOG,))
        writer.execute("DROP TABLE filling")
        writer.commit()
        assert fault("settings", "warning", "write-ahead log has") == f"fuser {file}"
    assert is_well("settings")


# ---------------------------------------------------------------------------- PostgreSQL


@pytest.fixture
def own_postgres(
    empty_postgres: str, postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Database]:
    """A database whose settings the test may change, at PostgreSQL's defaults."""
    monkeypatch.setenv("HSFIQ_DATABASE_URL", empty_postgres)
    url = make_url(empty_postgres)
    for variable, value in (("HOST", url.host), ("PORT", url.port), ("USER", url.username)):
        monkeypatch.setenv(f"PG{variable}", str(value or ""))
    postgres_server.run(f'ALTER DATABASE "{url.database}" RESET ALL')
    engine = connect(empty_postgres)
    upgrade(engine)
    engine.dispose()
    yield Database(engine)
    engine.dispose()


@pytest.mark.postgres
@pytest.mark.parametrize(
    ("change", "status", "words"),
    [
        ("SET synchronous_commit = off", "problem", "can lose answers"),
        ("SET default_transaction_read_only = on", "problem", "no answer can be stored"),
        ("CONNECTION LIMIT 7", "warning", "PostgreSQL allows 7"),
    ],
)
def test_settings_of_the_database(
    own_postgres: Database, postgres_server: PostgresServer, change: str, status: str, words: str
) -> None:
    if any(each["status"] != "ok" for each in of_check("settings")):
        do_without("the test's server does without fsync")
    name = own_postgres.engine.url.database
    postgres_server.run(f'ALTER DATABASE "{name}" {change}')
    fix = fault("settings", status, words)
    assert fix.startswith(f"psql --dbname={name} --command='ALTER DATABASE ")
    postgres_server.run(fix.partition("--command=")[2].strip("'"))
    assert is_well("settings")


@pytest.mark.postgres
@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1"])
def test_an_encoding_that_cannot_hold_every_text(
    postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch, encoding: str
) -> None:
    name = f"{postgres_server.prefix}_{encoding.lower()}"
    postgres_server.run(
        f"CREATE DATABASE \"{name}\" ENCODING '{encoding}' LOCALE 'C' TEMPLATE template0"
    )
    url = postgres_server.url.set(database=name).render_as_string(hide_password=False)
    postgres_server.urls.append(url)
    monkeypatch.setenv("HSFIQ_DATABASE_URL", url)
    settings = [each["what"] for each in of_check("settings")]
    assert f"the encoding is {encoding}: not every text can be stored" in settings
    postgres_server.drop(url)


# --------------------------------------------------------------------------------- clock


def test_a_request_in_the_future(chosen: Database) -> None:
    Seat.taken(chosen, small_study(chosen))
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    with chosen.writing() as session:
        session.execute(update(Participant).values(seen_at=tomorrow))
    assert "set-ntp" in fault("clock", "warning", f"last seen at {tomorrow:%Y-%m-%d}")


@pytest.mark.postgres
@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
@pytest.mark.parametrize("hours", [-24, 1])
def test_a_server_with_another_time(chosen: Database, hours: int) -> None:
    finding = examine_clock(chosen.engine, lambda: datetime.now(UTC) + timedelta(hours=hours))
    assert finding.status == "problem"
    assert f"differs from this machine's by {-3600 * hours:+,.0f} s" in finding.what
