"""The dashboard's figures of a whole study."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from hsfiq.collect.leases import (
    DEPARTED_STATUSES,
    IS_ANSWERED,
    IS_BEFORE_END,
    abandoned_statement,
    lease_expired,
)
from hsfiq.collect.progress import AnswerRow, StudyProgress, progress_of
from hsfiq.collect.review.people_shown import Shown, among
from hsfiq.db.tables import Form, Participant, Question, Study


@dataclass(frozen=True, slots=True)
class Headline:
    """The dashboard's figures of a study.

    Attributes:
        abandoned: the number of abandoned questions that have not been reassigned yet.
        late: pseudonyms of participants whose lease expired before they answered everything.
        skipped: outside ids of the questions skipped for an image that was not there.
    """

    progress: StudyProgress
    abandoned: int
    late: tuple[str, ...]
    skipped: tuple[str, ...]


def headline_of(
    session: Session, study: Study, answers: Sequence[AnswerRow], *, now: datetime
) -> Headline:
    """Count answered, abandoned and skipped questions; `answers` is the result of `answers_of`."""
    abandoned = select(func.count()).select_from(abandoned_statement(study, now).subquery())
    return Headline(
        progress=progress_of(session, study),
        abandoned=session.scalar(abandoned) or 0,
        late=late_people(session, study, now),
        skipped=tuple(
            answer.question_id
            for answer in answers
            if answer.skipped and answer.counts and answer.check is None
        ),
    )


def late_people(
    session: Session, study: Study, now: datetime, shown: Shown | None = None
) -> tuple[str, ...]:
    """Those whose lease expired before they answered everything; `shown`: only of these keys."""
    has_questions = (
        select(Question.id)
        .join(Form, Question.form_id == Form.id)
        .where(Form.participant_id == Participant.id, Question.reassigned.is_(False), ~IS_ANSWERED)
        .exists()
    )
    late = (
        select(Participant.name)
        .where(
            Participant.study_id == study.id,
            among(Participant.id, shown),
            Participant.status.not_in(DEPARTED_STATUSES),
            lease_expired(study, now),
            IS_BEFORE_END,
            has_questions,
        )
        .order_by(Participant.id)
    )
    return tuple(session.scalars(late))
