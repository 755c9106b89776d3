"""Open a database: engine settings and transactions.

SQLite is the embedded default (WAL, foreign keys on, synchronous FULL: an acknowledged write
survives a kill). A new SQLite file is created and migrated on first use; any other database is
changed only by `hsfiq db upgrade`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from threading import Lock
from time import monotonic, sleep
from typing import TypeVar

from sqlalchemy import Engine, create_engine, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError
from sqlalchemy.orm import Session
from sqlalchemy.pool import QueuePool

from hsfiq.db import sqlite
from hsfiq.db.failures import reachable, shown_url, unavailable
from hsfiq.db.postgres import connection_settings, remove_data_from_errors, rewrite_tables
from hsfiq.db.schema import require_current, upgrade
from hsfiq.db.types import Base
from hsfiq.errors import Busy, NothingToDo, Unavailable, UnreadableInput
from hsfiq.signals import repeated

T = TypeVar("T")

DEFAULT_URL = "sqlite:///hsfiq.db"
CONNECTIONS = {"sqlite": 40, "postgresql": 10}
"""The most connections of a process, whose server has 40 threads.

PostgreSQL allows 100 for all processes unless it is told otherwise, and each takes memory there. A
request holds its connection for milliseconds.
"""

PART_SECONDS = 0.05
"""How long a transaction of `Database.writing_in_parts` lasts before it should end."""

CHECKPOINT_SECONDS = 0.2
"""How long a checkpoint may wait for readers, and keep writers waiting."""


class Database:
    """An open database with the newest schema.

    `reading` and `writing` give a session in one transaction each; `writing` commits at the end, or
    rolls back on any error. Both raise `Unavailable` if the database cannot do it now, and if
    `file`, the open SQLite file, is no longer at its path: later writes would go to an orphaned
    file.
    """

    def __init__(self, engine: Engine, file: Path | None = None) -> None:
        self.engine = engine
        self._file, self._identity = file, sqlite.identity_of(file)
        self._writers = engine.execution_options(hsfiq_writes=True)
        # SQLite allows one writer at a time, and the others poll, some of them for very long;
        # within a process a lock is faster and fair.
        self._turn = Lock() if engine.dialect.name == "sqlite" else None
        # By default each statement of a transaction in PostgreSQL sees the newest state.
        self._readers = (
            engine.execution_options(isolation_level="REPEATABLE READ")
            if engine.dialect.name == "postgresql"
            else engine
        )

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """A session that only reads, from one consistent state of the database."""
        self._require_own_file()
        with unavailable(), Session(self._readers, expire_on_commit=False) as session:
            yield session

    @contextmanager
    def writing(self) -> Iterator[Session]:
        with (
            unavailable(),
            self._turn_with_own_file(),
            Session(self._writers, expire_on_commit=False) as session,
            session.begin(),
        ):
            yield session

    @contextmanager
    def writing_in_parts(self) -> Iterator[Parts]:
        """Transactions one after the other; the last one is rolled back on any error."""
        with (
            unavailable(),
            ExitStack() as turn,
            Session(self._writers, expire_on_commit=False) as session,
        ):
            parts = Parts(session, self._turn_with_own_file, turn)
            yield parts
            session.commit()

    @contextmanager
    def _writing_turn(self) -> Iterator[None]:
        """Wait until no other thread writes to SQLite; raise `Busy` after `BUSY_SECONDS`."""
        if self._turn is None:
            yield
            return
        if not self._turn.acquire(timeout=sqlite.BUSY_SECONDS):
            raise Busy("the database is busy; please try again")
        try:
            yield
        finally:
            self._turn.release()

    @contextmanager
    def _turn_with_own_file(self) -> Iterator[None]:
        """A turn whose transaction is acknowledged only if its file is still in place."""
        with self._writing_turn():
            self._require_own_file()
            yield
            self._require_own_file()

    def _require_own_file(self) -> None:
        if self._file is not None and sqlite.identity_of(self._file) != self._identity:
            raise Unavailable("the database's file was moved or replaced: restart the server")

    def require_writable(self) -> None:
        """`Unavailable` if it cannot be written; this writes nothing, and waits for no writer."""
        with unavailable(), self.reading() as session:
            if self.engine.dialect.name == "sqlite":
                read_only = sqlite.is_read_only(self.engine)
            else:
                read_only = session.scalar(text("SHOW transaction_read_only")) == "on"
        if read_only:
            raise Unavailable("the database can only be read")

    def checkpoint(self) -> None:
        """Copy SQLite's write-ahead log into the main file, unless it is being read for long."""
        if self._turn is not None:
            with suppress(Busy), self._writing_turn():
                sqlite.checkpoint(self.engine, CHECKPOINT_SECONDS)

    def erase_deleted_rows(self, tables: Sequence[type[Base]]) -> bool:
        """Rewrite the files of tables, so that they no longer hold deleted rows.

        Return False if that failed, because other sessions still read the rows or because the
        user may not rewrite the tables. SQLite rewrites all tables.
        """
        try:
            with self._writing_turn():
                if self.engine.dialect.name == "sqlite":
                    return sqlite.rewrite_file(self.engine)
                return rewrite_tables(self.engine, [table.__tablename__ for table in tables])
        except Busy:
            return False

    def close(self) -> None:
        """Close the connections, after waiting up to `BUSY_SECONDS` for transactions to end.

        SQLite's main file then has all that was committed, even if another process has the database
        open too.
        """
        pool, deadline = self.engine.pool, monotonic() + sqlite.BUSY_SECONDS
        while isinstance(pool, QueuePool) and pool.checkedout() and monotonic() < deadline:
            sleep(0.01)
        self.checkpoint()
        self.engine.dispose()


