"""Leases: the time for which questions are reserved for a participant, and their reassignment.

A participant's unanswered questions are reserved during activity on the page and for the study's
`lease_minutes` afterwards. Expiry is evaluated at enrolment, without a background job or a lock: an
enrolment takes unassigned forms, or else abandoned questions.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from random import Random

from sqlalchemy import ColumnElement, Row, Select, and_, bindparam, false, func, insert, or_, select
from sqlalchemy.orm import Session

from hsfiq.collect.participant_row import ParticipantRow
from hsfiq.db.engine import added
from hsfiq.db.rows import execute
from hsfiq.db.source_tables import Query
from hsfiq.db.tables import Check, Form, Pair, Participant, Question, Response, Study
from hsfiq.errors import NotOpen
from hsfiq.study.config import config_of
from hsfiq.study.forms import NEW_CHECKS, question_row, sum_before

_last_form = (
    select(Form.id)
    .where(Form.participant_id == Participant.id)
    .order_by(Form.position.desc())
    .limit(1)
    .correlate(Participant)
    .scalar_subquery()
)
_is_last_open = (
    select(~select(Response.id).where(Response.question_id == Question.id).exists())
    .where(Question.form_id == _last_form)
    .order_by(Question.place.desc())
    .limit(1)
    .correlate(Participant)
    .scalar_subquery()
)
IS_BEFORE_END = func.coalesce(_is_last_open, false())
"""Whether a participant has not answered their last question.

Questions are answered in order, so participants who answered the last one have no other unanswered
question, except reassigned ones. This reads one question of each participant; searching for an
unanswered question reads all.
"""

DEPARTED_STATUSES = ("returned", "screened-out", "excluded")
"""The statuses of participants without further answers."""

CLOCK_CHANGE = timedelta(hours=1)
"""A participant seen later than this from now was seen before a clock was set back."""

IS_ANSWERED = select(Response.id).where(Response.question_id == Question.id).exists()
IS_CHECK = select(Check.id).where(Check.question_id == Question.id).exists()


# These statements are made once: for most studies, making one takes longer than running it.
_is_unassigned = (
    Form.study_id == bindparam("study"),
    Form.participant_id.is_(None),
    Form.category.not_in(bindparam("closed", expanding=True)),
)
FIRST_UNASSIGNED = (
    select(Form.category, func.min(Form.batch))
    .where(*_is_unassigned)
    .group_by(Form.category)
    .order_by(func.count(func.distinct(Form.batch)).desc(), func.min(Form.batch))
    .limit(1)
)
"""The category with the most unassigned batches, and the first of these."""
UNASSIGNED_FORMS = (
    select(Form).where(*_is_unassigned, Form.batch == bindparam("batch")).order_by(Form.number)
)
ANY_UNASSIGNED = select(Form.id).where(*_is_unassigned).limit(1)


def assign_forms(
    session: Session,
    study: Study,
    participant: Participant,
    now: datetime,
    closed: Collection[str] = (),
) -> None:
    """Give the participant unassigned forms, or else new forms of abandoned questions.

    None of the `closed` categories.
    """
    forms = next_unassigned_forms(session, study, closed)
    forms = forms or reassign_abandoned(session, study, now, closed)
    if not forms:
        raise NotOpen(f"study {study.name}: all forms are assigned")
    for position, form in enumerate(forms, start=1):
        form.participant_id = participant.id
        form.position, form.name = position, f"form_{position}"
    participant.category = forms[0].category or None
    participant.enrolled_at = participant.seen_at = now
    session.flush()


def next_unassigned_forms(
    session: Session, study: Study, closed: Collection[str] = ()
) -> Sequence[Form]:
    """The next participant's forms, of the category with the most left."""
    unassigned = {"study": study.id, "closed": list(closed)}
    first = session.execute(FIRST_UNASSIGNED, unassigned).one_or_none()
    if first is None:
        return []
    return session.scalars(UNASSIGNED_FORMS, unassigned | {"batch": first[1]}).all()


def reassign_abandoned(
    session: Session, study: Study, now: datetime, closed: Collection[str] = ()
) -> list[Form]:
    """Move abandoned questions to new forms of a category, without repeated triplets or checks."""
    abandoned = [
        question
        for question in abandoned_questions(session, study, now)
        if question.category not in closed
    ]
    design = config_of(study).design
    size = design.questions_per_form * design.forms_per_participant
    by_triplet: dict[int, int] = {}
    for question in abandoned:
        if question.category == abandoned[0].category:
            by_triplet.setdefault(question.triplet_id, question.id)
    wanted = list(by_triplet.values())[:size]
    # A concurrent submit holds the question's lock and then has its answer: it keeps the question.
    locked = session.scalars(
        select(Question.id).where(Question.id.in_(wanted)).with_for_update(skip_locked=True)
    ).all()
    still_abandoned = {question.id for question in abandoned_questions(session, study, now)}
    questions = session.scalars(
        select(Question)
        .where(Question.id.in_(still_abandoned.intersection(locked)))
        .order_by(Question.id)
    ).all()
    return write_reassigned_forms(session, study, questions)


