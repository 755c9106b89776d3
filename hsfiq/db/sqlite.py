"""SQLite's settings, and its write-ahead log.

Committed answers are in the log, `<file>-wal`, until a checkpoint copies them into the main file.
SQLite itself makes one after 1,000 pages, which is about a hundred answers, and when the last
connection is closed.
"""

from __future__ import annotations

import os
import sqlite3
import stat
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep
from typing import Any
from urllib.parse import quote

from sqlalchemy import Connection, Engine, event
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError

from hsfiq.db.failures import unusable
from hsfiq.errors import UnreadableInput

# Who can read a database's files: their owner, and a group that shares them on purpose.
#
# A SQLite file holds the participants' links, their platform ids and the key that signs cookies:
# anybody who can read it can answer as any participant, and enter the studio as the owner.

LOG_SUFFIXES = ("-wal", "-shm", "-journal")
"""The suffixes of the files that SQLite keeps next to a database."""

OWNER, GROUP = 0o600, 0o660


def make_file_private(path: Path) -> None:
    """Create a missing SQLite file only for its owner; SQLite's side files inherit the mode."""
    with suppress(OSError):  # SQLite itself reports what it cannot open
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWNER))


def sqlite_url(file: Path) -> str:
    """The URL of a SQLite file, in which only `%` and `?` need an escape."""
    return "sqlite:///" + str(file).replace("%", "%25").replace("?", "%3F")


def make_database_private(path: Path) -> None:
    """Remove other users' access to an existing SQLite file and its side files.

    A group keeps its access if it may write: that is how a team shares one file on purpose.
    """
    real = os.path.realpath(path)  # SQLite follows links, too
    for suffix in ("", *LOG_SUFFIXES):
        take_from_others(Path(f"{real}{suffix}"))


def make_folder_private(folder: Path) -> None:
    """Make a missing folder, and the folders above it, so that only its owner can enter it."""
    if not folder.parent.exists():
        make_folder_private(folder.parent)
    folder.mkdir(mode=0o700, exist_ok=True)


def take_from_others(path: Path) -> None:
    """Remove the access to a file of other users, and of a group that may not write.

    Only the file's owner does so; a disk may have no modes.
    """
    with suppress(OSError):
        status = path.stat()
        if not stat.S_ISREG(status.st_mode) or status.st_uid != owner_id():
            return
        mode = stat.S_IMODE(status.st_mode)
        allowed = mode & (GROUP if mode & stat.S_IWGRP else OWNER)
        if allowed != mode:
            path.chmod(allowed)


def owner_id() -> int:
    """The user of this process; Windows has no such numbers, nor modes of files."""
    return os.geteuid() if hasattr(os, "geteuid") else -1


BUSY_SECONDS = 10


