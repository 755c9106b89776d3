"""Every participant's answer about the same retrieved sets."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from hsfiq.collect.checks import MIRRORED
from hsfiq.collect.history import find_question
from hsfiq.collect.progress import IS_LATEST, summary_of
from hsfiq.db.tables import Check, Form, Participant, Question, Response, Study
from hsfiq.ids import question_id
from hsfiq.study.config import config_of
from hsfiq.study.instrument.extra_questions import in_words


@dataclass(frozen=True, slots=True)
class ItemAnswer:
    """The latest answer to one question about an item.

    `scores` and `preferred` (1 or 2, 0 for neither) are those of the sets that the question asked
    for shows as 1 and 2; other kinds than pairs have `judgement`, the answer in words. `extra` has
    the extra questions with their answers.
    """

    question_id: str
    participant: str
    status: str
    scores: tuple[int, int] | None
    preferred: int | None
    judgement: str | None
    irrelevant: bool | None
    skipped: str | None
    reason: str | None
    check: str | None
    active_seconds: float | None
    submitted_at: datetime | None
    confirmed: bool | None
    extra: list[tuple[str, str]]


def item_answers(session: Session, study: Study, outside_id: str) -> list[ItemAnswer]:
    """The answers about the sets of this question, by participant; none if it does not exist."""
    key = find_question(session, study, outside_id)
    if key is None:
        return []
    question = session.get_one(Question, key)
    asked_besides = config_of(study).questionnaire.after_each
    rows = session.execute(
        select(Question, Form, Participant, Response, Check.kind)
        .join(Form, Question.form_id == Form.id)
        .join(Participant, Form.participant_id == Participant.id)
        .join(Response, Response.question_id == Question.id)
        .outerjoin(Check, Check.question_id == Question.id)
        .where(Question.pair_id == question.pair_id, IS_LATEST)
        .order_by(Participant.id, Form.position, Question.place)
    )
    return [
        ItemAnswer(
            question_id=question_id(person.name, form.name or "", asked.place),
            participant=person.name,
            status=person.status,
            scores=scores_of(response, is_swapped=asked.swapped != question.swapped),
            preferred=preference_of(response, is_swapped=asked.swapped != question.swapped),
            judgement=summary_of(study, response.judgement),
            irrelevant=response.irrelevant,
            skipped=response.skipped,
            reason=response.reason,
            check=kind,
            active_seconds=response.active_seconds,
            submitted_at=response.submitted_at,
            confirmed=response.confirmed,
            extra=in_words(asked_besides, response.extra),
        )
        for asked, form, person, response, kind in rows
    ]


def scores_of(response: Response, *, is_swapped: bool) -> tuple[int, int] | None:
    if response.score_1 is None or response.score_2 is None:
        return None
    scores = (response.score_1, response.score_2)
    return (scores[1], scores[0]) if is_swapped else scores


def preference_of(response: Response, *, is_swapped: bool) -> int | None:
    if response.preferred is None:
        return None
    return MIRRORED[response.preferred] if is_swapped else response.preferred
