"""Failures that are not the program's: no connection, locks, a full disk, a statement's time."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.exc import DataError, DBAPIError
from sqlalchemy.exc import TimeoutError as NoFreeConnection

from hsfiq.errors import Busy, Refused, Unavailable

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

POSTGRES_REASONS = {
    "08": "the database cannot be reached",
    "57P": "the database cannot be reached",
    "25006": "the database can only be read",
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

NOT_ALLOWED = "42501"
"""PostgreSQL's SQLSTATE for a statement that the user may not run."""

LOCKS = ("locked", "changed", "took too long")


UNSTORABLE = ("surrogates not allowed", "cannot contain NUL")
"""What drivers say of a text that no database can hold, before they send it."""


@contextmanager
def unavailable() -> Iterator[None]:
    """Raise `Unavailable` or `Busy` for failures that pass without a change of the program.

    A text that cannot be stored, which whoever sends a request can put into a name, is `Refused`.
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
    """Why the database could not do what it was asked; None if the program is to blame."""
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
    """Why the database cannot be written now; None if the program is to blame."""
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
