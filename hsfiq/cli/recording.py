"""Recording in the audit log what a command does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from hsfiq.actors import Action
from hsfiq.cli.common import warn

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from hsfiq.db.engine import Database


def record_command(
    session: Session, action: Action, *, study: str | None = None, about: str = ""
) -> None:
    """Record an action of the user of the command line, in the transaction of the action."""
    from hsfiq.actors import command_line
    from hsfiq.audit import record

    record(session, command_line(), action, study=study, about=about)


def record_afterwards(
    opened: Database, action: Action, *, study: str | None = None, about: str = ""
) -> None:
    """Record an action that wrote nothing to the database; warn if the database can only be read.

    Data can be taken out of a database on read-only media, too.
    """
    with warning_unless_writable(action), opened.writing() as session:
        record_command(session, action, study=study, about=about)


def record_in(url: str, action: Action, about: str = "") -> None:
    """Record what was done to a whole database, which may be of an earlier version of hsfiq."""
    from sqlalchemy import inspect

    from hsfiq.db.engine import Database, connect_existing
    from hsfiq.db.tables import AuditEntry

    engine = connect_existing(url)
    try:
        with warning_unless_writable(action):
            if inspect(engine).has_table(AuditEntry.__tablename__):
                record_afterwards(Database(engine), action, about=about)
            else:
                warn_of_missing(action, "this database has none yet: run `hsfiq db upgrade`")
    finally:
        engine.dispose()


@contextmanager
def warning_unless_writable(action: Action) -> Iterator[None]:
    from sqlalchemy.exc import DBAPIError

    from hsfiq.db.failures import reason_not_written
    from hsfiq.errors import Unavailable

    try:
        yield
    except (Unavailable, DBAPIError) as error:
        reason = reason_not_written(error)
        if reason is None:
            raise
        warn_of_missing(action, reason)


def warn_of_missing(action: Action, reason: str) -> None:
    warn([f"{action} is not in the audit log ({reason})"])
