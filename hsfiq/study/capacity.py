"""A study's numbers of participants and questions, its duration and its costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import ceil
from statistics import fmean, median
from typing import Any, Literal

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from hsfiq.db.tables import Check, Form, Participant, Question, Response, Study
from hsfiq.errors import ConfigError
from hsfiq.kinds import KINDS
from hsfiq.study.config import StudyConfig, config_of
from hsfiq.study.publication import AnalysisPlan
from hsfiq.study.recruiting import Recruitment


@dataclass(frozen=True, slots=True)
class Capacity:
    """The number of participants for whom forms exist.

    `by_questions` counts places by the number of questions, including checks, `by_category` by
    category ("" for mixed forms), and `unassigned` counts free places by category.
    """

    by_questions: Counter[int]
    by_category: Counter[str]
    unassigned: Counter[str]

    @property
    def places(self) -> int:
        return sum(self.by_questions.values())

    def warnings(self) -> list[str]:
        """Warnings for the owner before people are paid."""
        if len(self.by_questions) < 2:
            return []
        parts = ", ".join(
            f"{count:,} of {questions:,}"
            for questions, count in sorted(self.by_questions.items(), reverse=True)
        )
        warning = (
            f"participants get different numbers of questions ({parts}): equal pay favours short "
            f"forms; change queries.sample or design.questions_per_form, or pay by question"
        )
        return [warning]


def capacity_of(session: Session, study: Study, first_batch: int = 0) -> Capacity:
    """Count a study's places and those still unassigned, of the batches from one on."""
    rows = session.execute(
        select(func.min(Form.category), func.count(Question.id), func.min(Form.participant_id))
        .join(Question, Question.form_id == Form.id)
        .where(Form.study_id == study.id, Form.batch >= first_batch)
        .group_by(Form.batch)
    ).all()
    return Capacity(
        Counter(questions for _, questions, _ in rows),
        Counter(category for category, _, _ in rows),
        Counter(category for category, _, participant in rows if participant is None),
    )


def limited_to(recruitment: Recruitment, capacity: Capacity) -> Recruitment:
    """The cap and the quotas, limited by the number of forms."""
    places = capacity.by_category
    return replace(
        recruitment,
        participants=min(recruitment.participants, capacity.places),
        quotas={
            category: min(quota, places[category])
            for category, quota in recruitment.quotas.items()
            if category in places
        },
    )


def recruited(recruitment: Recruitment, capacity: Capacity) -> int:
    """The most participants of a study."""
    by_category = [
        min(places, recruitment.quotas.get(category, places))
        for category, places in capacity.by_category.items()
    ]
    return min(recruitment.participants or capacity.places, sum(by_category))


def planned_judgements(session: Session, study: Study) -> dict[int, int]:
    """The number of current and future judges of each pair, by the pair's key.

    A reassigned question counts once, and attention checks do not count.
    """
    is_check = select(Check.id).where(Check.question_id == Question.id).exists()
    rows = session.execute(
        select(Question.pair_id, func.count(Question.id))
        .join(Form, Question.form_id == Form.id)
        .where(Form.study_id == study.id, Question.reassigned.is_(False), ~is_check)
        .group_by(Question.pair_id)
    )
    return dict(rows.all())


def require_enough_forms(session: Session, study: Study, config: StudyConfig) -> None:
    """Raise `ConfigError` if the study recruits more participants than it has forms for."""
    recruitment, capacity = config.recruitment, capacity_of(session, study)
    require_places("recruitment.participants", recruitment.participants, capacity.places)
    for category, quota in recruitment.quotas.items():
        key = f"recruitment.quotas.{category}"
        if category not in capacity.by_category:
            known = ", ".join(sorted(capacity.by_category))
            raise ConfigError(key, "no form has this category", f"categories with forms: {known}")
        require_places(key, quota, capacity.by_category[category])
    most = recruited(replace(recruitment, participants=0), capacity)
    if recruitment.participants > most:
        raise ConfigError(
            "recruitment.participants",
            f"{recruitment.participants:,} participants, but the quotas are for {most:,}",
            f"set it to {most:,} or less, or raise the quotas",
        )


def require_places(key: str, wanted: int, places: int) -> None:
    if wanted > places:
        raise ConfigError(
            key,
            f"{wanted:,} participants, but questions are available for {places:,}",
            f"set it to {places:,} or less, or raise annotators_per_query or the number of queries",
        )


# How long a study takes: set by its owner, measured from its participants, or estimated.

SECONDS_PER_QUESTION = 30
"""An assumption: two scores and a preference for sets of five images."""

MINUTES_BEFORE = 3
"""An assumption: consent, guidelines and the practice question."""

MOST_PARTICIPANTS = 200
"""The most participants, seen last, whose pace is measured."""

FEWEST_PARTICIPANTS, FEWEST_ANSWERS = 3, 5
"""The fewest participants, and timed answers of each, for measuring the pace."""


@dataclass(frozen=True, slots=True)
class Duration:
    minutes: int
    source: Literal["set", "measured", "estimated"]


