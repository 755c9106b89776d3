"""The history of one question: what was shown to whom, and every revision of the answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Row, select
from sqlalchemy.orm import Session

from hsfiq.collect.steps import load_question, shown_images, shown_sets
from hsfiq.db.tables import (
    Check,
    CheckAnswer,
    Form,
    Participant,
    Question,
    Response,
    RetrievedSet,
    Study,
)
from hsfiq.ids import question_id

SumTry = Row[str | None, str, bool, datetime]
"""An attempt at the sum before a question: `prompt`, `given`, `passed`, `answered_at`."""


@dataclass(frozen=True, slots=True)
class QuestionHistory:
    """A question as shown to its participant; `systems` and `images` are those of sets 1 and 2."""

    question_id: str
    participant: str
    status: str
    query_id: str
    text: str
    reference: str
    target: str | None
    systems: tuple[str | None, str | None]
    images: tuple[tuple[str, ...], tuple[str, ...]]
    served_at: datetime | None
    reassigned: bool
    check: str | None
    expected: str | None
    revisions: tuple[Response, ...]
    sum_tries: Sequence[SumTry]


def question_history(session: Session, study: Study, outside_id: str) -> QuestionHistory | None:
    key = find_question(session, study, outside_id)
    if key is None:
        return None
    question = load_question(session, key)
    check = session.scalars(select(Check).where(Check.question_id == key)).one_or_none()
    query, participant = question.pair.query, question.form.participant
    sets = shown_sets(question)
    return QuestionHistory(
        question_id=outside_id,
        participant=participant.name if participant else "",
        status=participant.status if participant else "",
        query_id=query.triplet.external_id + query.suffix,
        text=question.text or query.text,
        reference=query.triplet.reference.name,
        target=query.triplet.target.name if query.triplet.target else None,
        systems=(system_name(sets[0]), system_name(sets[1])),
        images=(shown_names(question, 1), shown_names(question, 2)),
        served_at=question.served_at,
        reassigned=question.reassigned,
        check=check.kind if check else None,
        expected=check.expected if check else None,
        revisions=tuple(
            session.scalars(
                select(Response).where(Response.question_id == key).order_by(Response.revision)
            )
        ),
        sum_tries=sum_tries(session, question),
    )


def find_question(session: Session, study: Study, outside_id: str) -> int | None:
    """The key of the question with this outside id; the names in it may contain dots."""
    owner, _, place = outside_id.strip().rpartition(".")
    if not (place.isascii() and place.isdigit()) or len(place) > 9:
        return None
    rows = session.execute(
        select(Question.id, Participant.name, Form.name)
        .join(Form, Question.form_id == Form.id)
        .join(Participant, Form.participant_id == Participant.id)
        .where(
            Form.study_id == study.id,
            Question.place == int(place),
            Participant.name + "." + Form.name == owner,
        )
    )
    wanted = outside_id.strip()
    return next(
        (key for key, name, form in rows if question_id(name, form or "", int(place)) == wanted),
        None,
    )


def system_name(retrieved: RetrievedSet) -> str | None:
    return retrieved.system.name if retrieved.system else None


def shown_names(question: Question, side: int) -> tuple[str, ...]:
    return tuple(member.image.name for member in shown_images(question, side))


def sum_tries(session: Session, question: Question) -> Sequence[SumTry]:
    return session.execute(
        select(Check.prompt, CheckAnswer.given, CheckAnswer.passed, CheckAnswer.answered_at)
        .join(CheckAnswer, CheckAnswer.check_id == Check.id)
        .where(
            Check.form_id == question.form_id,
            Check.place == question.place,
            Check.kind == "arithmetic",
        )
        .order_by(CheckAnswer.id)
    ).all()
