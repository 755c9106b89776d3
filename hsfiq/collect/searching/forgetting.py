"""Deleting the searches of a person who is forgotten."""

from __future__ import annotations

from sqlalchemy import Select, delete, select
from sqlalchemy.orm import Session

from hsfiq.db.searches.tables import (
    ImportedSearch,
    SearchEnding,
    SearchFeedback,
    SearchList,
    SearchTurn,
    SearchUpload,
    StruckText,
)

OF_QUESTIONS = (SearchTurn, SearchEnding, SearchUpload, ImportedSearch)
OF_TURNS = (StruckText, SearchFeedback, SearchList)
SEARCH_TABLES = (*OF_QUESTIONS, *OF_TURNS)


def forget_searches(session: Session, questions: Select[int]) -> None:
    """Delete the turns, endings and pictures of these questions (database keys)."""
    turns = select(SearchTurn.id).where(SearchTurn.question_id.in_(questions))
    for table in OF_TURNS:
        session.execute(delete(table).where(table.turn_id.in_(turns)))
    for keyed in OF_QUESTIONS:
        session.execute(delete(keyed).where(keyed.question_id.in_(questions)))
