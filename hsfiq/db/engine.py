"""Opening a database: engine settings, transactions, and whether its schema is the current one.

SQLite is the embedded default (WAL, foreign keys on, synchronous FULL: an acknowledged write
survives a kill). A fresh SQLite file is made and migrated on first use; any other database is
changed only by `upgrade`.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from time import monotonic, sleep
from typing import Any

from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError
from sqlalchemy.orm import Session

from hsfiq.db.tables import Base
from hsfiq.errors import Busy, NothingToDo, UnreadableInput

DEFAULT_URL = "sqlite:///hsfiq.db"
BUSY_SECONDS = 10
CONNECTIONS = 40
"""As many as the app has threads: none of them waits for a connection."""

_USER_PASSWORD = re.compile(r"(//[^/:@]*:).*@")
_QUERY_PASSWORD = re.compile(r"([?&]\w*password=)[^&]*", re.IGNORECASE)


class Database:
    """An open database whose schema is current.

    `reading` and `writing` give a session in one transaction each; `writing` commits at its end
    or, on any error, leaves nothing behind.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._writers = engine.execution_options(hsfiq_writes=True)
        # SQLite takes one writer at a time and lets the others poll, some of them very long;
        # within a process a lock hands the turn on at once.
        self._turn = Lock() if engine.dialect.name == "sqlite" else None
        # PostgreSQL would show each statement of a transaction the newest state.
        self._readers = (
            engine.execution_options(isolation_level="REPEATABLE READ")
            if engine.dialect.name == "postgresql"
            else engine
        )

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """A session that only reads: one consistent state of the database."""
        with Session(self._readers, expire_on_commit=False) as session:
            yield session

    @contextmanager
    def writing(self) -> Iterator[Session]:
        """A session whose work is committed whole when the block ends, else not at all."""
        with (
            self._writing_turn(),
            Session(self._writers, expire_on_commit=False) as session,
            session.begin(),
        ):
            yield session

    @contextmanager
    def _writing_turn(self) -> Iterator[None]:
        """This process's turn to write, where only one connection can.

        Raises:
            Busy: it did not come within `BUSY_SECONDS`.
        """
        if self._turn is None:
            yield
            return
        if not self._turn.acquire(timeout=BUSY_SECONDS):
            raise Busy("the database is busy; please try again")
        try:
            yield
        finally:
            self._turn.release()

    def close(self) -> None:
        """Let go of every connection."""
        self.engine.dispose()


def open_database(url: str, *, create: bool = True) -> Database:
    """Open the database at `url`; make and migrate a fresh SQLite file if `create` allows it.

    Raises:
        UnreadableInput: the URL is none, nothing answers there, the file is no database, or its
            schema is not the current one.
        NothingToDo: there is no database yet and `create` is False.
    """
    engine = connect(url)
    try:
        with reachable(url):
            if is_fresh_sqlite(engine.url):
                if not create:
                    raise NothingToDo(
                        f"{shown_url(url)}: there is no database yet; import something first"
                    )
                upgrade(engine)
            require_current(engine, url)
            keep_write_ahead_log(engine, url)
    except BaseException:
        engine.dispose()
        raise
    return Database(engine)


def require_current(engine: Engine, url: str) -> None:
    """Raise `UnreadableInput` unless the database's schema is the newest one."""
    found, head = current_revision(engine), head_revision()
    require_known(found, url)
    if found != head:
        raise UnreadableInput(
            shown_url(url),
            f"the database is at schema revision {found or 'none'}, this hsfiq needs {head}",
            "run `hsfiq db upgrade` (after a backup)",
        )


def require_known(revision: str | None, url: str) -> None:
    """Raise `UnreadableInput` if this hsfiq has never heard of the schema revision."""
    revisions = ScriptDirectory.from_config(alembic_config()).walk_revisions()
    if revision is not None and revision not in {known.revision for known in revisions}:
        raise UnreadableInput(
            shown_url(url),
            f"the database is at schema revision {revision}, which only a newer hsfiq knows "
            f"(this one knows {head_revision()})",
            "install the newest hsfiq",
        )


def connect(url: str) -> Engine:
    """An engine for `url` with this project's settings; nothing is opened yet.

    Raises:
        UnreadableInput: the URL cannot be read or its driver is not installed.
    """
    try:
        parsed = make_url(url)
        if parsed.drivername in ("postgresql", "postgres"):
            parsed = parsed.set(drivername="postgresql+psycopg")
        if parsed.get_backend_name() not in ("sqlite", "postgresql"):
            raise ArgumentError("neither SQLite nor PostgreSQL")
        engine = create_engine(parsed, **engine_options(parsed))
    except (ArgumentError, NoSuchModuleError, ValueError) as error:
        raise UnreadableInput(
            "--database",
            f"{shown_url(url)} is no database URL",
            f"use one like {DEFAULT_URL} or postgresql://localhost/hsfiq",
        ) from error
    except ImportError as error:  # the driver itself, or the library that it loads
        raise UnreadableInput(
            "--database",
            f"the driver for {shown_url(url)} is not installed",
            "pip install 'hsfiq[postgres]'",
        ) from error
    if engine.dialect.name == "sqlite":
        set_up_sqlite(engine)
    return engine


def engine_options(url: URL) -> dict[str, Any]:
    """Settings for the kind of database that `url` names."""
    if url.get_backend_name() == "sqlite":
        return {"connect_args": {"timeout": BUSY_SECONDS}, "pool_size": CONNECTIONS}
    return {"pool_pre_ping": True, "pool_size": CONNECTIONS}


