"""How long a study takes: set by its owner, measured from its participants, or estimated."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from statistics import median
from typing import Literal

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from hsfiq.db.tables import Form, Participant, Question, Response, Study
from hsfiq.study.config import config_of

SECONDS_PER_QUESTION = 30
"""An assumption: two scores and a preference for sets of five images."""

MINUTES_BEFORE = 3
"""An assumption: consent, guidelines and the practice question."""

MOST_PARTICIPANTS = 200
"""The pace is that of so many participants at most, those seen last."""

FEWEST_PARTICIPANTS, FEWEST_ANSWERS = 3, 5
"""The pace is measured from so many participants with so many timed answers each."""


@dataclass(frozen=True, slots=True)
class Duration:
    minutes: int
    source: Literal["set", "measured", "estimated"]


def duration_of(session: Session, study: Study, n_questions: int) -> Duration:
    """The minutes that so many questions take, rounded up, with what comes before them."""
    stated = config_of(study).study.minutes
    if stated:
        return Duration(stated, "set")
    pace = measured_pace(session, study)
    seconds = n_questions * (SECONDS_PER_QUESTION if pace is None else pace)
    minutes = MINUTES_BEFORE + ceil(seconds / 60)
    return Duration(minutes, "estimated" if pace is None else "measured")


def measured_pace(session: Session, study: Study) -> float | None:
    """The seconds per question of the median participant; None before enough have answered."""
    latest = (
        select(Participant.id)
        .where(
            Participant.study_id == study.id,
            Participant.status != "excluded",
            Participant.seen_at.is_not(None),
        )
        .order_by(Participant.seen_at.desc())
        .limit(MOST_PARTICIPANTS)
    )
    means = session.scalars(
        select(func.avg(Response.active_seconds))
        .join(Question, Response.question_id == Question.id)
        .join(Form, Question.form_id == Form.id)
        .where(
            Form.participant_id.in_(latest),
            Response.revision == 1,
            Response.active_seconds.is_not(None),
        )
        .group_by(Form.participant_id)
        .having(func.count(Response.id) >= FEWEST_ANSWERS)
    ).all()
    return median(means) if len(means) >= FEWEST_PARTICIPANTS else None
