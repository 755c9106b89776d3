"""Going back to earlier revisions, and the rows that a database has."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

from alembic import command
from sqlalchemy import Engine, select

from hsfiq.db.engine import Database
from hsfiq.db.schema import (
    alembic_config,
    foreign_keys_off,
)
from hsfiq.db.tables import METADATA
from hsfiq.study.config import Checks
from tests.studies import SYSTEMS, Seat, draw, make_queries


def downgrade(engine: Engine, revision: str = "base") -> None:
    with engine.execution_options(hsfiq_writes=True).connect() as connection:
        on_sqlite = engine.dialect.name == "sqlite"
        keys_off = foreign_keys_off(connection) if on_sqlite else nullcontext()
        with keys_off, connection.begin():
            command.downgrade(alembic_config(connection), revision)


def all_rows(engine: Engine) -> dict[str, list[tuple[Any, ...]]]:
    """Every row of every table, without the columns that `tomorrow` adds."""
    with engine.connect() as connection:
        return {
            name: [
                tuple(row) for row in connection.execute(select(table).order_by(*table.primary_key))
            ]
            for name, table in METADATA.tables.items()
        }


def answered(database: Database, name: str = "small") -> None:
    """Fill a database with a study, participants, answers and checks."""
    systems = [f"{name} {system}" for system in SYSTEMS]
    queries = make_queries(database, dataset=name, systems=systems)
    seat = Seat.taken(database, draw(database, queries, checks=Checks(repeated=1), name=name))
    seat.answer_all()