def set_up_sqlite(engine: Engine) -> None:
    """Give every connection the settings that SQLite forgets, and every writer its lock at once.

    A transaction that reads first and writes later can fail half-way with "database is locked";
    BEGIN IMMEDIATE waits for its turn instead.
    """

    @event.listens_for(engine, "connect")
    def configure(connection: Any, _record: object) -> None:
        connection.isolation_level = None  # BEGIN is ours, below
        for pragma in ("synchronous=FULL", "foreign_keys=ON"):
            connection.execute(f"PRAGMA {pragma}")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        writes = connection.get_execution_options().get("hsfiq_writes", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def keep_write_ahead_log(engine: Engine, url: str) -> None:
    """Put a SQLite file into WAL mode, where readers and a writer do not hinder each other.

    The mode is written into the file, so only a database of ours gets it, and only after its
    first migration: until that is committed the file is empty, and still fresh after a kill.
    """
    if engine.dialect.name != "sqlite":
        return
    deadline = monotonic() + BUSY_SECONDS
    connection = engine.raw_connection()
    try:
        while True:
            try:
                connection.cursor().execute("PRAGMA journal_mode=WAL")
            except sqlite3.Error as error:
                # Here SQLite does not wait by itself while others open the file, too.
                if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or monotonic() > deadline:
                    raise unusable(url, error) from error
                sleep(0.01)
            else:
                return
    finally:
        connection.close()


def is_fresh_sqlite(url: URL) -> bool:
    """Whether `url` names a SQLite database that does not exist yet (or is an empty file)."""
    if url.get_backend_name() != "sqlite":
        return False
    if url.database in (None, "", ":memory:"):
        return True
    path = Path(url.database)
    return not path.exists() or path.stat().st_size == 0


# -------------------------------------------------------------------------------------- schema


def migrations_folder() -> Path:
    """Where the revisions lie: inside an installed wheel, beside the package in a checkout."""
    return Path(__file__).parents[1] / "migrations"


def alembic_config(connection: Connection | None = None) -> Config:
    """Alembic's settings, made here so that commands work from any folder."""
    config = Config()
    config.set_main_option("script_location", str(migrations_folder()).replace("%", "%%"))
    config.attributes["connection"] = connection
    return config


def head_revision() -> str:
    """The newest schema revision that this hsfiq knows."""
    return str(ScriptDirectory.from_config(alembic_config()).get_current_head())


def current_revision(engine: Engine) -> str | None:
    """The schema revision of the database, None where it has none."""
    with engine.connect() as connection:
        return MigrationContext.configure(connection).get_current_revision()


def upgrade(engine: Engine) -> None:
    """Bring the database to the newest schema revision, in one transaction.

    Raises:
        UnreadableInput: a newer hsfiq has made or upgraded it, or a row would lose what it
            refers to; nothing is changed then.
    """
    require_known(current_revision(engine), str(engine.url))
    with engine.execution_options(hsfiq_writes=True).connect() as connection:
        if engine.dialect.name != "sqlite":
            with connection.begin():
                command.upgrade(alembic_config(connection), "head")
            return
        with foreign_keys_off(connection), connection.begin():
            command.upgrade(alembic_config(connection), "head")
            require_whole(connection)


@contextmanager
def foreign_keys_off(connection: Connection) -> Iterator[None]:
    """Let SQLite replace a table that others refer to, which is how it alters one.

    The setting belongs to the connection and cannot change within a transaction. A connection
    that does not take it back is thrown away: it must not be lent again without its keys.
    """
    raw = connection.connection.driver_connection
    if raw is None:
        raise TypeError("a connection without a driver's connection")
    raw.execute("PRAGMA foreign_keys=OFF")
    try:
        yield
    finally:
        raw.execute("PRAGMA foreign_keys=ON")
        if raw.execute("PRAGMA foreign_keys").fetchone() != (1,):
            connection.invalidate()


def require_whole(connection: Connection) -> None:
    """Raise `UnreadableInput` if a row refers to one that is not there."""
    broken = connection.exec_driver_sql("PRAGMA foreign_key_check").all()
    if broken:
        raise UnreadableInput(
            str(connection.engine.url),
            f"{len(broken):,} rows would refer to rows that are not there (the first in "
            f"{broken[0][0]}); nothing was changed",
        )


def differences(engine: Engine) -> list[str]:
    """How the database's schema differs from the tables that this hsfiq knows."""
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        return [str(change) for change in compare_metadata(context, Base.metadata)]


# -------------------------------------------------------------------------------------- messages


@contextmanager
def reachable(url: str) -> Iterator[None]:
    """Turn the driver's errors inside the block into one line about `url`."""
    try:
        yield
    except DBAPIError as error:
        raise unusable(url, error.orig) from error


def shown_url(url: str) -> str:
    """The URL without its password, wherever that stands."""
    try:
        url = make_url(url).render_as_string(hide_password=True)
    except (ArgumentError, ValueError):
        url = _USER_PASSWORD.sub(r"\1***@", url)
    return _QUERY_PASSWORD.sub(r"\1***", url)


def unusable(url: str, error: BaseException | None) -> UnreadableInput:
    """One line for a database that does not answer or is none, from its driver's error."""
    lines = str(error).strip().splitlines() or ["no reason given"]
    return UnreadableInput(shown_url(url), f"the database cannot be used ({lines[0]})")