class Parts:
    """A session whose transactions are short, so that others can write in between."""

    def __init__(
        self, session: Session, turn: Callable[[], AbstractContextManager[None]], held: ExitStack
    ) -> None:
        self.session = session
        self._turn, self._held = turn, held
        self._begin()

    def _begin(self) -> None:
        self._held.enter_context(self._turn())
        self._begun = monotonic()

    @property
    def is_long(self) -> bool:
        return monotonic() - self._begun >= PART_SECONDS

    def next(self) -> None:
        """Commit, and let others write for as long as this transaction has lasted."""
        seconds = monotonic() - self._begun
        self.session.commit()
        self._held.close()
        sleep(max(seconds, PART_SECONDS))
        self._begin()


def open_database(url: str, *, create: bool = True, connections: int | None = None) -> Database:
    """Open the database at `url`; create and migrate a new SQLite file if `create`.

    `connections` is the most that this process opens, None for the default. A SQLite file that
    cannot be written to, such as one on read-only media, can be read.

    `NothingToDo` if there is none; `UnreadableInput` if it cannot be used or is not upgraded.
    """
    engine = connect_existing(url, connections)
    is_archived = sqlite.is_opened_read_only(engine.url)
    file = sqlite.file_of(engine.url) if engine.dialect.name == "sqlite" else None
    try:
        with reachable(url):
            if sqlite.is_fresh_sqlite(engine.url):
                if not create:
                    raise NothingToDo(
                        f"{shown_url(url)}: the database does not exist yet; import something first"
                    )
                upgrade(engine)
            require_current(engine, url)
            if engine.dialect.name == "sqlite" and not is_archived:
                sqlite.keep_write_ahead_log(engine, url)
                if file is not None:
                    sqlite.make_database_private(file)
    except BaseException:
        engine.dispose()
        raise
    return Database(engine, file)


def added(session: Session, row: T) -> T:
    """Insert a row, which gives it its database key."""
    session.add(row)
    session.flush()
    return row


def connect_existing(url: str, connections: int | None = None) -> Engine:
    """As `connect`; a SQLite file that cannot be written to is opened for reading."""
    engine = connect(url, connections)
    if not sqlite.is_archive(engine.url):
        return engine
    return connect(sqlite.archive_url(engine.url, shown_url(url)).render_as_string(), connections)


def connect(url: str, connections: int | None = None) -> Engine:
    """An engine for `url`; no connection is opened yet. `UnreadableInput` if it cannot be used."""
    try:
        parsed = make_url(url)
        if parsed.drivername in ("postgresql", "postgres"):
            parsed = parsed.set(drivername="postgresql+psycopg")
        if parsed.get_backend_name() not in ("sqlite", "postgresql"):
            raise ArgumentError("neither SQLite nor PostgreSQL")
        is_sqlite = parsed.get_backend_name() == "sqlite"
        engine = create_engine(
            parsed,
            pool_size=connections or CONNECTIONS[parsed.get_backend_name()],
            # SQLite in memory has a pool that knows no overflow.
            **({} if is_sqlite and sqlite.file_of(parsed) is None else {"max_overflow": 0}),
            hide_parameters=True,  # errors with values would put answers and ids into the log
            pool_pre_ping=not is_sqlite,
            **(
                {"connect_args": {"timeout": sqlite.BUSY_SECONDS}}
                if is_sqlite
                else {
                    "connect_args": connection_settings(set(parsed.query)),
                    "pool_timeout": sqlite.BUSY_SECONDS,
                }
            ),
        )
    except (ArgumentError, NoSuchModuleError, ValueError) as error:
        raise UnreadableInput(
            "--database",
            f"{shown_url(url)} is not a database URL",
            f"use one like {DEFAULT_URL} or postgresql://localhost/hsfiq",
        ) from error
    except ImportError as error:  # the driver itself, or the library that it loads
        raise UnreadableInput(
            "--database",
            f"the driver for {shown_url(url)} is not installed",
            "pip install 'hsfiq[postgres]'",
        ) from error
    if engine.dialect.name == "sqlite":
        sqlite.set_up_sqlite(engine)
    else:
        remove_data_from_errors(engine)
    return engine


# Regular checkpoints, so that SQLite's main file is never more than some seconds old.

SECONDS = 10.0
"""The time between two checkpoints."""


def regular_checkpoints(
    database: Database, seconds: float = SECONDS
) -> AbstractContextManager[None]:
    """Within the block, copy SQLite's write-ahead log into the main file every few seconds."""
    return repeated(database.checkpoint, seconds, "checkpoints")
