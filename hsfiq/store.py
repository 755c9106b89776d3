"""A study in progress: taking forms, where a participant stands, and keeping answers.

Every function takes a session of `Database.writing` or `.reading` and does one thing in it; the
caller's block is the transaction. What the browser claims is never trusted: each call finds the
question again from the participant and the database.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Select, func, select
from sqlalchemy.orm import Session, joinedload

from hsfiq.errors import Conflict, Forbidden, NotOpen, Refused
from hsfiq.records import Answer
from hsfiq.tables import (
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

LONGEST_REASON = 10_000
MISSING_IMAGE = "missing-image"


@dataclass(frozen=True, slots=True)
class Skip:
    """A question left without scores because an image of it is missing."""

    served_at: datetime | None = None
    submitted_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """One thing a participant is asked: a question, or the check before one.

    `number` counts the questions from 1; a check carries the number of the question it guards.
    `done` is an answered question or a passed check.
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


# ----------------------------------------------------------------------------------- participants


def enrol(session: Session, study_id: int, *, now: datetime) -> Participant:
    """Make a participant and hand them free forms of one category, the one with most left.

    Raises:
        NotOpen: the study is not open, or has no free forms left for one more.
    """
    # The lock makes enrolments take turns: no form can be handed to two people.
    study = session.scalars(select(Study).where(Study.id == study_id).with_for_update()).one()
    require_open(study)
    free = (Form.study_id == study_id, Form.participant_id.is_(None))
    category = session.scalar(
        select(Form.category)
        .where(*free)
        .group_by(Form.category)
        .having(func.count() >= study.forms_per_participant)
        .order_by(func.count().desc(), func.min(Form.number))
        .limit(1)
    )
    if category is None:
        raise NotOpen(f"study {study.name}: every form is taken")
    forms = session.scalars(
        select(Form)
        .where(*free, Form.category == category)
        .order_by(Form.number)
        .limit(study.forms_per_participant)
    ).all()
    participant = Participant(
        study_id=study_id, name=next_name(session, study_id), category=category, created_at=now
    )
    session.add(participant)
    session.flush()
    for position, form in enumerate(forms, start=1):
        form.participant_id = participant.id
        form.position, form.name = position, f"form_{position}"
    session.flush()
    return participant


def next_name(session: Session, study_id: int) -> str:
    """The pseudonym of the study's next participant: `p1`, `p2`, ..."""
    count = session.scalar(
        select(func.count()).select_from(Participant).where(Participant.study_id == study_id)
    )
    return f"p{(count or 0) + 1}"


def participant_by_token(session: Session, token: str) -> Participant | None:
    """The participant whom this token names, with their study."""
    return session.scalars(
        select(Participant).options(joinedload(Participant.study)).where(Participant.token == token)
    ).one_or_none()


def require_open(study: Study) -> None:
    """Raise `NotOpen` unless the study takes answers now."""
    if study.status != "open":
        raise NotOpen(f"study {study.name} is {study.status}")


# ------------------------------------------------------------------------------ where one stands


def standing(session: Session, participant: Participant) -> Standing:
    """Derive from the rows alone where the participant stands."""
    answered = select(Response.id).where(Response.question_id == Question.id).exists()
    passed = (
        select(CheckAnswer.id).where(CheckAnswer.check_id == Check.id, CheckAnswer.passed).exists()
    )
    rows = session.execute(
        select(Question.id, answered, Check.id, passed)
        .join(Form, Question.form_id == Form.id)
        # A check stands between forms: the first form begins at once.
        .outerjoin(
            Check,
            (Check.form_id == Form.id) & (Check.place == Question.place) & (Form.position > 1),
        )
        .where(Form.participant_id == participant.id)
        .order_by(Form.position, Question.place)
    ).all()
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


def step_of_question(session: Session, participant: Participant, question_id: int) -> Step:
    """The step that this question is, if the participant may see it now.

    Raises:
        Forbidden: it is not theirs, or lies beyond the first thing they have still to do.
    """
    now_at = standing(session, participant)
    for step in now_at.steps:
        if step.question_id == question_id and step.check_id is None:
            return step
        if step == now_at.current:
            break
    raise Forbidden("this question is not yours to answer now")


def load_question(session: Session, question_id: int) -> Question:
    """The question with everything that showing it needs, in few queries."""
    first, second = joinedload(Pair.first), joinedload(Pair.second)
    return session.scalars(
        select(Question)
        .where(Question.id == question_id)
        .options(
            joinedload(Question.pair).options(
                first.selectinload(RetrievedSet.images).joinedload(RetrievedImage.image),
                second.selectinload(RetrievedSet.images).joinedload(RetrievedImage.image),
                joinedload(Pair.query).joinedload(Query.triplet).joinedload(Triplet.reference),
            )
        )
    ).one()


def shown_sets(question: Question) -> tuple[RetrievedSet, RetrievedSet]:
    """The two retrieved sets as this question shows them: set 1, set 2."""
    pair = question.pair
    return (pair.second, pair.first) if question.swapped else (pair.first, pair.second)


def latest_response(session: Session, question_id: int) -> Response | None:
    """The revision that counts, None where the question is unanswered."""
    return session.scalars(
        select(Response)
        .where(Response.question_id == question_id)
        .order_by(Response.revision.desc())
        .limit(1)
    ).one_or_none()


def mark_served(session: Session, question_id: int, now: datetime) -> datetime:
    """Keep when the question was first served and return it."""
    question = session.get_one(Question, question_id)
    if question.served_at is None:
        question.served_at = now
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
        Conflict: another tab has answered since the page was loaded.
        Refused: the study allows no tie, or the reason is too long or no text.
    """
    question = session.scalars(
        select(Question).where(Question.id == question_id).with_for_update()
    ).one_or_none()
    if question is None:
        raise Forbidden("this question is not yours to answer now")
    step_of_question(session, participant, question_id)
    latest = latest_response(session, question_id)
    repeated = session.scalars(
        select(Response).where(
            Response.question_id == question_id, Response.submit_key == submit_key
        )
    ).one_or_none()
    if repeated is not None:
        return repeated
    require_open(participant.study)
    revision = latest.revision if latest else 0
    if revision != expected_revision:
        raise Conflict("this question was answered elsewhere since the page was loaded")
    response = Response(
        question_id=question_id,
        revision=revision + 1,
        submit_key=submit_key,
        **values_of(answer, participant.study),
    )
    session.add(response)
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
    require_open(participant.study)
    require_text("what was given", given)
    check = session.get_one(Check, check_id)
    passed = given.strip() == check.expected
    session.add(CheckAnswer(check_id=check_id, given=given[:40], passed=passed, answered_at=now))
    session.flush()
    return passed


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
    """Count what a study holds and what of it is done."""

    def count(counted: Select[int]) -> int:
        return session.scalar(counted) or 0

    forms = select(func.count(Form.id)).where(Form.study_id == study.id)
    questions = select(func.count(Question.id)).join(Question.form).where(Form.study_id == study.id)
    answered = select(Response.id).where(Response.question_id == Question.id).exists()
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
        answered=count(questions.where(answered)),
    )
