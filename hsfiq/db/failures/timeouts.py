"""Set the limits of a server's statements on its connections to PostgreSQL."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Engine, event

from hsfiq.db.failures.limits import IDLE_SECONDS, LOCK_SECONDS, STATEMENT_SECONDS


def limit_waiting(engine: Engine) -> None:
    """Limit the statements of all connections from now on."""
    if engine.dialect.name != "postgresql":
        return
    from hsfiq.db.failures.limited_connection import LimitedConnection  # noqa: PLC0415

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
