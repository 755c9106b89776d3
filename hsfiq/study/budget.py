"""What a study costs: participants, their questions and minutes, and the pay for them."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean
from typing import Any

from sqlalchemy.orm import Session

from hsfiq.db.tables import Study
from hsfiq.study.capacity import Capacity, capacity_of, planned_judgements, recruited
from hsfiq.study.config import StudyConfig
from hsfiq.study.duration import Duration, duration_of


@dataclass(frozen=True, slots=True)
class Budget:
    """`questions` are those of a participant with full forms, checks included.

    `overlap` is the mean number of participants who judge a query; `cost` is in the currency of
    the hourly pay, None without it.
    """

    participants: int
    questions: int
    duration: Duration
    overlap: float
    capacity: Capacity
    cost: float | None

    def facts(self) -> dict[str, Any]:
        return {
            "participants": self.participants,
            "questions_each": self.questions,
            "minutes_each": self.duration.minutes,
            "minutes_are": self.duration.source,
            "overlap": self.overlap,
            "cost": self.cost,
        }


def budget_of(
    session: Session, study: Study, config: StudyConfig, pay_per_hour: float | None
) -> Budget:
    """What a drawn study needs if it recruits as many participants as it can."""
    capacity = capacity_of(session, study)
    participants = recruited(config.recruitment, capacity)
    return budget_for(session, study, participants, capacity, pay_per_hour)


def budget_for(
    session: Session,
    study: Study,
    participants: int,
    capacity: Capacity,
    pay_per_hour: float | None,
) -> Budget:
    """What so many participants need, who get forms of these."""
    questions = max(capacity.by_questions, default=0)
    duration = duration_of(session, study, questions)
    hours = participants * duration.minutes / 60
    return Budget(
        participants,
        questions,
        duration,
        overlap=round(fmean(planned_judgements(session, study).values()), 3),
        capacity=capacity,
        cost=None if pay_per_hour is None else round(hours * pay_per_hour, 2),
    )
