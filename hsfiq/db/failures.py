"""Errors about a database that cannot be used, and URLs in messages, without passwords."""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DataError, DBAPIError
from sqlalchemy.exc import TimeoutError as NoFreeConnection

from hsfiq.errors import Busy, Refused, Unavailable, UnreadableInput

# How much space a disk has left.

LEAST_SPACE = 100 * 2**20
"""Bytes that a disk must have left for a server to take answers."""


def first_existing(folder: Path) -> Path | None:
    """The folder, or the nearest one above it that exists."""
    return next((each for each in (folder, *folder.absolute().parents) if each.exists()), None)


def free_space(folder: Path) -> int:
    """Bytes that this user may still write."""
    state = os.statvfs(folder)
    return state.f_bavail * state.f_frsize


# How many seconds a server's statements in PostgreSQL may wait and last.
#
# SQLite needs no such limits: its writers wait for `BUSY_SECONDS`, and its readers not at all.

LOCK_SECONDS, STATEMENT_SECONDS, IDLE_SECONDS = 5, 30, 60
"""For a lock; for one statement; between two statements of a transaction.

The question page gives up a request after 20 seconds.
"""

ANSWER_SECONDS = STATEMENT_SECONDS + 5.0
"""For the answer to a statement: PostgreSQL itself ends the statement earlier."""


# Failures that are not the program's: no connection, locks, a full disk, a statement's time.

SQLITE_REASONS = {
    sqlite3.SQLITE_BUSY: "the database is locked",
    sqlite3.SQLITE_LOCKED: "the database is locked",
    sqlite3.SQLITE_FULL: "the disk of the database is full",
    sqlite3.SQLITE_IOERR: "the disk of the database fails",
    sqlite3.SQLITE_CANTOPEN: "the database cannot be opened",
    sqlite3.SQLITE_READONLY: "the database can only be read",
}
"""By SQLite's primary result code."""

PRIMARY_CODE = 0xFF
"""The part of SQLite's extended result codes that is the primary one."""

NOT_ALLOWED = "42501"
"""PostgreSQL's SQLSTATE for a statement that the user may not run."""

POSTGRES_REASONS = {
    "08": "the database cannot be reached",
    "57P": "the database cannot be reached",
    "25006": "the database can only be read",
    NOT_ALLOWED: "the database's user may not do this",
    "25P03": "a transaction took too long",
    "53100": "the disk of the database is full",
    "53": "the database has no resources left",
    "40001": "another request changed the same rows",
    "40P01": "another request changed the same rows",
    "55P03": "rows of the database are locked",
    "57014": "a statement took too long",
    "58": "the disk of the database fails",
}
"""By the beginning of PostgreSQL's SQLSTATE."""

LOCKS = ("locked", "changed", "took too long")

UNSTORABLE = ("surrogates not allowed", "cannot contain NUL")
"""The drivers' messages about a text that no database can store."""


@contextmanager
def unavailable() -> Iterator[None]:
    """Raise `Unavailable` or `Busy` for failures that pass without a change of the program.

    A text that cannot be stored is `Refused`: anybody can send one as a name.
    """
    try:
        yield
    except (UnicodeEncodeError, DataError) as error:
        if not any(words in str(error) for words in UNSTORABLE):
            raise
        raise Refused("a text has characters that cannot be stored") from error
    except NoFreeConnection as error:
        raise Busy("the database is busy; please try again") from error
    except DBAPIError as error:
        reason = reason_of(error)
        if reason is None:
            raise
        kind = Busy if any(word in reason for word in LOCKS) else Unavailable
        raise kind(f"{reason}; please try again") from error


def reason_of(error: DBAPIError) -> str | None:
    """The reason why the database failed; None for an error of the program."""
    original = error.orig
    if isinstance(original, sqlite3.Error):
        code = getattr(original, "sqlite_errorcode", None)
        return None if code is None else SQLITE_REASONS.get(code & PRIMARY_CODE)
    state = getattr(original, "sqlstate", None)
    if state is None:
        return POSTGRES_REASONS["08"] if is_lost(error) else None
    matching = [start for start in POSTGRES_REASONS if state.startswith(start)]
    return POSTGRES_REASONS[max(matching, key=len)] if matching else None


def reason_not_written(error: Unavailable | DBAPIError) -> str | None:
    """The reason why the database cannot be written now; None for an error of the program."""
    cause = error.__cause__ if isinstance(error, Unavailable) else error
    if not isinstance(cause, DBAPIError):
        return str(error)
    if getattr(cause.orig, "sqlstate", None) == NOT_ALLOWED:
        return "its user may only read it"
    return reason_of(cause)


def is_lost(error: DBAPIError) -> bool:
    """Whether the driver itself found no server, or lost it: PostgreSQL sent no SQLSTATE."""
    return error.connection_invalidated or type(error.orig).__name__ in (
        "OperationalError",
        "ConnectionTimeout",
    )


# Database URLs in messages: without passwords, and errors about a database that cannot be used.

_CREDENTIALS = re.compile(r"^(\w[\w+.-]*:/*)?.*@")
"""What stands before the host in a URL that SQLAlchemy cannot read; it may hold a password."""
_QUERY_PASSWORD = re.compile(r"([?&]\w*password=)[^&]*", re.IGNORECASE)


@contextmanager
def reachable(url: str) -> Iterator[None]:
    """Convert the driver's errors in this block to `UnreadableInput`."""
    try:
        yield
    except DBAPIError as error:
        raise unusable(url, error.orig) from error


def shown_url(url: str) -> str:
    try:
        url = make_url(url).render_as_string(hide_password=True)
    except (ArgumentError, ValueError):
        url = _CREDENTIALS.sub(r"\1***@", url)
    return _QUERY_PASSWORD.sub(r"\1***", url)


def has_password(url: str) -> bool:
    return "***" in shown_url(url) and "***" not in url


def unusable(url: str, error: BaseException | None) -> UnreadableInput:
    """The error for a database that cannot be reached or used, from its driver's error."""
    lines = str(error).strip().splitlines() or ["no reason given"]
    return UnreadableInput(shown_url(url), f"the database cannot be used ({lines[0]})")
