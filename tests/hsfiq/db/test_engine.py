"""Opening databases: settings, refusals, transactions, and checkpoints of SQLite."""

from __future__ import annotations

import secrets
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from sqlalchemy import func, insert, inspect, select, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DBAPIError, IntegrityError

from hsfiq.db.engine import Database, connect, open_database, regular_checkpoints
from hsfiq.db.failures import has_password, shown_url
from hsfiq.db.schema import current_revision, differences, head_revision, upgrade
from hsfiq.db.source_tables import Setting
from hsfiq.db.sqlite import BUSY_SECONDS
from hsfiq.errors import HsfiqError, NothingToDo, Refused, UnreadableInput
from tests.databases import STATEMENTS
from tests.hsfiq.samples import hsfiq, on_sqlite
from tests.processes import Fork
from tests.studies import own_environment


def keep(database: Database, key: str, value: str = "kept") -> None:
    with database.writing() as session:
        session.add(Setting(key=key, value=value))


def kept(database: Database) -> set[str]:
    with database.reading() as session:
        return set(session.scalars(select(Setting.key)))


@contextmanager
def opened(url: str) -> Iterator[Database]:
    database = open_database(url)
    yield database
    database.close()


@contextmanager
def changed(url: str, *statements: str) -> Iterator[None]:
    """Run statements directly, without our engine and its settings."""
    engine = connect(url)
    with engine.begin() as connection:
        for statement in statements:
            connection.execute(text(statement))
    engine.dispose()
    yield


def tables_at(url: str) -> set[str]:
    engine = connect(url)
    tables = set(inspect(engine).get_table_names())
    engine.dispose()
    return tables


def refusal(url: str, *, create: bool = True) -> str:
    """The error line for a refused URL."""
    with pytest.raises(HsfiqError) as error_info:
        open_database(url, create=create)
    line = str(error_info.value)
    assert "\n" not in line
    return line


# ---------------------------------------------------------------------------------------- SQLite


def test_every_sqlite_connection_has_the_safe_settings(tmp_path: Path) -> None:
    expected = {
        "journal_mode": "wal",
        "synchronous": 2,  # FULL
        "foreign_keys": 1,
        "secure_delete": 1,
        "busy_timeout": 1000 * BUSY_SECONDS,
    }
    with opened(f"sqlite:///{tmp_path / 'a.db'}") as database:
        for session in (database.reading, database.writing, database.reading):
            with session() as open_session:
                settings = {name: open_session.scalar(text(f"PRAGMA {name}")) for name in expected}
            assert settings == expected


@pytest.mark.parametrize("place", ["no file", "an empty file", "memory"])
def test_a_new_sqlite_database_is_created_and_migrated(tmp_path: Path, place: str) -> None:
    path = tmp_path / "a.db"
    if place == "an empty file":
        path.touch()
    url = "sqlite://" if place == "memory" else f"sqlite:///{path}"
    with opened(url) as database:
        assert current_revision(database.engine) == head_revision()
        assert differences(database.engine) == []
        keep(database, "a")
        assert kept(database) == {"a"}
    if place != "memory":
        with opened(url) as database:
            assert kept(database) == {"a"}


def test_nothing_is_created_without_permission(tmp_path: Path) -> None:
    with pytest.raises(
        NothingToDo, match="the database does not exist yet; import something first"
    ):
        open_database(f"sqlite:///{tmp_path / 'a.db'}", create=False)
    assert list(tmp_path.iterdir()) == []


def test_concurrent_first_uses_of_a_new_file(tmp_path: Path) -> None:
    def first_use(number: int) -> None:
        time.sleep(0.015 * number)  # a first use takes longer: others come in its midst
        with opened(f"sqlite:///{tmp_path / 'a.db'}") as database:
            keep(database, f"a{number}")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(first_use, range(8)))
    with opened(f"sqlite:///{tmp_path / 'a.db'}") as database:
        assert len(kept(database)) == 8


