"""Of a large study, the dashboard's plots and tables show the participants who were seen last."""

from __future__ import annotations

from sqlalchemy import ColumnElement, Select, func, select, true
from sqlalchemy.orm import InstrumentedAttribute, Session

from hsfiq.db.tables import Participant, Study
from hsfiq.study.config import config_of

MOST_ANSWERS = 10_000
"""Answers of so many questions are read and plotted in about a second."""


def people_shown(session: Session, study: Study) -> Select[int] | None:
    """The keys of those seen last, who have about `MOST_ANSWERS` questions; None for everybody."""
    design = config_of(study).design
    most = max(1, MOST_ANSWERS // (design.questions_per_form * design.forms_per_participant))
    people = select(func.count(Participant.id)).where(Participant.study_id == study.id)
    if (session.scalar(people) or 0) <= most:
        return None
    return (
        select(Participant.id)
        .where(Participant.study_id == study.id)
        .order_by(Participant.seen_at.is_(None), Participant.seen_at.desc(), Participant.id.desc())
        .limit(most)
    )


def among(
    column: InstrumentedAttribute[int] | InstrumentedAttribute[int | None],
    people: Select[int] | None,
) -> ColumnElement[bool]:
    """Whether a participant's key is one of `people`, who may be everybody."""
    return true() if people is None else column.in_(people)
