"""Participants: how they come, which forms they get, how long these stay theirs, how they go.

A question stays its participant's while they show signs of life and for the study's lease after
that. Whether a lease is over is asked when somebody needs the question, so no sweeper runs and no
lock can stick: an enrolment takes a free portion, or else what others have left.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from random import Random

from sqlalchemy import ColumnElement, delete, func, insert, or_, select, update
from sqlalchemy.orm import Session, joinedload

from hsfiq.db.tables import (
    Check,
    CheckAnswer,
    Form,
    Pair,
    Participant,
    Query,
    Question,
    Response,
    Study,
)
from hsfiq.errors import NotOpen, UnreadableInput
from hsfiq.study.config import config_of
from hsfiq.study.forms import sum_before

GONE = ("returned", "screened-out", "excluded")
"""The statuses of people who will not answer any more."""

STATUSES = ("active", "paused", *GONE)


def require_open(study: Study) -> None:
    """Raise `NotOpen` unless the study takes answers now."""
    if study.status != "open":
        raise NotOpen(f"this study is {study.status}")


def by_token(session: Session, token: str) -> Participant | None:
    """The participant whom this token names, with their study."""
    return session.scalars(
        select(Participant).options(joinedload(Participant.study)).where(Participant.token == token)
    ).one_or_none()


def by_name(session: Session, study: Study, name: str) -> Participant:
    """The participant with this pseudonym.

    Raises:
        UnreadableInput: the study has none.
    """
    found = session.scalars(
        select(Participant).where(Participant.study_id == study.id, Participant.name == name)
    ).one_or_none()
    if found is None:
        raise UnreadableInput(f"study {study.name}", f"has no participant {name!r}")
    return found


# ---------------------------------------------------------------------------------------- ways in


def enrol(
    session: Session,
    study_id: int,
    *,
    now: datetime,
    source: str = "open",
    external_id: str | None = None,
) -> Participant:
    """Make a participant and hand them forms; one whom the platform sends again is found again.

    Args:
        session: of a writing transaction.
        study_id: the study's database key.
        now: the moment of coming.
        source: the way in.
        external_id: the recruitment platform's id of the person.

    Raises:
        NotOpen: the study is not open, has taken as many as it wants, or has nothing left to ask.
    """
    study = locked(session, study_id)
    if external_id is not None:
        known = session.scalars(
            select(Participant).where(
                Participant.study_id == study_id, Participant.external_id == external_id
            )
        ).one_or_none()
        if known is not None:
            return known
    require_open(study)
    require_room(session, study, now)
    participant = Participant(
        study_id=study_id,
        name=f"p{number_of_next(session, study)}",
        source=source,
        external_id=external_id,
        created_at=now,
    )
    session.add(participant)
    session.flush()
    hand_forms(session, study, participant, now)
    return participant


def invite(session: Session, study_id: int, count: int, *, now: datetime) -> list[Participant]:
    """Make participants who get their forms when they first follow their links."""
    study = locked(session, study_id)
    first = number_of_next(session, study)
    made = [
        Participant(study_id=study_id, name=f"p{number}", source="invitation", created_at=now)
        for number in range(first, first + count)
    ]
    session.add_all(made)
    session.flush()
    return made


def welcome_invited(session: Session, participant: Participant, *, now: datetime) -> None:
    """Hand an invited participant their forms, unless they have them already.

    Raises:
        NotOpen: as for `enrol`.
    """
    study = locked(session, participant.study_id)
    session.refresh(participant)
    if participant.enrolled_at is None and participant.status not in GONE:
        require_open(study)
        require_room(session, study, now)
        hand_forms(session, study, participant, now)


def consent(participant: Participant, *, now: datetime) -> None:
    """Keep that the participant has agreed to take part; the first time counts."""
    participant.consented_at = participant.consented_at or now


def finish_practice(participant: Participant, *, now: datetime) -> None:
    """Keep that the participant has been through the practice question."""
    participant.practised_at = participant.practised_at or now


def locked(session: Session, study_id: int) -> Study:
    """The study as it is now, whose other enrolments wait: no form goes to two people."""
    chosen = select(Study).where(Study.id == study_id).with_for_update()
    return session.scalars(chosen.execution_options(populate_existing=True)).one()


def require_room(session: Session, study: Study, now: datetime) -> None:
    """Raise `NotOpen` if as many take part as the study wants.

    Who has gone leaves their place, and so does who left without having answered everything.
    """
    cap = config_of(study).recruitment.participants
    if not cap:
        return
    answered = select(Response.id).where(Response.question_id == Question.id).exists()
    unfinished = (
        select(Question.id)
        .join(Form, Question.form_id == Form.id)
        .where(Form.participant_id == Participant.id, ~answered)
        .exists()
    )
    taking_part = session.scalar(
        select(func.count(Participant.id)).where(
            Participant.study_id == study.id,
            Participant.enrolled_at.is_not(None),
            Participant.status.not_in(GONE),
            ~(lease_is_over(study, now) & unfinished),
        )
    )
    if (taking_part or 0) >= cap:
        raise NotOpen(f"study {study.name}: all {cap} places are taken")


def number_of_next(session: Session, study: Study) -> int:
    """The number in the pseudonym of the study's next participant: nobody's is given twice."""
    count = session.scalar(
        select(func.count(Participant.id)).where(Participant.study_id == study.id)
    )
    return (count or 0) + 1


# ------------------------------------------------------------------------------- forms and leases


def hand_forms(session: Session, study: Study, participant: Participant, now: datetime) -> None:
    """Give the participant a free portion, else a portion of what others have left.

    Raises:
        NotOpen: there is neither.
    """
    forms = free_portion(session, study) or left_portion(session, study, now)
    if not forms:
        raise NotOpen(f"study {study.name}: every form is taken")
    for position, form in enumerate(forms, start=1):
        form.participant_id = participant.id
        form.position, form.name = position, f"form_{position}"
    participant.category = forms[0].category or None
    participant.enrolled_at = participant.seen_at = now
    session.flush()


def free_portion(session: Session, study: Study) -> Sequence[Form]:
    """The forms of the next free portion, of the category with most portions left."""
    free = (Form.study_id == study.id, Form.participant_id.is_(None))
    n_portions = func.count(func.distinct(Form.portion))
    first = session.execute(
        select(Form.category, func.min(Form.portion))
        .where(*free)
        .group_by(Form.category)
        .order_by(n_portions.desc(), func.min(Form.portion))
        .limit(1)
    ).one_or_none()
    if first is None:
        return []
    chosen = select(Form).where(*free, Form.portion == first[1]).order_by(Form.number)
    return session.scalars(chosen).all()


@dataclass(frozen=True, slots=True)
class LeftQuestion:
    """A question that its participant has left, by database keys."""

    question_id: int
    category: str
    triplet_id: int


def left_portion(session: Session, study: Study, now: datetime) -> list[Form]:
    """New forms over what others have left: one category, no triplet twice, no old check.

    The questions left are marked as handed on, so that each lives on in one place only.
    """
    left = left_questions(session, study, now)
    config = config_of(study)
    size = config.design.questions_per_form * config.design.forms_per_participant
    chosen: dict[int, LeftQuestion] = {}
    for candidate in left:
        if candidate.category == left[0].category:
            chosen.setdefault(candidate.triplet_id, candidate)
    wanted = [candidate.question_id for candidate in list(chosen.values())[:size]]
    # Whoever submits right now holds the question's lock, and after it has an answer: it is theirs.
    held = session.scalars(
        select(Question.id).where(Question.id.in_(wanted)).with_for_update(skip_locked=True)
    ).all()
    still_left = {candidate.question_id for candidate in left_questions(session, study, now)}
    questions = session.scalars(
        select(Question).where(Question.id.in_(still_left.intersection(held))).order_by(Question.id)
    ).all()
    return write_left(session, study, questions)


def lease_is_over(study: Study, now: datetime) -> ColumnElement[bool]:
    """Whether a participant has shown no sign of life for too long, or has given back."""
    lease = timedelta(minutes=config_of(study).design.lease_minutes)
    return or_(Participant.seen_at.is_(None), Participant.seen_at < now - lease)


def left_questions(session: Session, study: Study, now: datetime) -> list[LeftQuestion]:
    """Questions without an answer whose participant's lease is over or who has gone.

    Answers of excluded participants do not count, so their questions are left as well. Checks are
    not handed on: they belong to the form that they were drawn for.
    """
    answered = select(Response.id).where(Response.question_id == Question.id).exists()
    is_check = select(Check.id).where(Check.question_id == Question.id).exists()
    over = lease_is_over(study, now) | Participant.status.in_(GONE)
    rows = session.execute(
        select(Question.id, Form.category, Query.triplet_id)
        .join(Form, Question.form_id == Form.id)
        .join(Participant, Form.participant_id == Participant.id)
        .join(Pair, Question.pair_id == Pair.id)
        .join(Query, Pair.query_id == Query.id)
        .where(
            Form.study_id == study.id,
            Question.handed_on.is_(False),
            ~is_check,
            or_(~answered & over, Participant.status == "excluded"),
        )
        .order_by(Question.id)
    )
    return [LeftQuestion(*row) for row in rows]


def write_left(session: Session, study: Study, questions: Sequence[Question]) -> list[Form]:
    """Write forms that go on with these questions: the same pairs, sides and orders."""
    if not questions:
        return []
    config = config_of(study)
    number = session.scalar(select(func.max(Form.number)).where(Form.study_id == study.id)) or 0
    portion = session.scalar(select(func.max(Form.portion)).where(Form.study_id == study.id)) or 0
    category = questions[0].form.category
    forms = []
    size = config.design.questions_per_form
    for start in range(0, len(questions), size):
        number += 1
        form = Form(study_id=study.id, number=number, portion=portion + 1, category=category)
        session.add(form)
        session.flush()
        forms.append(form)
        batch = questions[start : start + size]
        session.execute(
            insert(Question),
            [
                {
                    "form_id": form.id,
                    "place": place,
                    "pair_id": question.pair_id,
                    "swapped": question.swapped,
                    "order_1": question.order_1,
                    "order_2": question.order_2,
                    "text": question.text,
                }
                for place, question in enumerate(batch)
            ],
        )
        for question in batch:
            question.handed_on = True
        if config.checks.arithmetic:
            session.add(sum_before(form.id, Random(f"left:{config.design.seed}:{number}")))  # noqa: S311
    session.flush()
    return forms


def touch(participant: Participant, now: datetime) -> None:
    """Keep a sign of life: the lease runs from the latest. One that was ended stays ended."""
    if participant.seen_at is not None:
        participant.seen_at = max(now, participant.seen_at)


# ---------------------------------------------------------------------------------------- ways out


def lock_participant(session: Session, participant: Participant) -> None:
    """Lock the participant's row and read it anew; whoever locks questions too does this first."""
    session.refresh(participant, ["status", "seen_at"], with_for_update=True)


