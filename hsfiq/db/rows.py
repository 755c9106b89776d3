"""Statements on rows, executed at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVarTuple

from sqlalchemy import CursorResult, Executable, Select, insert
from sqlalchemy.orm import Session

from hsfiq.db.tables import FurtherSet, Pair, Question, RetrievedImage, RetrievedSet

# Statements in SQLAlchemy Core: half the processor time of `Session.execute`, or less.

Columns = TypeVarTuple("Columns")


def rows_of(
    session: Session, statement: Select[*Columns], parameters: Mapping[str, Any]
) -> CursorResult[*Columns]:
    """The rows of a statement that selects columns; what the session has changed is written first.

    Keep the statement, for building one takes as long as running it.
    """
    return execute(session, statement, parameters)


def execute(
    session: Session,
    statement: Executable,
    parameters: Mapping[str, Any] | Sequence[Mapping[str, Any]],
) -> CursorResult[*tuple[Any, ...]]:
    """The same for any statement. Objects of the session do not see what it writes.

    Of several parameters, each is a row to insert.
    """
    session.flush()
    return session.connection().execute(statement, parameters)


# Statements that store rows, made once: making one takes as long as running it.

NEW_SETS = insert(RetrievedSet).returning(RetrievedSet.id, sort_by_parameter_order=True)
NEW_IMAGES = insert(RetrievedImage)
NEW_PAIRS = insert(Pair).returning(Pair.id, sort_by_parameter_order=True)
NEW_FURTHER_SETS = insert(FurtherSet)
NEW_QUESTIONS = insert(Question).returning(Question.id, sort_by_parameter_order=True)
