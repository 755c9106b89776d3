"""The schema revision of a database: reading and upgrading it, and comparing the tables.

Alembic is imported only to run revisions and to compare, as that takes a quarter of the time in
which a command starts.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import (
    Column,
    Connection,
    Engine,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    inspect,
    select,
)

from hsfiq.db.failures import shown_url
from hsfiq.db.tables import METADATA
from hsfiq.errors import UnreadableInput

if TYPE_CHECKING:
    from alembic.config import Config

REVISION = Table(
    "alembic_version",
    MetaData(),
    Column("version_num", String(32), nullable=False),
    PrimaryKeyConstraint("version_num", name="alembic_version_pkc"),
)
"""The table in which Alembic keeps a database's revision."""


def require_current(engine: Engine, url: str) -> None:
    revision, head = current_revision(engine), head_revision()
    require_known(revision, url)
    if revision != head:
        raise UnreadableInput(
            shown_url(url),
            f"the database is at schema revision {revision or 'none'}, this hsfiq needs {head}",
            "run `hsfiq db upgrade` (after a backup)",
        )


def require_known(revision: str | None, url: str) -> None:
    """Raise `UnreadableInput` for a schema revision that this hsfiq does not know."""
    if revision is not None and revision not in known_revisions():
        raise UnreadableInput(
            shown_url(url),
            f"the database is at schema revision {revision}, which only a newer hsfiq knows "
            f"(this one knows {head_revision()})",
            "install the newest hsfiq",
        )


def migrations_folder() -> Path:
    """The folder of the revisions (in a checkout a link to `migrations/`)."""
    return Path(__file__).parents[1] / "migrations"


def alembic_config(connection: Connection | None = None) -> Config:
    """Alembic's settings, so that commands work in any folder."""
    from alembic.config import Config  # noqa: PLC0415 (slow)

    config = Config()
    config.set_main_option("script_location", str(migrations_folder()).replace("%", "%%"))
    config.attributes["connection"] = connection
    return config


def head_revision() -> str:
    return known_revisions()[0]


@cache
def known_revisions() -> tuple[str, ...]:
    """The revisions of this hsfiq, the newest first: their files' names begin with them."""
    files = (migrations_folder() / "versions").glob("[0-9]*_*.py")
    return tuple(sorted((file.name.partition("_")[0] for file in files), reverse=True))


def current_revision(engine: Engine) -> str | None:
    with engine.connect() as connection:
        if not inspect(connection).has_table(REVISION.name):
            return None
        revisions = connection.scalars(select(REVISION.c.version_num)).all()
    if len(revisions) > 1:
        raise UnreadableInput(
            shown_url(str(engine.url)), f"the database has {len(revisions)} schema revisions"
        )
    return revisions[0] if revisions else None


def upgrade(engine: Engine) -> None:
    """Upgrade to the newest schema revision in one transaction; `UnreadableInput` if it cannot."""
    require_known(current_revision(engine), str(engine.url))
    with engine.execution_options(hsfiq_writes=True).connect() as connection:
        if engine.dialect.name != "sqlite":
            with connection.begin():
                create_or_migrate(connection)
            return
        with foreign_keys_off(connection), connection.begin():
            create_or_migrate(connection)
            require_foreign_keys(connection)


def create_or_migrate(connection: Connection) -> None:
    """Create the tables in an empty database, or run the revisions that it lacks.

    The result is the same, but on SQLite the revisions take ten times as long, because they replace
    a table to alter it.
    """
    if inspect(connection).get_table_names():
        from alembic import command  # noqa: PLC0415 (slow)

        command.upgrade(alembic_config(connection), "head")
        return
    METADATA.create_all(connection, checkfirst=False)
    REVISION.create(connection, checkfirst=False)
    connection.execute(REVISION.insert().values(version_num=head_revision()))


@contextmanager
def foreign_keys_off(connection: Connection) -> Iterator[None]:
    """Turn SQLite's foreign keys off: to alter a table, it replaces one that others refer to.

    The setting belongs to the connection and cannot change within a transaction. If it cannot be
    turned on again, the connection is discarded, so that nobody uses it without foreign keys.
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


def require_foreign_keys(connection: Connection) -> None:
    broken = connection.exec_driver_sql("PRAGMA foreign_key_check").all()
    if broken:
        raise UnreadableInput(
            str(connection.engine.url),
            f"{len(broken):,} rows would refer to missing rows (the first in "
            f"{broken[0][0]}); nothing was changed",
        )


def differences(engine: Engine) -> list[str]:
    from alembic.autogenerate import compare_metadata  # noqa: PLC0415 (slow)
    from alembic.migration import MigrationContext  # noqa: PLC0415

    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        return [str(change) for change in compare_metadata(context, METADATA)]
