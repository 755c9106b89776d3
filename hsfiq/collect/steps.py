"""What one participant is asked, in order, and which question they are at.

Nothing that the browser claims is trusted: every call derives the participant's steps from the
database again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache

from sqlalchemy import Select, bindparam, select
from sqlalchemy.orm import Session, joinedload

from hsfiq.collect.leases import IS_ANSWERED, extend_lease
from hsfiq.db.tables import (
    Check,
    CheckAnswer,
    Form,
    Pair,
    Participant,
    Query,
    Question,
    RetrievedImage,
    RetrievedSet,
    Triplet,
)
from hsfiq.errors import Forbidden


@dataclass(frozen=True, slots=True)
class Step:
    """One thing a participant is asked: a question, or the sum before one.

    `number` counts the questions from 1; a sum has the number of the question after it. Gold and
    repeated pairs are ordinary questions here. `done` is an answered question or a passed sum.
    """

    number: int
    question_id: int
    check_id: int | None
    done: bool


@dataclass(frozen=True, slots=True)
class Steps:
    """A participant's steps; `current` is the first one not done, None at the end."""

    steps: tuple[Step, ...]
    current: Step | None
    answered: int
    total: int


def steps_of(session: Session, participant: Participant) -> Steps:
    rows = session.execute(_own_questions(), {"participant": participant.id}).all()
    steps: list[Step] = []
    for number, (question_id, is_answered, check_id, is_passed) in enumerate(rows, start=1):
        if check_id is not None:
            steps.append(Step(number, question_id, check_id, is_passed))
        steps.append(Step(number, question_id, None, is_answered))
    return Steps(
        steps=tuple(steps),
        current=next((step for step in steps if not step.done), None),
        answered=sum(step.done for step in steps if step.check_id is None),
        total=len(rows),
    )


def require_reached(session: Session, participant: Participant, question_id: int) -> None:
    """Raise `Forbidden` unless the participant may answer this question now."""
    if participant.consented_at is None:
        raise Forbidden("the consent page comes before the first question")
    own = steps_of(session, participant)
    for step in own.steps:
        if step.question_id == question_id and step.check_id is None:
            return
        if step == own.current:
            break
    reassigned = (
        select(Question.id)
        .join(Form, Question.form_id == Form.id)
        .where(
            Question.id == question_id, Form.participant_id == participant.id, Question.reassigned
        )
    )
    if session.scalar(reassigned) is not None:
        raise Forbidden(
            "you were away for a while, so this question was given to somebody else; "
            "your answers are saved"
        )
    raise Forbidden("you cannot answer this question now")


def load_question(session: Session, question_id: int) -> Question:
    return session.scalars(_question_as_shown(), {"question": question_id}).one()


def has_reference(session: Session, pair_id: int) -> bool:
    return session.scalar(_reference_of_pair(), {"pair": pair_id}) is not None


def shown_sets(question: Question) -> tuple[RetrievedSet, ...]:
    """The retrieved sets as this question shows them: set 1, set 2, ..."""
    pair = question.pair
    sets = [retrieved for retrieved in (pair.first, pair.second) if retrieved is not None]
    if question.set_order is not None:
        sets += [further.retrieved for further in pair.further]
        return tuple(sets[place] for place in question.set_order)
    return tuple(reversed(sets)) if question.swapped else tuple(sets)


def shown_images(question: Question, side: int) -> list[RetrievedImage]:
    """The images of set 1, 2, ... in the order in which this question shows them."""
    images = shown_sets(question)[side - 1].images
    order = image_orders(question)[side - 1]
    return list(images) if order is None else [images[place] for place in order]


def image_orders(question: Question) -> Sequence[list[int] | None]:
    """For each set that may be shown, the order of its images; None for the ranked one."""
    if question.set_order is None:
        return question.order_1, question.order_2
    return question.image_orders or [None] * len(question.set_order)


def mark_served(session: Session, question_id: int, now: datetime) -> datetime:
    """Record when the question was first served, and return it; this extends the lease."""
    question = session.get_one(Question, question_id)
    if question.served_at is None:
        question.served_at = now
    if question.form.participant is not None:
        extend_lease(question.form.participant, now)
    return question.served_at


# Building these statements takes as long as running them, and every submit needs them: cache them.


@cache
def _own_questions() -> Select[int, bool, int | None, bool]:
    """A participant's questions in their order, with the sums before them."""
    passed = (
        select(CheckAnswer.id).where(CheckAnswer.check_id == Check.id, CheckAnswer.passed).exists()
    )
    return (
        select(Question.id, IS_ANSWERED, Check.id, passed)
        .join(Form, Question.form_id == Form.id)
        # Sums come between forms: the first form has none.
        .outerjoin(
            Check,
            (Check.form_id == Form.id)
            & (Check.place == Question.place)
            & (Check.kind == "arithmetic")
            & (Form.position > 1),
        )
        .where(Form.participant_id == bindparam("participant"), Question.reassigned.is_(False))
        .order_by(Form.position, Question.place)
    )


@cache
def _reference_of_pair() -> Select[int | None]:
    return (
        select(Triplet.reference_id)
        .join(Query, Query.triplet_id == Triplet.id)
        .join(Pair, Pair.query_id == Query.id)
        .where(Pair.id == bindparam("pair"))
    )


@cache
def _question_as_shown() -> Select[Question]:
    first, second = joinedload(Pair.first), joinedload(Pair.second)
    return (
        select(Question)
        .where(Question.id == bindparam("question"))
        .options(
            joinedload(Question.pair).options(
                first.selectinload(RetrievedSet.images).joinedload(RetrievedImage.image),
                second.selectinload(RetrievedSet.images).joinedload(RetrievedImage.image),
                joinedload(Pair.query).joinedload(Query.triplet).joinedload(Triplet.reference),
            )
        )
    )
