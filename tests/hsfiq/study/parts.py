"""What tests of studies that are stored in short transactions have in common."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from sqlalchemy import func, select

from hsfiq.db import engine as engine_module
from hsfiq.db.engine import Database
from hsfiq.db.tables import Check, Form, Pair, Question, Study
from hsfiq.db.types import Base
from hsfiq.study import design


def between_parts(monkeypatch: pytest.MonkeyPatch, action: Callable[[], None]) -> None:
    """Make every transaction short, and perform an action between two of them."""
    monkeypatch.setattr(engine_module, "PART_SECONDS", 0.0)
    monkeypatch.setattr(design, "PAIRS_AT_ONCE", 3)
    monkeypatch.setattr(engine_module, "sleep", lambda _seconds: action())


def row_counts(database: Database) -> dict[str, int]:
    """The number of rows of each table."""
    with database.reading() as session:
        return {
            table.name: session.scalar(select(func.count()).select_from(table)) or 0
            for table in Base.metadata.sorted_tables
        }


def questions_of(database: Database, name: str) -> list[tuple[object, ...]]:
    """The study's questions, with the keys of what they show replaced by the queries."""
    with database.reading() as session:
        rows = session.execute(
            select(
                *(Form.number, Form.batch, Form.category, Question.place, Pair.query_id),
                *(Question.swapped, Question.order_1, Question.order_2, Check.kind, Check.expected),
            )
            .join(Question, Question.form_id == Form.id)
            .join(Pair, Question.pair_id == Pair.id)
            .join(Study, Form.study_id == Study.id)
            .outerjoin(Check, Check.question_id == Question.id)
            .where(Study.name == name)
            .order_by(Form.number, Question.place)
        )
        return [tuple(row) for row in rows]
