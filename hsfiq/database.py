"""Opening a database: engine settings, transactions, and whether its schema is the current one.

SQLite is the embedded default (WAL, foreign keys on, synchronous FULL: an acknowledged write
survives a kill). A fresh SQLite file is made and migrated on first use; any other database is
changed only by `upgrade`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
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

from hsfiq.errors import NothingToDo, UnreadableInput
from hsfiq.tables import Base

DEFAULT_URL = "sqlite:///hsfiq.db"
BUSY_SECONDS = 30


class Database:
    """An open database whose schema is current.

    `reading` and `writing` give a session in one transaction each; `writing` commits at its end
    or, on any error, leaves nothing behind.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._writers = engine.execution_options(hsfiq_writes=True)

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """A session that only reads: one consistent state of the database."""
        with Session(self.engine, expire_on_commit=False) as session:
            yield session

    @contextmanager
    def writing(self) -> Iterator[Session]:
        """A session whose work is committed whole when the block ends, else not at all."""
        with Session(self._writers, expire_on_commit=False) as session, session.begin():
            yield session

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
    except BaseException:
        engine.dispose()
        raise
    return Database(engine)


def require_current(engine: Engine, url: str) -> None:
    """Raise `UnreadableInput` unless the database's schema is the newest one."""
    found, head = current_revision(engine), head_revision()
    if found != head:
        raise UnreadableInput(
            shown_url(url),
            f"the database is at schema revision {found or 'none'}, this hsfiq needs {head}",
            "run `hsfiq db upgrade` (after a backup)",
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
        engine = create_engine(parsed, **engine_options(parsed))
    except (ArgumentError, NoSuchModuleError, ValueError) as error:
        raise UnreadableInput(
            "--database", f"{shown_url(url)} is no database URL", f"use one like {DEFAULT_URL}"
        ) from error
    except ModuleNotFoundError as error:
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
        return {"connect_args": {"timeout": BUSY_SECONDS}}
    return {"pool_pre_ping": True, "pool_size": 20}


def set_up_sqlite(engine: Engine) -> None:
    """Give every connection the settings that SQLite forgets, and every writer its lock at once.

    A transaction that reads first and writes later can fail half-way with "database is locked";
    BEGIN IMMEDIATE waits for its turn instead.
    """

    @event.listens_for(engine, "connect")
    def configure(connection: Any, _record: object) -> None:
        connection.isolation_level = None  # BEGIN is ours, below
        for pragma in (
            "journal_mode=WAL",
            "synchronous=FULL",
            "foreign_keys=ON",
            f"busy_timeout={BUSY_SECONDS * 1000}",
        ):
            connection.execute(f"PRAGMA {pragma}")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        writes = connection.get_execution_options().get("hsfiq_writes", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


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
    inside = Path(__file__).parent / "migrations"
    return inside if inside.is_dir() else Path(__file__).parent.parent / "migrations"


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
    """Bring the database to the newest schema revision, in one transaction."""
    with engine.execution_options(hsfiq_writes=True).begin() as connection:
        command.upgrade(alembic_config(connection), "head")


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
        raise unreachable(url, error) from error


def shown_url(url: str) -> str:
    """The URL without its password."""
    try:
        return make_url(url).render_as_string(hide_password=True)
    except (ArgumentError, ValueError):
        return url


def unreachable(url: str, error: DBAPIError) -> UnreadableInput:
    """One line for a database that does not answer or is none."""
    reason = (
        str(error.orig).strip().splitlines()[0] if str(error.orig).strip() else "no reason given"
    )
    return UnreadableInput(shown_url(url), f"the database cannot be used ({reason})")
