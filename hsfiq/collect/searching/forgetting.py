"""Deleting the searches of a person who is forgotten."""

from __future__ import annotations

from sqlalchemy import Select, delete, select
from sqlalchemy.orm import Session

from hsfiq.db.searches.tables import (
    SearchEnding,
    SearchFeedback,
    SearchList,
    SearchTurn,
    SearchUpload,
    StruckText,
)

SEARCH_TABLES = (SearchTurn, SearchList, SearchFeedback, SearchEnding, SearchUpload, StruckText)


def forget_searches(session: Session, questions: Select[int]) -> None:
    """Delete the turns, endings and pictures of these questions (database keys)."""
    turns = select(SearchTurn.id).where(SearchTurn.question_id.in_(questions))
    for table in (StruckText, SearchFeedback, SearchList):
        session.execute(delete(table).where(table.turn_id.in_(turns)))
    for keyed in (SearchTurn, SearchEnding, SearchUpload):
        session.execute(delete(keyed).where(keyed.question_id.in_(questions)))
