"""Back up and restore a database of either kind."""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Engine

from hsfiq.atomic_files import explained_write_errors, new_private_file
from hsfiq.backup import postgres_archives, sqlite_files
from hsfiq.backup.contents import Contents
from hsfiq.db.engine import connect, connect_existing
from hsfiq.db.private_files import LOG_SUFFIXES
from hsfiq.db.sqlite import file_of, is_fresh_sqlite
from hsfiq.db.urls import reachable, shown_url
from hsfiq.errors import NothingToDo, UnreadableInput

KINDS = {sqlite_files.MAGIC: "sqlite", postgres_archives.MAGIC: "postgresql"}
"""The kind of database whose backups begin with these bytes."""

NAMES = {"sqlite": "SQLite", "postgresql": "PostgreSQL"}


@dataclass(frozen=True, slots=True)
class Backup:
    """A backup's file and what it holds."""

    file: Path
    size: int
    sha256: str
    contents: Contents

    def facts(self) -> dict[str, Any]:
        about_file = {"file": str(self.file), "bytes": self.size, "sha256": self.sha256}
        return about_file | self.contents.facts()


def back_up(url: str, file: Path) -> Backup:
    """Write a new file, which only its owner can read, with one state of a database.

    Raises:
        UnreadableInput: the file exists or cannot be written, the database cannot be used, or
            PostgreSQL's programs cannot.
        NothingToDo: there is no database, or it is damaged.
    """
    where = shown_url(url)
    with engine_for(url, connect_existing) as engine:
        if is_fresh_sqlite(engine.url):
            raise NothingToDo(f"{where}: there is no database yet")
        is_sqlite = engine.dialect.name == "sqlite"
        write = sqlite_files.back_up if is_sqlite else postgres_archives.back_up
        with explained_errors(file), new_private_file(file) as draft:
            contents = write(engine, where, draft)
            size, sha256 = draft.stat().st_size, digest(draft)
    return Backup(file, size, sha256, contents)


def restore(file: Path, url: str) -> Contents:
    """Restore a backup into a database that holds nothing: all of it, or nothing.

    Raises:
        UnreadableInput: the file is no backup of this kind of database, the database holds
            something or cannot be written, or PostgreSQL's programs cannot be used.
        NothingToDo: the backup is damaged.
    """
    where, kind = shown_url(url), kind_of(file)
    with engine_for(url) as engine:
        if engine.dialect.name != kind:
            raise UnreadableInput(
                str(file),
                f"is a backup of {NAMES[kind]}, but {where} is not",
                f"name a database of {NAMES[kind]} with --database",
            )
        if kind == "postgresql":
            return postgres_archives.restore(file, engine, where)
        path = file_of(engine.url)
        if path is None:
            raise UnreadableInput(
                where, "is kept in memory only", "name a file, as sqlite:///new.db"
            )
        require_unused(path)
        with explained_errors(path), new_private_file(path) as draft:
            return sqlite_files.restore(file, draft)


@contextmanager
def engine_for(url: str, opened_by: Callable[[str], Engine] = connect) -> Iterator[Engine]:
    """An engine for a URL; errors of its driver become `UnreadableInput`."""
    engine = opened_by(url)
    try:
        with reachable(url):
            yield engine
    finally:
        engine.dispose()


@contextmanager
def explained_errors(file: Path) -> Iterator[None]:
    """Turn errors of writing a file into `UnreadableInput`."""
    try:
        with explained_write_errors(file):
            yield
    except sqlite3.Error as error:
        raise UnreadableInput(str(file), f"cannot be written ({error})") from error


def kind_of(file: Path) -> str:
    """The kind of database that a file is a backup of; `UnreadableInput` if it is no backup."""
    try:
        with file.open("rb") as opened:
            beginning = opened.read(max(map(len, KINDS)))
    except OSError as error:
        raise UnreadableInput(str(file), f"cannot be read ({error.strerror})") from error
    for magic, kind in KINDS.items():
        if beginning.startswith(magic):
            return kind
    raise UnreadableInput(str(file), "is not a backup of `hsfiq db backup`")


def require_unused(path: Path) -> None:
    """Refuse a SQLite database that exists, or of which a file has been left.

    SQLite would apply a write-ahead log of another database to the one restored.
    """
    for suffix in ("", *LOG_SUFFIXES):
        if os.path.lexists(f"{path}{suffix}"):
            raise UnreadableInput(f"{path}{suffix}", "exists already", "name a new database")


def digest(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
