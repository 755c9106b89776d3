"""Deleting the searches of a person who is forgotten."""

from __future__ import annotations

from sqlalchemy import Select, delete, func, select, update
from sqlalchemy.orm import Session

from hsfiq.db.search_tables import (
    ImportedSearch,
    PublishedLeaderboard,
    SearchEnding,
    SearchFeedback,
    SearchList,
    SearchTurn,
    SearchUpload,
    StruckText,
)
from hsfiq.db.tables import Response

OF_QUESTIONS = (SearchTurn, SearchEnding, SearchUpload, ImportedSearch)
OF_TURNS = (StruckText, SearchFeedback, SearchList)
SEARCH_TABLES = (*OF_QUESTIONS, *OF_TURNS)


def forget_searches(session: Session, questions: Select[int]) -> None:
    """Delete the turns, endings and pictures of these questions (database keys).

    Call it after their responses are deleted. SQLite then reuses the highest keys of responses, so
    `last_response` of leaderboards is lowered: searches that end later must count as new.
    """
    turns = select(SearchTurn.id).where(SearchTurn.question_id.in_(questions))
    for table in OF_TURNS:
        session.execute(delete(table).where(table.turn_id.in_(turns)))
    for keyed in OF_QUESTIONS:
        session.execute(delete(keyed).where(keyed.question_id.in_(questions)))
    newest = select(func.coalesce(func.max(Response.id), 0)).scalar_subquery()
    later = update(PublishedLeaderboard).where(PublishedLeaderboard.last_response > newest)
    session.execute(later.values(last_response=newest))
