"""How many participants a study's forms are for, and how many questions each of them answers."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from hsfiq.db.tables import Check, Form, Question, Study
from hsfiq.errors import ConfigError
from hsfiq.study.config import Recruitment, StudyConfig


@dataclass(frozen=True, slots=True)
class Capacity:
    """How many participants there are forms for.

    `by_questions` counts them by their number of questions, checks included, `by_category` by
    category ("" for mixed ones), and `unassigned` those that nobody has yet, by category.
    """

    by_questions: Counter[int]
    by_category: Counter[str]
    unassigned: Counter[str]

    @property
    def places(self) -> int:
        return sum(self.by_questions.values())

    def warnings(self) -> list[str]:
        """What the owner should know before people are paid."""
        if len(self.by_questions) < 2:
            return []
        parts = ", ".join(
            f"{count:,} of {questions:,}"
            for questions, count in sorted(self.by_questions.items(), reverse=True)
        )
        warning = (
            f"not all participants get as many questions ({parts}): with equal pay, the last ones "
            "are paid more for each; change queries.sample or design.questions_per_form, or pay "
            "by question"
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
    """The cap and the quotas, lowered to what there are forms for."""
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
    """How many participants a study takes at most."""
    by_category = [
        min(places, recruitment.quotas.get(category, places))
        for category, places in capacity.by_category.items()
    ]
    return min(recruitment.participants or capacity.places, sum(by_category))


def planned_judgements(session: Session, study: Study) -> dict[int, int]:
    """How many participants judge, or will, each of a study's pairs, by the pair's key.

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
            raise ConfigError(key, "no form has this category", f"there are forms of {known}")
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
            f"{wanted:,} participants, but there are questions for {places:,}",
            f"set it to {places:,} or less, or raise annotators_per_query or the number of queries",
        )
