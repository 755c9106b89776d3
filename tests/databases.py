"""Databases that the tests of one process use in turn.

Making a database for each test takes longer than emptying one. SQLAlchemy also keeps compiled
statements with an engine, and commands open databases of their own, so without `share_statements`
each command would compile every statement again.
"""

from __future__ import annotations

import secrets
import shutil
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from time import sleep

from sqlalchemy import URL, Connection, Engine, text
from sqlalchemy.dialects import registry
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite
from sqlalchemy.engine import Compiled, make_url
from sqlalchemy.exc import DBAPIError
from sqlalchemy.util import LRUCache

from hsfiq.db.engine import connect, open_database
from hsfiq.db.schema import upgrade
from hsfiq.db.tables import METADATA

STATEMENTS: LRUCache[object, Compiled] = LRUCache(3000)
"""The compiled statements of all engines in this process."""


class SharedStatements:
    """A dialect that equals each other one of its class: it is part of a statement's key."""

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(type(self))

    @classmethod
    def engine_created(cls, engine: Engine) -> None:
        engine.update_execution_options(compiled_cache=STATEMENTS)


class Sqlite(SharedStatements, SQLiteDialect_pysqlite):
    supports_statement_cache = True  # each class of SQLAlchemy's dialects has to say this itself


class Postgres(SharedStatements, PGDialect_psycopg):
    supports_statement_cache = True


def share_statements() -> None:
    """Let the engines that are made from now on share their compiled statements."""
    registry.register("sqlite", __name__, Sqlite.__name__)
    registry.register("postgresql.psycopg", __name__, Postgres.__name__)


@cache
def migrated_sqlite() -> bytes:
    """The content of a migrated, empty SQLite file; to make one takes half a second."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "empty.db"
        open_database(f"sqlite:///{path}").close()
        return path.read_bytes()


class ReusedSqlite:
    """A SQLite file that is replaced by an empty, migrated one after each test."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.url = f"sqlite:///{path}"
        self.engine: Engine = connect(self.url)
        path.write_bytes(migrated_sqlite())

    def clean(self) -> None:
        """Replace the file, and remove its log and the images that a test has copied beside it."""
        self.engine.dispose()
        shutil.rmtree(self.path.parent)
        self.path.parent.mkdir()
        self.path.write_bytes(migrated_sqlite())


class PostgresServer:
    """A running server, and the databases with random names that tests make on it.

    Their commits do not wait for the disk: no test stops the server, and whatever happens to a
    client, the server keeps what it has acknowledged.
    """

    def __init__(self, url: str) -> None:
        self.url = make_url(url)
        self.engine: Engine = connect(url).execution_options(isolation_level="AUTOCOMMIT")
        self.prefix = f"hsfiq_test_{secrets.token_hex(6)}"
        self.urls: list[str] = []

    def make(self) -> str:
        """Make a database without any table and return its URL."""
        name = f"{self.prefix}_{len(self.urls)}"
        self.run(f'CREATE DATABASE "{name}" TEMPLATE template0')
        self.run(f'ALTER DATABASE "{name}" SET synchronous_commit = off')
        self.urls.append(self.url.set(database=name).render_as_string(hide_password=False))
        return self.urls[-1]

    def drop(self, url: str) -> None:
        """Drop a database and end its connections."""
        self.run(f'DROP DATABASE IF EXISTS "{make_url(url).database}" WITH (FORCE)')

    def drop_all(self) -> None:
        """Drop every database made here and close the connections."""
        for url in self.urls:
            self.drop(url)
        self.engine.dispose()

    def end_connections(self, url: str) -> None:
        """End all connections to a database."""
        self.run(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            f" WHERE datname = '{make_url(url).database}'"
        )

    def wait_for_a_lock(self, url: URL, thread: Thread) -> None:
        """Return when a connection to a database waits for a lock, or the thread has ended."""
        waiting = text(
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE datname = :name AND wait_event_type = 'Lock'"
        )
        with self.engine.connect() as connection:
            while thread.is_alive() and not connection.scalar(waiting, {"name": url.database}):
                sleep(0.02)

    def run(self, statement: str) -> None:
        """Run one statement outside any transaction."""
        with self.engine.connect() as connection:
            connection.execute(text(statement))


class ReusedPostgres:
    """A migrated PostgreSQL database that is emptied after each test.

    It is made again after a test that has changed its schema. The connection that empties it stays
    open: the server reads its catalogue for each new connection, which takes longer than the rest.
    """

    OTHERS_END = text(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    SCHEMA = text(
        "SELECT concat_ws(' ', table_name, column_name, data_type) FROM information_schema.columns"
        " WHERE table_schema = 'public' UNION SELECT version_num FROM alembic_version"
        " UNION SELECT conname FROM pg_constraint"
        " UNION SELECT tgname FROM pg_trigger WHERE NOT tgisinternal"
    )
    EMPTY = text(
        ";".join(f'DELETE FROM "{table.name}"' for table in reversed(METADATA.sorted_tables))
    )
    RESTART = text("SELECT setval(quote_ident(sequencename), 1, false) FROM pg_sequences")

    def __init__(self, server: PostgresServer) -> None:
        self.server = server
        self.make()

    def make(self) -> None:
        self.url = self.server.make()
        self.engine: Engine = connect(self.url)
        upgrade(self.engine)
        self.engine.dispose()
        self.keeper = connect(self.url).execution_options(isolation_level="AUTOCOMMIT")
        with self.keeper.connect() as connection:
            self.schema = self.read_schema(connection)

    def read_schema(self, connection: Connection) -> set[str] | None:
        """Tables, columns, constraints, triggers and the revision; None without tables."""
        try:
            return set(connection.scalars(self.SCHEMA))
        except DBAPIError:
            return None

    def clean(self) -> None:
        self.engine.dispose()
        with self.keeper.connect() as connection:
            connection.execute(self.OTHERS_END)
            is_same = self.read_schema(connection) == self.schema
            if is_same:
                connection.execute(self.EMPTY)
                connection.execute(self.RESTART)
        if not is_same:
            self.close()
            self.server.drop(self.url)
            self.make()

    def close(self) -> None:
        self.engine.dispose()
        self.keeper.dispose()
