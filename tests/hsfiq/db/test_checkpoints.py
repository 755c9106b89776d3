"""Checkpoints: what was committed is in SQLite's main file, not only in its write-ahead log."""

from __future__ import annotations

import shutil
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from hsfiq.db.engine import Database, open_database, regular_checkpoints
from hsfiq.db.source_tables import Setting
from tests.hsfiq.samples import on_sqlite

LOG_SUFFIX = "-wal"


@pytest.fixture
def file(database: Database) -> Path:
    return Path(str(database.engine.url.database))


@pytest.fixture
def other_process(file: Path) -> Iterator[sqlite3.Connection]:
    """A connection as another process has one."""
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        yield connection


def keep(database: Database, key: str) -> None:
    with database.writing() as session:
        session.add(Setting(key=key, value=""))


def in_main_file(file: Path) -> set[str]:
    """The settings in a copy of the main file alone."""
    copy = file.with_name("copy.db")
    shutil.copyfile(file, copy)
    with closing(sqlite3.connect(copy)) as connection:
        return {key for (key,) in connection.execute("SELECT key FROM settings")}


def log_size(file: Path) -> int:
    return file.with_name(f"{file.name}{LOG_SUFFIX}").stat().st_size


@on_sqlite
def test_a_checkpoint_copies_everything_and_empties_the_log(database: Database, file: Path) -> None:
    keep(database, "a")
    assert "a" not in in_main_file(file)
    database.checkpoint()
    assert "a" in in_main_file(file)
    assert log_size(file) == 0


@on_sqlite
def test_a_checkpoint_takes_nothing_from_a_reader(database: Database, file: Path) -> None:
    keep(database, "a")
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
