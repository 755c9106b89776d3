"""Striking a text that somebody typed in a search: it stays stored, but no release has it."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from hsfiq.db.search_tables import SearchTurn, StruckText
from hsfiq.db.tables import Form, Participant, Question, Study
from hsfiq.errors import UnreadableInput
from hsfiq.ids import question_id


def strike(session: Session, study: Study, search_id: str, number: int, now: datetime) -> bool:
    """Strike the text of a turn; whether it was not struck before.

    `UnreadableInput` if the study has no such search (`search_id` is its id in releases) or turn.
    """
    rows = session.execute(
        select(Question.id, Participant.name, Form.name, Question.place)
        .join(Form, Question.form_id == Form.id)
        .join(Participant, Form.participant_id == Participant.id)
        .where(Form.study_id == study.id)
    )
    keys = {question_id(person, str(form), place): key for key, person, form, place in rows}
    if search_id not in keys:
        what = f"study {study.name} has no search {search_id!r}"
        raise UnreadableInput("SEARCH", what, "its id is question_id in a release")
    turn = session.scalars(
        select(SearchTurn.id).where(
            SearchTurn.question_id == keys[search_id], SearchTurn.number == number
        )
    ).one_or_none()
    if turn is None:
        raise UnreadableInput("TURN", f"search {search_id} has no turn {number}")
    if session.get(StruckText, turn) is not None:
        return False
    session.add(StruckText(turn_id=turn, struck_at=now))
    session.flush()
    return True
