"""PostgreSQL's settings and locks, and rewriting tables that hold deleted rows."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from time import monotonic, sleep
from typing import Any

from sqlalchemy import Connection, Engine, event, func, select, text
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from hsfiq.db.failures import IDLE_SECONDS, LOCK_SECONDS, STATEMENT_SECONDS
from hsfiq.db.types import Base

# What SQLite, with one writer on one host, needs no statement for.


def lock_table(session: Session, table: type[Base], mode: str = "SHARE UPDATE EXCLUSIVE") -> None:
    """Block other callers until the transaction ends; a stricter mode blocks more statements."""
    if session.get_bind().dialect.name == "postgresql":
        session.execute(text(f"LOCK TABLE {table.__tablename__} IN {mode} MODE"))


def time_of(session: Session) -> datetime:
    """The time of PostgreSQL, because hosts may differ."""
    if session.get_bind().dialect.name == "postgresql":
        theirs: datetime = session.execute(select(func.clock_timestamp())).scalar_one()
        return theirs
    return datetime.now(UTC)


# Errors of PostgreSQL without the rows and values that it quotes in them.
#
# PostgreSQL adds the row that breaks a rule to its message (`DETAIL: Failing row contains ...`),
# and names values of the wrong form. Both would put answers and participants' links into the log.

DATA_EXCEPTION = "22"
"""The class of SQLSTATE whose messages name values."""


def remove_data_from_errors(engine: Engine) -> None:
    """Shorten the driver's errors, and SQLAlchemy's about them, before anybody sees them."""

    @event.listens_for(engine, "handle_error")
    def shorten(context: ExceptionContext) -> None:
        error = context.original_exception
        message = message_without_data(error)
        if message is None:
            return
        error.args = (message,)
        if context.sqlalchemy_exception is not None:
            name = f"{type(error).__module__}.{type(error).__name__}"
            context.sqlalchemy_exception.args = (f"({name}) {message}",)


def message_without_data(error: BaseException) -> str | None:
    """The first part of the server's message; None if the error is not the server's."""
    diagnosis: Any = getattr(error, "diag", None)
    primary, state = (getattr(diagnosis, key, None) for key in ("message_primary", "sqlstate"))
    if not primary:
        return None
    if state and str(state).startswith(DATA_EXCEPTION):
        return f"a value was refused (SQLSTATE {state})"
    return str(primary)


# Set the limits of a server's statements on its connections to PostgreSQL.


def limit_waiting(engine: Engine) -> None:
    """Limit the statements of all connections from now on.

    A server's statements are short: compiling one takes PostgreSQL longer than running it.
    """
    if engine.dialect.name != "postgresql":
        return
    from hsfiq.db.limited_connection import LimitedConnection  # noqa: PLC0415

    @event.listens_for(engine, "do_connect")
    def connect(
        _dialect: object, _record: object, arguments: list[Any], settings: dict[str, Any]
    ) -> LimitedConnection:
        return LimitedConnection.connect(*arguments, **settings)

    @event.listens_for(engine, "connect")
    def limit(connection: Any, _record: object) -> None:
        before, connection.autocommit = connection.autocommit, True
        for name, seconds in {
            "lock_timeout": LOCK_SECONDS,
            "statement_timeout": STATEMENT_SECONDS,
            "idle_in_transaction_session_timeout": IDLE_SECONDS,
        }.items():
            connection.execute(f"SET {name} = '{seconds}s'")
        connection.execute("SET jit = off")
        connection.autocommit = before

    engine.dispose()  # the pool's connections have no limits yet


def connection_settings(given: set[str]) -> dict[str, int | str]:
    """Settings of libpq that end waiting for a server that does not answer; not those given."""
    settings: dict[str, int | str] = {
        "client_encoding": "utf8",  # else the driver returns bytes from a database in SQL_ASCII
        "connect_timeout": 10,
        "keepalives_idle": 30,
        "keepalives_interval": 5,
        "keepalives_count": 3,
        "tcp_user_timeout": 15_000,  # milliseconds
    }
    return {name: value for name, value in settings.items() if name not in given}


BUSY_SECONDS = 10

TRANSACTION = text("SELECT CAST(pg_current_xact_id() AS text)")

OLDER_STATES = text(
    "SELECT pg_snapshot_xmin(pg_current_snapshot()) <= CAST(:transaction AS xid8) OR EXISTS ("
    "SELECT FROM pg_stat_activity WHERE pid <> pg_backend_pid() "
    "AND (datname = current_database() OR backend_type = 'walsender') "
    "AND age(backend_xmin) >= age(CAST(CAST(:transaction AS xid8) AS xid)))"
)
"""Whether VACUUM FULL would keep rows that were deleted before a transaction.

It keeps what any session of this database or a standby server could still read. It also keeps what
was deleted after the oldest transaction that still runs in any database of the server, because its
own snapshot begins there.
"""


def rewrite_tables(engine: Engine, tables: Sequence[str]) -> bool:
    """Rewrite tables without their deleted rows; return whether that succeeded.

    It fails if other sessions still need an older state after `BUSY_SECONDS`, or if the user
    does not own the tables.
    """
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.detach()  # so that no other session gets its lock_timeout
        connection.execute(text(f"SET lock_timeout = {1000 * BUSY_SECONDS:.0f}"))
        connection.execute(text("SET statement_timeout = 0"))  # a server's are short
        if not older_states_end(connection):
            return False
        before = files_of(connection, tables)
        try:
            connection.execute(text(f"VACUUM (FULL) {', '.join(tables)}"))
        except DBAPIError:
            return False
        return before.isdisjoint(files_of(connection, tables))


def older_states_end(connection: Connection) -> bool:
    """Wait until no session needs a state from before now; return whether that succeeded."""
    transaction = connection.scalar(TRANSACTION)
    deadline = monotonic() + BUSY_SECONDS
    while connection.scalar(OLDER_STATES, {"transaction": transaction}):
        if monotonic() > deadline:
            return False
        sleep(0.05)
    return True


def files_of(connection: Connection, tables: Sequence[str]) -> set[int]:
    """The numbers of the tables' files, which change when a table is rewritten."""
    number = text("SELECT pg_relation_filenode(CAST(:name AS regclass))")
    return {int(connection.scalar(number, {"name": name}) or 0) for name in tables}
