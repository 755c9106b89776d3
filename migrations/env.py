"""Alembic's environment: runs the revisions on the connection that `hsfiq.db.schema` passes.

To replace a table of SQLite, `batch_alter_table` reads it, and unless `reflect_kwargs` says
otherwise every table that it refers to, directly or not: that takes most of the time.
"""

from typing import Literal

from alembic import context
from alembic.autogenerate.api import AutogenContext
from sqlalchemy import Connection

from hsfiq.db.engine import DEFAULT_URL, connect
from hsfiq.db.tables import METADATA
from hsfiq.db.types import UtcTime


def run() -> None:
    """Run the revisions asked for, in one transaction."""
    connection = context.config.attributes.get("connection")
    if connection is None:  # a developer's own `alembic revision --autogenerate`
        with connect(
            context.get_x_argument(as_dictionary=True).get("url", DEFAULT_URL)
        ).begin() as own:
            migrate(own)
    else:
        migrate(connection)


def migrate(connection: Connection) -> None:
    """Configure Alembic for this connection and run."""
    context.configure(
        connection=connection,
        target_metadata=METADATA,
        render_as_batch=connection.dialect.name == "sqlite",
        compare_type=True,
        render_item=plain_time,
    )
    with context.begin_transaction():
        context.run_migrations()


def plain_time(kind: str, item: object, _context: AutogenContext) -> str | Literal[False]:
    """Write our moments as plain columns: a revision must not change when our classes do."""
    return "sa.DateTime(timezone=True)" if kind == "type" and isinstance(item, UtcTime) else False


run()
