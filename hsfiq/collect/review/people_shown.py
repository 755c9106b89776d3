"""Of a large study, the dashboard's plots show the participants who were seen last.

Its table of participants has pages.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Select, func, or_, select, true
from sqlalchemy.orm import InstrumentedAttribute, Session

from hsfiq.db.source_tables import Query
from hsfiq.db.tables import Form, Pair, Participant, Question, Study
from hsfiq.study.config import config_of

Shown = Collection[int] | Select[int] | Select[int | None]
"""The keys of participants."""

MOST_ANSWERS = 10_000
"""Answers of so many questions are read and plotted in about a second."""

PER_PAGE = 50
"""Participants on a page of the table."""

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


@dataclass(frozen=True, slots=True)
class PeoplePage:
    """A page of the participants who are looked for, from 1: their keys, the newest first."""

    keys: Sequence[int]
    number: int
    n_pages: int
    n_found: int


def people_page(
    session: Session, study: Study, looked_for: str, number: int, among_keys: Shown | None = None
) -> PeoplePage:
    """The participants whose name or platform id contains a text; the last page if there are fewer.

    Those of all, or of those whose keys are `among_keys`.
    """
    found = select(Participant.id).where(
        Participant.study_id == study.id, among(Participant.id, among_keys)
    )
    if looked_for:
        columns = (Participant.name, Participant.external_id)
        contain = (column.icontains(looked_for, autoescape=True) for column in columns)
        found = found.where(or_(*contain))
    n_found = session.scalar(select(func.count()).select_from(found.subquery())) or 0
    n_pages = max(1, -(-n_found // PER_PAGE))
    number = min(max(number, 1), n_pages)
    newest = found.order_by(Participant.id.desc()).limit(PER_PAGE).offset((number - 1) * PER_PAGE)
    return PeoplePage(session.scalars(newest).all(), number, n_pages, n_found)


def people_with_same_queries(study: Study, participant: int) -> Select[int | None]:
    """The keys of a participant and of those who were asked about a triplet of theirs, too."""
    of_study = (
        select(Form.participant_id)
        .join(Question, Question.form_id == Form.id)
        .join(Pair, Question.pair_id == Pair.id)
        .join(Query, Pair.query_id == Query.id)
        .where(Form.study_id == study.id, Form.participant_id.is_not(None))
    )
    own = of_study.where(Form.participant_id == participant)
    triplets = own.with_only_columns(Query.triplet_id)
    return of_study.where(Query.triplet_id.in_(triplets))


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
