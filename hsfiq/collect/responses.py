"""A study in progress: where a participant stands, and keeping answers.

Every function takes a session of `Database.writing` or `.reading` and does one thing in it; the
caller's block is the transaction. What the browser claims is never trusted: each call finds the
question again from the participant and the database.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import cache
from typing import Any

from sqlalchemy import Select, bindparam, func, select
from sqlalchemy.orm import Session, joinedload

from hsfiq.collect.participants import lock_participant, require_open, touch
from hsfiq.db.tables import (
    Check,
    CheckAnswer,
    Form,
    Pair,
    Participant,
    Query,
    Question,
    Response,
    RetrievedImage,
    RetrievedSet,
    Study,
    Triplet,
)
from hsfiq.errors import Conflict, Forbidden, NotOpen, Refused
from hsfiq.records import Answer

SHORTEST_REASON, LONGEST_REASON = 3, 10_000
MISSING_IMAGE = "missing-image"
WHAT_IS_SAID = ("score_1", "score_2", "preferred", "irrelevant", "reason", "skipped")
"""The columns of a response that the same submit sent twice must agree in; times may differ."""


@dataclass(frozen=True, slots=True)
class Skip:
    """A question left without scores because an image of it is missing."""

    served_at: datetime | None = None
    submitted_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """One thing a participant is asked: a question, or the sum before one.

    `number` counts the questions from 1; a sum carries the number of the question it guards.
    Gold and repeated pairs are questions like all others here. `done` is an answered question or
    a passed sum.
    """

    number: int
    question_id: int
    check_id: int | None
    done: bool


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a participant stands: all their steps, and the first one not done (None at the end)."""

    steps: tuple[Step, ...]
    current: Step | None
    answered: int
    total: int


# ------------------------------------------------------------------------------ where one stands


def standing(session: Session, participant: Participant) -> Standing:
    """Derive from the rows alone where the participant stands."""
    rows = session.execute(_own_questions(), {"participant": participant.id}).all()
    steps: list[Step] = []
    for number, (question_id, is_answered, check_id, is_passed) in enumerate(rows, start=1):
        if check_id is not None:
            steps.append(Step(number, question_id, check_id, is_passed))
        steps.append(Step(number, question_id, None, is_answered))
    return Standing(
        steps=tuple(steps),
        current=next((step for step in steps if not step.done), None),
        answered=sum(step.done for step in steps if step.check_id is None),
        total=len(rows),
    )


# Building these statements takes as long as running them, and every submit needs them: once each.


@cache
def _own_questions() -> Select[int, bool, int | None, bool]:
    """A participant's questions in their order, with the sums before them."""
    answered = select(Response.id).where(Response.question_id == Question.id).exists()
    passed = (
        select(CheckAnswer.id).where(CheckAnswer.check_id == Check.id, CheckAnswer.passed).exists()
    )
    return (
        select(Question.id, answered, Check.id, passed)
        .join(Form, Question.form_id == Form.id)
        # A sum stands between forms: the first form begins at once.
        .outerjoin(
            Check,
            (Check.form_id == Form.id)
            & (Check.place == Question.place)
            & (Check.kind == "arithmetic")
            & (Form.position > 1),
        )
        .where(Form.participant_id == bindparam("participant"), Question.handed_on.is_(False))
        .order_by(Form.position, Question.place)
    )


@cache
def _question_as_shown() -> Select[Question]:
    """A question with everything that showing it needs."""
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


@cache
def _newest_revision() -> Select[Response]:
    """The latest response to a question."""
    return (
        select(Response)
        .where(Response.question_id == bindparam("question"))
        .order_by(Response.revision.desc())
        .limit(1)
    )