def set_up_sqlite(engine: Engine) -> None:
    """Keep the file private, set SQLite's settings, and lock the database when writing begins.

    A transaction that reads first and writes later can fail with "database is locked"; BEGIN
    IMMEDIATE waits instead.
    """

    @event.listens_for(engine, "do_connect")
    def keep_private(*_: object) -> None:
        if (file := file_of(engine.url)) is not None:
            make_file_private(file)

    @event.listens_for(engine, "connect")
    def configure(connection: Any, _record: object) -> None:
        connection.isolation_level = None  # `begin` below sends BEGIN
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("PRAGMA foreign_keys=ON")
        connection.execute("PRAGMA secure_delete=ON")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        writes = connection.get_execution_options().get("hsfiq_writes", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def keep_write_ahead_log(engine: Engine, url: str) -> None:
    """Set a SQLite file to WAL mode, in which readers and the writer do not block each other.

    The mode is stored in the file, so it is set only after the first migration: until that is
    committed the file is empty, and a killed process leaves it new.
    """
    deadline = monotonic() + BUSY_SECONDS
    connection = engine.raw_connection()
    try:
        while True:
            try:
                connection.cursor().execute("PRAGMA journal_mode=WAL")
            except sqlite3.Error as error:
                # SQLite itself does not wait here while other processes open the file.
                if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or monotonic() > deadline:
                    raise unusable(url, error) from error
                sleep(0.01)
            else:
                return
    finally:
        connection.close()


def checkpoint(engine: Engine, wait_seconds: float) -> bool:
    """Copy the write-ahead log into the main file and empty it; return whether that succeeded.

    A transaction that still reads an older state keeps it from succeeding; until then the main file
    may have some pages of a newer state than others. Readers are waited for so long, and nothing
    can be written meanwhile.
    """
    try:
        connection = engine.raw_connection()
    except DBAPIError:
        return False
    try:
        cursor = connection.cursor()
        cursor.execute(f"PRAGMA busy_timeout={1000 * wait_seconds:.0f}")
        busy, _, _ = cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    except sqlite3.Error:  # such as a full disk: the log keeps everything
        return False
    finally:
        cursor.execute(f"PRAGMA busy_timeout={1000 * BUSY_SECONDS}")
        connection.close()
    return not busy


def rewrite_file(engine: Engine) -> bool:
    """Rewrite the file without deleted rows, and empty the log; return whether that succeeded.

    `secure_delete` overwrites deleted rows, but not the copies of rows that SQLite leaves in unused
    parts of pages when it moves rows to other pages.
    """
    connection = engine.raw_connection()
    try:
        connection.cursor().execute("VACUUM")
    except sqlite3.Error:  # locked by another process, or no space for a second copy
        return False
    finally:
        connection.close()
    return checkpoint(engine, BUSY_SECONDS)


def is_fresh_sqlite(url: URL) -> bool:
    """Whether `url` is a SQLite database that does not exist yet or is an empty file."""
    if url.get_backend_name() != "sqlite" or is_opened_read_only(url):
        return False
    file = file_of(url)
    return file is None or not file.exists() or file.stat().st_size == 0


def file_of(url: URL) -> Path | None:
    """The file of a SQLite database, None if it is kept in memory or is an archive."""
    if url.database in (None, "", ":memory:") or is_opened_read_only(url):
        return None
    return Path(str(url.database))


def is_opened_read_only(url: URL) -> bool:
    """Whether it is a URL of `archive_url`."""
    return url.query.get("mode") == "ro"


def is_archive(url: URL) -> bool:
    """Whether it is an existing SQLite file that this process cannot write to.

    SQLite reads a file in WAL mode without writing beside it only if nobody changes it meanwhile.
    """
    file = file_of(url) if url.get_backend_name() == "sqlite" else None
    if file is None or not file.is_file():
        return False
    return not os.access(file, os.W_OK)


def archive_url(url: URL, shown: str) -> URL:
    """The URL that opens an archive; `UnreadableInput` if it lacks answers that are beside it.

    With both files beside it, as on a disk that has become read-only, SQLite reads the log, too.
    """
    file = Path(str(url.database)).resolve()
    log, index = (file.with_name(f"{file.name}{suffix}") for suffix in ("-wal", "-shm"))
    is_complete = not log.exists() or log.stat().st_size == 0
    if not is_complete and not index.exists():
        raise UnreadableInput(
            shown,
            f"cannot be written to, and {log.name} beside it may have answers that it lacks",
            f"copy {file.name} and {log.name} together to a folder that can be written to",
        )
    unchanged = {"immutable": "1"} if is_complete else {}
    query = {"mode": "ro", "uri": "true"} | unchanged
    return url.set(database=f"file:{quote(str(file))}", query=query)


def identity_of(file: Path | None) -> tuple[int, int] | None:
    """The identity of a file, to detect a replaced one; None if there is none."""
    try:
        status = file.stat() if file is not None else None
    except OSError:
        return None
    return None if status is None else (status.st_dev, status.st_ino)


def is_read_only(engine: Engine) -> bool:
    """Whether SQLite cannot write now, for another reason than a lock; nothing is written.

    SQLite itself notices a disk that has become read-only only when it writes.
    """
    file = file_of(engine.url)
    if file is not None and file.exists() and not os.access(file, os.W_OK):
        return True
    connection = engine.raw_connection()
    try:
        cursor = connection.cursor()
        cursor.execute("PRAGMA busy_timeout=0")
        cursor.execute("BEGIN IMMEDIATE")  # which a database that can only be read allows
        try:
            cursor.execute("UPDATE alembic_version SET version_num = '' WHERE 0")
        finally:
            cursor.execute("ROLLBACK")
    except sqlite3.OperationalError as error:
        return error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_READONLY
    else:
        return False
    finally:
        cursor.execute(f"PRAGMA busy_timeout={1000 * BUSY_SECONDS}")
        connection.close()
