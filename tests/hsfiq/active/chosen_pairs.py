"""The studies of a database and their pairs."""

from __future__ import annotations

from sqlalchemy import select

from hsfiq.db.engine import Database
from hsfiq.db.tables import Pair, RetrievedSet, Study


def study_of(database: Database, name: str) -> Study:
    with database.reading() as session:
        return session.scalars(select(Study).where(Study.name == name)).one()


def pairs_of(database: Database, name: str) -> list[tuple[str, tuple[str, str]]]:
    """(triplet, systems) of each pair of a study."""
    with database.reading() as session:
        rows = session.scalars(select(Pair).join(Study).where(Study.name == name)).all()
        return [
            (row.query.triplet.external_id, (name_of(row.first), name_of(row.second)))
            for row in rows
        ]


def name_of(retrieved_set: RetrievedSet) -> str:
    assert retrieved_set.system is not None
    return retrieved_set.system.name
