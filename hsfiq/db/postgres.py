"""Rewriting PostgreSQL's tables, so that their files no longer hold deleted rows."""

from __future__ import annotations

from collections.abc import Sequence
from time import monotonic, sleep

from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import DBAPIError

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
