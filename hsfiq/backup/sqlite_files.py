"""Backups of SQLite databases: a SQLite file without a write-ahead log."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from sqlalchemy import Engine

from hsfiq.backup.contents import Contents, read_contents
from hsfiq.db.schema import require_known
from hsfiq.errors import NothingToDo, UnreadableInput

MAGIC = b"SQLite format 3\0"

WRITE_VERSION = slice(18, 19)
"""The byte of a file's header that is 1 in backups, and 2 if a write-ahead log belongs to it."""

TABLES = (
    "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
)


def back_up(engine: Engine, where: str, draft: Path) -> Contents:
    """Copy one state of a database into an empty file; other processes may write meanwhile.

    Raises:
        NothingToDo: the copy does not hold what the database holds.
    """
    with engine.connect() as connection:
        # The connection's transaction keeps the state for both the counts and the copy.
        tables = [row[0] for row in connection.exec_driver_sql(TABLES)]
        contents = read_contents(
            lambda query: connection.exec_driver_sql(query).all(), tables, where
        )
        source = connection.connection.driver_connection
        if not isinstance(source, sqlite3.Connection):
            raise TypeError("not a connection of sqlite3")
        copy(source, draft)
    if contents_of(draft, where) != contents:
        raise NothingToDo(f"{where}: the copy differs from the database")
    return contents


def restore(file: Path, draft: Path) -> Contents:
    """Copy a backup into an empty file.

    Raises:
        UnreadableInput: the file is no backup.
        NothingToDo: the backup is damaged, or the copy does not hold what it holds.
    """
    require_backup(file)
    contents = contents_of(file, str(file))
    with closing(read_only(file)) as source:
        copy(source, draft)
    if contents_of(draft, str(file)) != contents:
        raise NothingToDo(f"{file}: the copy differs from the backup")
    return contents


def require_backup(file: Path) -> None:
    """Refuse a database that was copied by other means: it may lack the newest answers."""
    with file.open("rb") as opened:
        header = opened.read(100)
    if header[WRITE_VERSION] != b"\1":
        raise UnreadableInput(
            str(file),
            "was not made by `hsfiq db backup`, and may lack answers that were in a file beside it",
            "use it as it is, with --database",
        )


def copy(source: sqlite3.Connection, target_file: Path) -> None:
    """Copy one state of a database, as one file that needs no write-ahead log."""
    with closing(sqlite3.connect(target_file, isolation_level=None)) as target:
        # Without shared memory, which network file systems do not have.
        target.execute("PRAGMA locking_mode=EXCLUSIVE")
        source.backup(target)
        target.execute("PRAGMA journal_mode=DELETE")


def contents_of(file: Path, where: str) -> Contents:
    """What a file holds.

    Raises:
        NothingToDo: SQLite finds that it is damaged.
    """
    with damage_reported(where), closing(read_only(file)) as connection:
        (problem,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
        if problem != "ok":
            raise NothingToDo(f"{where}: damaged ({problem})")
        tables = [row[0] for row in connection.execute(TABLES)]
        contents = read_contents(lambda sql: connection.execute(sql).fetchall(), tables, where)
    require_known(contents.revision, where)
    return contents


@contextmanager
def damage_reported(where: str) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise NothingToDo(f"{where}: damaged ({error})") from error


def read_only(file: Path) -> sqlite3.Connection:
    """A connection to a file that nobody changes."""
    return sqlite3.connect(f"{file.absolute().as_uri()}?immutable=1", uri=True)