def set_status(participant: Participant, status: str) -> None:
    """Pause a participant, let them go on, or let them go.

    Raises:
        UnreadableInput: there is no such status.
    """
    if status not in STATUSES:
        raise UnreadableInput("status", f"{status!r} is none of {', '.join(STATUSES)}")
    participant.status = status


def give_back(participant: Participant) -> None:
    """End the participant's lease: the next to come may get what they have not answered."""
    participant.seen_at = None


def forget(session: Session, participant: Participant) -> int:
    """Delete a person's answers and checks and return the questions; how many answers it were.

    What stays is an empty row under the pseudonym, so that nobody else is ever given it.
    """
    lock_participant(session, participant)
    own_questions = select(Question.id).join(Form).where(Form.participant_id == participant.id)
    own_checks = select(Check.id).join(Form).where(Form.participant_id == participant.id)
    n_answers = session.scalar(
        select(func.count(func.distinct(Response.question_id))).where(
            Response.question_id.in_(own_questions)
        )
    )
    session.execute(delete(Response).where(Response.question_id.in_(own_questions)))
    session.execute(delete(CheckAnswer).where(CheckAnswer.check_id.in_(own_checks)))
    session.execute(update(Question).where(Question.id.in_(own_questions)).values(served_at=None))
    participant.status = "returned"
    participant.external_id = None
    participant.token = secrets.token_urlsafe(24)
    participant.consented_at = participant.practised_at = None
    participant.created_at = participant.enrolled_at = participant.seen_at = None
    session.flush()
    return n_answers or 0