def duration_of(session: Session, study_id: int, config: StudyConfig, n_questions: int) -> Duration:
    """The minutes for this number of questions, including the introduction, rounded up."""
    pace = None if config.study.minutes else measured_pace(session, study_id)
    return duration_at(config, n_questions, pace)


def duration_at(config: StudyConfig, n_questions: int, pace: float | None = None) -> Duration:
    """The same with so many measured seconds per question, None if there is no measurement."""
    if config.study.minutes:
        return Duration(config.study.minutes, "set")
    seconds = n_questions * (SECONDS_PER_QUESTION if pace is None else pace)
    minutes = MINUTES_BEFORE + ceil(seconds / 60)
    return Duration(minutes, "estimated" if pace is None else "measured")


def measured_pace(session: Session, study_id: int) -> float | None:
    """The seconds per question of the median participant; None before enough have answered."""
    latest = (
        select(Participant.id)
        .where(
            Participant.study_id == study_id,
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


# What a study costs: participants, their questions and minutes, and the pay for them.


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
    """The budget of a drawn study with the most participants."""
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
    """The budget of this number of participants with these forms."""
    questions = max(capacity.by_questions, default=0)
    duration = duration_of(session, study.id, config_of(study), questions)
    overlap = fmean(planned_judgements(session, study).values())
    return budget_with(participants, capacity, duration, overlap, pay_per_hour)


def budget_with(
    participants: int,
    capacity: Capacity,
    duration: Duration,
    overlap: float,
    pay_per_hour: float | None,
) -> Budget:
    hours = participants * duration.minutes / 60
    return Budget(
        participants,
        max(capacity.by_questions, default=0),
        duration,
        overlap=round(overlap, 3),
        capacity=capacity,
        cost=None if pay_per_hour is None else round(hours * pay_per_hour, 2),
    )


# The same before a study is drawn, from the number of its queries.


def planned_budget(
    config: StudyConfig, queries: Mapping[str, int], pay_per_hour: float | None
) -> Budget:
    """The budget of a study drawn from these numbers of queries by category."""
    capacity, overlap = planned_capacity(config, queries)
    participants = recruited(config.recruitment, capacity)
    duration = duration_at(config, max(capacity.by_questions, default=0))
    return budget_with(participants, capacity, duration, overlap, pay_per_hour)


def planned_capacity(config: StudyConfig, queries: Mapping[str, int]) -> tuple[Capacity, float]:
    """The places, and how many participants judge each item: a query, or a query with a system.

    The drawn study may have a place more if copies of a query cannot be in the last forms.
    """
    design, total = config.design, sum(queries.values())
    size = design.questions_per_form * design.forms_per_participant
    share = min(1.0, config.queries.sample / total) if config.queries.sample and total else 1.0
    systems = len(config.searches.retrievers) if KINDS[design.kind].n_live == 1 else 1
    groups = {"": total} if design.categories == "mixed" else queries
    by_questions, by_category, answers, items = Counter[int](), Counter[str](), 0, 0
    for category, count in groups.items():
        judged = round(share * count)
        again = (design.annotators_per_query - 1) * round(design.overlap_share * judged * systems)
        full, rest = divmod(judged * systems + again, max(1, min(size, judged)))
        by_questions[with_checks(config, min(size, judged))] += full
        by_questions[with_checks(config, rest)] += bool(rest)
        by_category[category] += full + bool(rest)
        answers, items = answers + judged * systems + again, items + judged * systems
    capacity = Capacity(+by_questions, +by_category, +by_category)
    return capacity, answers / items if items else 0.0


def with_checks(config: StudyConfig, questions: int) -> int:
    """A participant's questions with the attention checks of their forms."""
    full, rest = divmod(questions, config.design.questions_per_form)
    checks, forms = config.checks, [config.design.questions_per_form] * full + [rest] * bool(rest)
    return questions + sum(checks.gold + min(checks.repeated, own) for own in forms)


# How large a study is for the precision of its answer (`hsfiq.analysis.power`).


@dataclass(frozen=True, slots=True)
class StudySize:
    """The size of a study, and its question.

    `questions` are those of a participant, without checks; `queries` are all that could be judged.
    """

    plan: AnalysisPlan
    systems: int
    queries: int
    participants: int
    questions: int
    overlap: float

    @classmethod
    def of(cls, config: StudyConfig, budget: Budget, systems: int, queries: int) -> StudySize:
        without_checks = config.design.questions_per_form * config.design.forms_per_participant
        questions = min(budget.questions, without_checks)
        people, overlap = budget.participants, budget.overlap
        return cls(config.analysis, systems, queries, people, questions, overlap)

    def comparison(self) -> dict[str, Any]:
        """The arguments of `precision_of_systems`, except the difference to detect."""
        return {
            "participants": self.participants,
            "questions": self.questions,
            "overlap": self.overlap,
            "systems": self.systems,
            "queries": self.queries,
            "alpha": self.plan.alpha,
        }