def require_reached(session: Session, participant: Participant, question_id: int) -> None:
    """Make sure that the participant may answer this question now.

    Raises:
        Forbidden: they have not consented, or it is not theirs (any more), or it lies beyond the
            first thing they have still to do.
    """
    if participant.consented_at is None:
        raise Forbidden("the consent page comes before the first question")
    now_at = standing(session, participant)
    for step in now_at.steps:
        if step.question_id == question_id and step.check_id is None:
            return
        if step == now_at.current:
            break
    left = (
        select(Question.id)
        .join(Form, Question.form_id == Form.id)
        .where(
            Question.id == question_id, Form.participant_id == participant.id, Question.handed_on
        )
    )
    if session.scalar(left) is not None:
        raise Forbidden(
            "you were away for a while, and this question has gone to somebody else; "
            "what you have answered is kept"
        )
    raise Forbidden("this question is not yours to answer now")


def load_question(session: Session, question_id: int) -> Question:
    """The question with everything that showing it needs, in few queries."""
    return session.scalars(_question_as_shown(), {"question": question_id}).one()


def shown_sets(question: Question) -> tuple[RetrievedSet, RetrievedSet]:
    """The two retrieved sets as this question shows them: set 1, set 2."""
    pair = question.pair
    return (pair.second, pair.first) if question.swapped else (pair.first, pair.second)


def latest_response(session: Session, question_id: int) -> Response | None:
    """The revision that counts, None where the question is unanswered."""
    return session.scalars(_newest_revision(), {"question": question_id}).one_or_none()


def shown_images(question: Question, side: int) -> list[RetrievedImage]:
    """The images of set 1 or 2 in the order in which this question shows them."""
    images = shown_sets(question)[side - 1].images
    order = (question.order_1, question.order_2)[side - 1]
    return list(images) if order is None else [images[place] for place in order]


def mark_served(session: Session, question_id: int, now: datetime) -> datetime:
    """Keep when the question was first served and return it; this is a sign of life, too."""
    question = session.get_one(Question, question_id)
    if question.served_at is None:
        question.served_at = now
    if question.form.participant is not None:
        touch(question.form.participant, now)
    return question.served_at


# ----------------------------------------------------------------------------------- answers


def submit(
    session: Session,
    participant: Participant,
    question_id: int,
    answer: Answer | Skip,
    *,
    expected_revision: int,
    submit_key: str,
) -> Response:
    """Keep an answer as the next revision, or give back the row this very submit made before.

    Args:
        expected_revision: the revision that the page shows, 0 for an unanswered question.
        submit_key: the browser's name for this press of Next.

    Raises:
        Forbidden: the question is not the participant's to answer now.
        NotOpen: the study takes no answers.
        Conflict: another tab has answered since the page was loaded, or this submit key stands for
            another answer.
        Refused: the study allows no tie, or the reason is too long or no text.
    """
    lock_participant(session, participant)
    # An enrolment that hands the question on holds its lock, and has marked it when we get it.
    session.execute(select(Question.id).where(Question.id == question_id).with_for_update())
    require_reached(session, participant, question_id)
    latest = latest_response(session, question_id)
    repeated = session.scalars(
        select(Response).where(
            Response.question_id == question_id, Response.submit_key == submit_key
        )
    ).one_or_none()
    values = values_of(answer, participant.study)
    if repeated is not None:
        if any(getattr(repeated, name) != values.get(name) for name in WHAT_IS_SAID):
            raise Conflict("another answer was kept under this submit")
        return repeated
    require_answering(participant)
    revision = latest.revision if latest else 0
    if revision != expected_revision:
        raise Conflict("this question was answered elsewhere since the page was loaded")
    response = Response(
        question_id=question_id,
        revision=revision + 1,
        submit_key=submit_key,
        **values,
    )
    session.add(response)
    if response.submitted_at is not None:
        touch(participant, response.submitted_at)
    session.flush()
    return response