def abandoned_questions(
    session: Session, study: Study, now: datetime
) -> Sequence[Row[int, str, int]]:
    """Unanswered questions of departed participants, and of those whose lease has expired.

    Each has its `id`, its `category` and its `triplet_id`.

    Questions of excluded participants count as abandoned, too. Checks are not reassigned: they
    belong to their original form.
    """
    return session.execute(abandoned_statement(study, now).order_by(Question.id)).all()


def abandoned_statement(study: Study, now: datetime) -> Select[int, str, int]:
    """The statement of `abandoned_questions`, without an order."""
    is_absent = lease_expired(study, now) | Participant.status.in_(DEPARTED_STATUSES)
    is_excluded = Participant.status == "excluded"
    people = select(Participant.id).where(
        Participant.study_id == study.id, or_(is_excluded, is_absent & IS_BEFORE_END)
    )
    return (
        select(Question.id, Form.category, Query.triplet_id)
        .join(Form, Question.form_id == Form.id)
        .join(Participant, Form.participant_id == Participant.id)
        .join(Pair, Question.pair_id == Pair.id)
        .join(Query, Pair.query_id == Query.id)
        .where(
            Form.participant_id.in_(people),
            Question.reassigned.is_(False),
            ~IS_CHECK,
            or_(~IS_ANSWERED, is_excluded),
        )
    )


def has_questions_to_assign(
    session: Session, study: Study, now: datetime, closed: Collection[str] = ()
) -> bool:
    """Whether `assign_forms` would have questions for one more participant."""
    unassigned = {"study": study.id, "closed": list(closed)}
    if session.execute(ANY_UNASSIGNED, unassigned).first() is not None:
        return True
    abandoned = abandoned_statement(study, now).where(Form.category.not_in(closed))
    return session.execute(abandoned.limit(1)).first() is not None


def write_reassigned_forms(
    session: Session, study: Study, questions: Sequence[Question]
) -> list[Form]:
    """Copy questions to new forms (same pairs, sides and orders) and mark the old ones."""
    if not questions:
        return []
    config = config_of(study)
    number = session.scalar(select(func.max(Form.number)).where(Form.study_id == study.id)) or 0
    batch = session.scalar(select(func.max(Form.batch)).where(Form.study_id == study.id)) or 0
    category = questions[0].form.category
    forms = []
    size = config.design.questions_per_form
    for start in range(0, len(questions), size):
        number += 1
        members = questions[start : start + size]
        form = added(session, Form(
            study_id=study.id, number=number, batch=batch + 1, category=category,
            n_questions=len(members),
        ))  # fmt: skip
        forms.append(form)
        session.execute(
            insert(Question),
            [
                question_row(form.id, place, question) | {"text": question.text}
                for place, question in enumerate(members)
            ],
        )
        for question in members:
            question.reassigned = True
        if config.checks.arithmetic:
            rng = Random(f"left:{config.design.seed}:{number}")  # noqa: S311
            execute(session, NEW_CHECKS, [sum_before(form.id, rng)])
    session.flush()
    return forms


def lease_expired(study: Study, now: datetime) -> ColumnElement[bool]:
    """Whether a participant's lease has run out or was ended, or they never began.

    The lease has also run out if the participant was last seen in the future.
    """
    lease = timedelta(minutes=config_of(study).design.lease_minutes)
    in_lease = Participant.seen_at.between(now - lease, now + CLOCK_CHANGE)
    ended = or_(Participant.seen_at.is_(None), ~in_lease)
    minutes = config_of(study).recruitment.unbegun_minutes
    return or_(ended, never_begun(now, minutes)) if minutes else ended


def never_begun(now: datetime, minutes: int) -> ColumnElement[bool]:
    """Whether somebody got a place so many minutes ago, or in the future, and has not agreed."""
    since = now - timedelta(minutes=minutes)
    has_waited = or_(Participant.seen_at <= since, Participant.seen_at > now + CLOCK_CHANGE)
    return and_(Participant.consented_at.is_(None), has_waited)


def extend_lease(participant: ParticipantRow, now: datetime) -> None:
    """Record activity, from which the lease runs. An ended lease is not renewed."""
    if participant.seen_at is not None:
        is_set_back = participant.seen_at > now + CLOCK_CHANGE
        participant.seen_at = now if is_set_back else max(now, participant.seen_at)


def end_lease(participant: Participant) -> None:
    """Let the next enrolment take the participant's unanswered questions."""
    participant.seen_at = None
