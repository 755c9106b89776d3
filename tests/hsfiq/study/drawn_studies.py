"""The questions and systems of a drawn study."""

from __future__ import annotations

from sqlalchemy import select

from hsfiq.db.engine import Database
from hsfiq.db.tables import Form, Pair, Question

Drawn = list[tuple[int, str, int, int, bool]]


def drawn(database: Database, study: int) -> Drawn:
    """Each question of a study: form, category, place, query, which set comes first."""
    with database.reading() as session:
        rows = session.execute(
            select(Form.number, Form.category, Question.place, Pair.query_id, Question.swapped)
            .join(Question.form)
            .join(Question.pair)
            .where(Form.study_id == study)
            .order_by(Form.number, Question.place)
        )
        return [tuple(row) for row in rows]  # type: ignore[misc]


def systems_of(database: Database, study: int) -> list[tuple[str, str]]:
    """The two systems of each pair of a study."""
    with database.reading() as session:
        pairs = session.scalars(select(Pair).where(Pair.study_id == study)).all()
        return [
            (pair.first.system.name, pair.second.system.name)
            for pair in pairs
            if pair.first.system and pair.second.system
        ]