def values_of(answer: Answer | Skip, study: Study) -> dict[str, object]:
    """The answer as column values.

    Raises:
        Refused: the study allows no tie, or the reason is too long or no text.
    """
    if isinstance(answer, Skip):
        return {
            "irrelevant": False,
            "skipped": MISSING_IMAGE,
            "served_at": answer.served_at,
            "submitted_at": answer.submitted_at,
        }
    if answer.preferred == 0 and not study.ties_allowed:
        raise Refused("this study asks for one of the two sets; a tie cannot be kept")
    if answer.reason and len(answer.reason) > LONGEST_REASON:
        raise Refused(f"the reason is longer than {LONGEST_REASON:,} characters")
    require_text("the reason", answer.reason or "")
    times = answer.times
    return {
        "score_1": answer.score_1,
        "score_2": answer.score_2,
        "preferred": answer.preferred,
        "irrelevant": answer.irrelevant,
        "reason": answer.reason or None,
        "served_at": times.served_at,
        "first_interaction_at": times.first_interaction_at,
        "submitted_at": times.submitted_at,
        "active_seconds": times.active_seconds,
    }


def require_text(what: str, text: str) -> None:
    """Raise `Refused` for what JSON lets through and no database keeps: NUL, half characters."""
    if "\0" in text or any("\ud800" <= character <= "\udfff" for character in text):
        raise Refused(f"{what} holds characters that no text has")


def answer_check(
    session: Session, participant: Participant, check_id: int, given: str, *, now: datetime
) -> bool:
    """Keep one try at the check that the participant stands before; whether it was right.

    Raises:
        Forbidden: they do not stand before this check.
        NotOpen: the study takes no answers.
        Refused: what was given is no text.
    """
    current = standing(session, participant).current
    if current is None or current.check_id != check_id:
        raise Forbidden("this check is not asked of you now")
    require_answering(participant)
    require_text("what was given", given)
    touch(participant, now)
    check = session.get_one(Check, check_id)
    passed = given.strip() == check.expected
    session.add(CheckAnswer(check_id=check_id, given=given[:40], passed=passed, answered_at=now))
    session.flush()
    return passed


def require_answering(participant: Participant) -> None:
    """Raise `NotOpen` unless both the study and the participant are active."""
    require_open(participant.study)
    if participant.status != "active":
        raise NotOpen(f"your part in this study is {participant.status}")


def is_finished_for_good(study: Study) -> bool:
    """Whether nobody will answer it any more: it was published, or its simulation has ended."""
    return study.origin == "imported" or (study.origin == "simulated" and study.status == "closed")


def studies(session: Session) -> Sequence[Study]:
    """Every study, oldest first."""
    return session.scalars(select(Study).order_by(Study.id)).all()


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a study is."""

    study: str
    title: str
    status: str
    origin: str
    forms: int
    forms_taken: int
    participants: int
    questions: int
    answered: int

    def facts(self) -> dict[str, Any]:
        """All of it by name."""
        return asdict(self)


def progress_of(session: Session, study: Study) -> Progress:
    """Count what a study holds and what of it is done.

    Questions are those that the design wants answered: checks come on top of them, one that was
    left lives on where it was handed on to, and the answers of excluded participants do not count.
    """

    def count(counted: Select[int]) -> int:
        return session.scalar(counted) or 0

    forms = select(func.count(Form.id)).where(Form.study_id == study.id)
    is_check = select(Check.id).where(Check.question_id == Question.id).exists()
    questions = (
        select(func.count(Question.id))
        .join(Form, Question.form_id == Form.id)
        .where(Form.study_id == study.id, Question.handed_on.is_(False), ~is_check)
    )
    is_answered = select(Response.id).where(Response.question_id == Question.id).exists()
    answered = questions.join(Participant, Form.participant_id == Participant.id).where(
        is_answered, Participant.status != "excluded"
    )
    return Progress(
        study=study.name,
        title=study.title,
        status=study.status,
        origin=study.origin,
        forms=count(forms),
        forms_taken=count(forms.where(Form.participant_id.is_not(None))),
        participants=count(
            select(func.count(Participant.id)).where(Participant.study_id == study.id)
        ),
        questions=count(questions),
        answered=count(answered),
    )