CUT_OFF = """
import os, signal, sys
from alembic import command
from hsfiq.db.engine import connect
from hsfiq.db.schema import alembic_config
with connect(sys.argv[1]).execution_options(hsfiq_writes=True).begin() as connection:
    command.upgrade(alembic_config(connection), "head")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_an_interrupted_migration_is_completed(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'a.db'}"
    subprocess.run([sys.executable, "-c", CUT_OFF, url], env=own_environment(), check=False)
    assert (tmp_path / "a.db").exists()
    with pytest.raises(NothingToDo):
        open_database(url, create=False)
    with opened(url) as database:
        keep(database, "a")


def test_an_unrelated_file_is_refused_and_unchanged(tmp_path: Path) -> None:
    url, notes = f"sqlite:///{tmp_path / 'theirs.db'}", tmp_path / "notes.txt"
    notes.write_text("buy milk\n" * 1000)
    with changed(url, "CREATE TABLE theirs (id INTEGER)"):
        before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
        line = refusal(url)
        assert "file is not a database" in refusal(f"sqlite:///{notes}")
    assert "at schema revision none" in line
    assert "hsfiq db upgrade" in line
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


# ------------------------------------------------------------------------------ URLs and servers


@pytest.mark.parametrize(
    "url", ["", "hsfiq.db", "nonsense://localhost/x", "://", "sqlite:/x", "mysql://localhost/x"]
)
def test_an_invalid_database_url_is_refused_with_an_example(url: str) -> None:
    line = refusal(url)
    assert "is not a database URL" in line
    assert "use one like sqlite:///hsfiq.db" in line


@pytest.mark.parametrize("scheme", ["postgres", "postgresql", "postgresql+psycopg"])
def test_a_missing_driver_is_named_with_its_extra(
    monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    assert "pip install 'hsfiq[postgres]'" in refusal(f"{scheme}://localhost/x")


@pytest.mark.postgres
@pytest.mark.parametrize(
    ("changed", "shown"),
    [
        ({"database": "hsfiq_never_made"}, 'database "hsfiq_never_made" does not exist'),
        ({"username": "nobody", "password": "hunter2"}, "nobody"),
    ],
)
def test_what_a_server_refuses_is_reported_without_the_password(
    empty_postgres: str, changed: dict[str, str], shown: str
) -> None:
    url = make_url(empty_postgres).set(**changed)
    line = refusal(url.render_as_string(hide_password=False))
    assert shown in line
    assert "hunter2" not in line


@pytest.mark.postgres
def test_a_postgres_database_without_tables_is_refused_and_unchanged(empty_postgres: str) -> None:
    line = refusal(empty_postgres)
    assert f"at schema revision none, this hsfiq needs {head_revision()}" in line
    assert tables_at(empty_postgres) == set()
    engine = connect(empty_postgres)
    upgrade(engine)
    engine.dispose()
    with opened(empty_postgres) as database:
        keep(database, "a")


def test_an_older_database_is_refused_and_unchanged(database_url: str) -> None:
    with changed(database_url, "DELETE FROM alembic_version", "DROP TABLE responses"):
        before = tables_at(database_url)
        line = refusal(database_url)
    assert "at schema revision none" in line
    assert "run `hsfiq db upgrade` (after a backup)" in line
    assert tables_at(database_url) == before


def test_a_newer_database_is_refused_and_unchanged(database_url: str) -> None:
    with changed(database_url, "UPDATE alembic_version SET version_num = '9999'"):
        line = refusal(database_url)
        assert "9999, which only a newer hsfiq knows" in line
        assert "install the newest hsfiq" in line
        engine = connect(database_url)
        with pytest.raises(UnreadableInput, match="9999, which only a newer"):
            upgrade(engine)
        assert current_revision(engine) == "9999"
        engine.dispose()


# ------------------------------------------------------------------------------------ transactions


def test_a_failed_transaction_changes_nothing(database: Database) -> None:
    def fail_half_way() -> None:
        with database.writing() as session:
            session.add(Setting(key="a", value=""))
            session.flush()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_half_way()
    assert kept(database) == set()
    keep(database, "c")
    assert kept(database) == {"c"}


def test_a_reader_sees_one_state_and_does_not_wait_for_a_writer(database: Database) -> None:
    keep(database, "a")
    count = select(func.count()).select_from(Setting)
    with database.reading() as session:
        assert session.scalar(count) == 1
        keep(database, "b")
        assert session.scalar(count) == 1
    with database.writing() as session:
        session.add(Setting(key="c", value=""))
        session.flush()
        assert kept(database) == {"a", "b"}


def test_two_writers_wait_for_each_other(database: Database) -> None:
    """Without an early lock, a writer that has read first would fail with "database is locked"."""
    inside = threading.Event()

    def slow() -> None:
        with database.writing() as session:
            session.scalars(select(Setting)).all()
            inside.set()
            time.sleep(0.3)
            session.add(Setting(key="slow", value=""))

    def quick() -> None:
        inside.wait(10)
        with database.writing() as session:
            session.scalars(select(Setting)).all()
            session.add(Setting(key="quick", value=""))

    with ThreadPoolExecutor(2) as pool:
        for future in [pool.submit(slow), pool.submit(quick)]:
            future.result()
    assert kept(database) == {"slow", "quick"}


def test_many_threads_lose_no_update(database: Database) -> None:
    keep(database, "count", "0")

    def add_one(_: int) -> None:
        with database.writing() as session:
            row = select(Setting).where(Setting.key == "count").with_for_update()
            setting = session.scalars(row).one()
            setting.value = str(int(setting.value) + 1)

    with ThreadPoolExecutor(12) as pool:
        list(pool.map(add_one, range(60)))
    with database.reading() as session:
        assert session.get_one(Setting, "count").value == "60"


def keep_25() -> None:
    """Write 25 settings with this prefix to this database, each after a read."""
    url, prefix = sys.argv[1:]
    with opened(url) as database:
        for number in range(25):
            with database.writing() as session:
                session.get(Setting, "nothing")
                session.add(Setting(key=f"{prefix}-{number}", value=""))


def test_processes_wait_for_each_other(
    database: Database, database_url: str, tmp_path: Path
) -> None:
    log = tmp_path / "log.txt"
    writers = [Fork(keep_25, [database_url, name], log) for name in ("first", "second", "third")]
    for number in range(25):
        keep(database, f"own-{number}")
    assert [writer.wait() for writer in writers] == [0, 0, 0]
    assert log.read_text() == ""
    assert len(kept(database)) == 4 * 25


# ---------------------------------------------------------------------------------- error messages


def printed(error: BaseException) -> str:
    """An error as a log shows it, with those that it comes from."""
    return "".join(traceback.format_exception(error))


def test_an_error_names_the_constraint_but_quotes_no_row(database: Database) -> None:
    row = {"key": secrets.token_hex(8), "value": secrets.token_hex(8)}
    keep(database, **row)
    with pytest.raises(IntegrityError) as error_info, database.writing() as session:
        session.execute(insert(Setting), row)
    shown = printed(error_info.value)
    assert "settings" in shown
    assert [value for value in row.values() if value in shown] == []


@pytest.mark.postgres
@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
def test_faults_of_a_value_and_at_the_end_of_a_transaction_quote_no_row(database: Database) -> None:
    keep(database, "telltale-key")
    with pytest.raises(DBAPIError) as error_info, database.reading() as session:
        session.execute(text("SELECT CAST(key AS integer) FROM settings"))
    assert "a value was refused (SQLSTATE 22P02)" in printed(error_info.value)
    assert "telltale" not in printed(error_info.value)
    with database.engine.connect() as connection:
        connection.exec_driver_sql("CREATE TEMP TABLE t (key text UNIQUE DEFERRABLE)")
        connection.exec_driver_sql("SET CONSTRAINTS ALL DEFERRED")
        connection.exec_driver_sql("INSERT INTO t VALUES ('telltale'), ('telltale')")
        with pytest.raises(IntegrityError) as error_info:
            connection.commit()
    assert "duplicate key" in printed(error_info.value)
    assert "telltale" not in printed(error_info.value)


def test_databases_share_statements_in_tests_and_no_rows(
    database: Database, empty_url: str
) -> None:
    keep(database, "first")
    assert kept(database) == {"first"}
    engine = connect(empty_url)
    upgrade(engine)
    engine.dispose()
    with opened(empty_url) as other:
        compiled = set(STATEMENTS)
        keep(other, "second")
        assert kept(other) == {"second"}
        assert set(STATEMENTS) == compiled
    assert kept(database) == {"first"}


@pytest.mark.parametrize("key", ["a\0b", "\ud800"])
def test_a_text_that_no_database_holds_is_refused(database: Database, kind: str, key: str) -> None:
    if kind == "sqlite" and "\0" in key:
        return  # SQLite compares it
    for transaction in (database.reading, database.writing):
        with pytest.raises(Refused, match="cannot be stored"), transaction() as session:
            session.get(Setting, key)


@pytest.mark.parametrize(
    "url",
    [
        *("postgresql://u:SECRET@h/x", "postgresql:/u:SECRET@h/x", "postgres:u:SECRET@h/x"),
        *("u:SECRET@h/x", "postgresql://u:SEC/SECRET@h:x/y", "postgresql://u:a@SECRET@h:x/y"),
        *("postgresql://h/x?password=SECRET", "postgresql://h/x?sslpassword=SECRET&a=b"),
    ],
)
def test_no_password_is_shown(url: str) -> None:
    assert "SECRET" not in shown_url(url)
    assert has_password(url)
    result = hsfiq("study", "list", "--database", url)
    assert result.code == 2
    assert "SECRET" not in result.err


@pytest.mark.parametrize(
    "url", ["sqlite:///a.db", "postgresql://localhost/x", "postgresql://u@h/x"]
)
def test_a_url_without_a_password(url: str) -> None:
    assert shown_url(url) == url
    assert not has_password(url)


@pytest.fixture
def file(database: Database) -> Path:
    return Path(str(database.engine.url.database))


@pytest.fixture
def other_process(file: Path) -> Iterator[sqlite3.Connection]:
    """A connection as another process has one."""
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        yield connection


def in_main_file(file: Path) -> set[str]:
    """The settings in a copy of the main file alone."""
    copy = file.with_name("copy.db")
    shutil.copyfile(file, copy)
    with closing(sqlite3.connect(copy)) as connection:
        return {key for (key,) in connection.execute("SELECT key FROM settings")}


def log_size(file: Path) -> int:
    return file.with_name(f"{file.name}-wal").stat().st_size


@on_sqlite
def test_a_checkpoint_copies_everything_and_takes_nothing_from_a_reader(
    database: Database, file: Path
) -> None:
    keep(database, "a")
    assert "a" not in in_main_file(file)
    database.checkpoint()
    assert "a" in in_main_file(file)
    assert log_size(file) == 0
    with database.reading() as session:
        assert session.get(Setting, "a")
        keep(database, "b")
        database.checkpoint()
        assert log_size(file) > 0
        assert session.get(Setting, "b") is None
    database.checkpoint()
    assert {"a", "b"} <= in_main_file(file)
    assert log_size(file) == 0


@on_sqlite
def test_a_checkpoint_beside_another_process_that_writes(
    database: Database, file: Path, other_process: sqlite3.Connection
) -> None:
    keep(database, "a")
    other_process.execute("BEGIN IMMEDIATE")
    database.checkpoint()
    assert "a" in in_main_file(file)
    other_process.execute("ROLLBACK")
    keep(database, "b")


@on_sqlite
def test_regular_checkpoints_keep_the_main_file_up_to_date(database: Database, file: Path) -> None:
    with regular_checkpoints(database, seconds=0.01):
        keep(database, "a")
        while "a" not in in_main_file(file):
            time.sleep(0.01)
    assert "checkpoints" not in {thread.name for thread in threading.enumerate()}


@on_sqlite
def test_nothing_is_left_in_the_log_if_another_process_has_the_database_open(
    database_url: str,
) -> None:
    database = open_database(database_url)
    file = Path(str(database.engine.url.database))
    with closing(sqlite3.connect(file)) as other_process:
        other_process.execute("SELECT * FROM settings").fetchall()
        keep(database, "a")
        database.close()
        assert "a" in in_main_file(file)


@on_sqlite
def test_closing_waits_for_the_transactions_of_other_threads(database_url: str) -> None:
    database = open_database(database_url)
    file = Path(str(database.engine.url.database))
    writing, closing_began = threading.Event(), threading.Event()

    def write() -> None:
        with database.writing() as session:
            session.add(Setting(key="a", value=""))
            session.flush()
            writing.set()
            closing_began.wait()

    thread = threading.Thread(target=write)
    thread.start()
    writing.wait()
    closer = threading.Thread(target=database.close)
    closer.start()
    closing_began.set()
    thread.join()
    closer.join()
    assert "a" in in_main_file(file)
    assert [path.name for path in file.parent.glob(f"{file.name}*")] == [file.name]


def test_other_databases_need_no_checkpoint(database: Database) -> None:
    with regular_checkpoints(database, seconds=0.01):
        keep(database, "a")
    database.checkpoint()
