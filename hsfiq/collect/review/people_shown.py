"""Of a large study, the dashboard's plots and tables show the participants who were seen last."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import ColumnElement, Select, func, select, true
from sqlalchemy.orm import InstrumentedAttribute, Session

from hsfiq.db.tables import Participant, Study
from hsfiq.study.config import config_of

Shown = Sequence[int] | Select[int]
"""The keys of participants."""

MOST_ANSWERS = 10_000
"""Answers of so many questions are read and plotted in about a second."""


MOST_COMPARED = 200_000
"""Questions of which the dashboard computes the preferences between systems: some seconds."""


def people_shown(session: Session, study: Study) -> Sequence[int] | None:
    """The keys of those seen last, who have about `MOST_ANSWERS` questions; None for everybody.

    With keys, PostgreSQL reads the rows of these people only; with a subquery, it expects many.
    """
    most = people_with(study, MOST_ANSWERS)
    if count_people(session, study) <= most:
        return None
    return session.scalars(
        select(Participant.id)
        .where(Participant.study_id == study.id)
        .order_by(Participant.seen_at.is_(None), Participant.seen_at.desc(), Participant.id.desc())
        .limit(most)
    ).all()


def may_compare_systems(session: Session, study: Study) -> bool:
    """Whether a study has few enough answers to compute its preferences whenever it is shown."""
    return count_people(session, study) <= people_with(study, MOST_COMPARED)


def people_with(study: Study, n_questions: int) -> int:
    """How many participants have about so many questions."""
    design = config_of(study).design
    return max(1, n_questions // (design.questions_per_form * design.forms_per_participant))


def count_people(session: Session, study: Study) -> int:
    people = select(func.count(Participant.id)).where(Participant.study_id == study.id)
    return session.scalar(people) or 0


def among(
    column: InstrumentedAttribute[int] | InstrumentedAttribute[int | None],
    people: Shown | None,
) -> ColumnElement[bool]:
    """Whether a participant's key is one of `people`, who may be everybody."""
    return true() if people is None else column.in_(people)
