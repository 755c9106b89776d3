"""Remove studies whose creation was interrupted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import TypeVar

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from hsfiq.db.engine import Database, Parts
from hsfiq.db.search_tables import SearchItem, StudyRetriever
from hsfiq.db.tables import (
    Check,
    Form,
    FurtherSet,
    Pair,
    PracticeQuestion,
    Question,
    RetrievedImage,
    RetrievedSet,
    Study,
    StudyCreation,
    TextVersion,
)

LONGEST_PAUSE = timedelta(minutes=10)
"""A creation that has stored nothing for longer was interrupted."""

FORMS_AT_ONCE, PAIRS_AT_ONCE = 10, 100
"""What is removed before others may write."""

T = TypeVar("T")


def remove_interrupted(database: Database, now: datetime) -> None:
    """Remove what creations have left that have not continued for `LONGEST_PAUSE`."""
    with database.reading() as session:
        old = StudyCreation.continued_at < now - LONGEST_PAUSE
        interrupted = session.scalars(select(StudyCreation.study_id).where(old)).all()
    for study_id in interrupted:
        remove_unfinished(database, study_id)


def remove_unfinished(database: Database, study_id: int) -> None:
    """Remove all rows of a study that is not complete; of a complete one, none."""
    with database.writing_in_parts() as parts:
        session = parts.session
        if session.get(StudyCreation, study_id) is None:
            return
        remove_forms(parts, study_id)
        session.execute(delete(PracticeQuestion).where(PracticeQuestion.study_id == study_id))
        remove_pairs(parts, study_id)
        for table in (TextVersion, StudyRetriever, StudyCreation):
            session.execute(delete(table).where(table.study_id == study_id))
        session.execute(delete(Study).where(Study.id == study_id))


def remove_forms(parts: Parts, study_id: int) -> None:
    session = parts.session
    forms = session.scalars(select(Form.id).where(Form.study_id == study_id)).all()
    for keys in chunks(forms, FORMS_AT_ONCE):
        session.execute(delete(Check).where(Check.form_id.in_(keys)))
        session.execute(delete(Question).where(Question.form_id.in_(keys)))
        session.execute(delete(Form).where(Form.id.in_(keys)))
        end_long_part(parts)


def remove_pairs(parts: Parts, study_id: int) -> None:
    session = parts.session
    pairs = session.scalars(select(Pair.id).where(Pair.study_id == study_id)).all()
    for keys in chunks(pairs, PAIRS_AT_ONCE):
        sets = sets_of(session, keys)
        for table in (FurtherSet, SearchItem):
            session.execute(delete(table).where(table.pair_id.in_(keys)))
        session.execute(delete(Pair).where(Pair.id.in_(keys)))
        session.execute(delete(RetrievedImage).where(RetrievedImage.set_id.in_(sets)))
        session.execute(delete(RetrievedSet).where(RetrievedSet.id.in_(sets)))
        end_long_part(parts)


def sets_of(session: Session, pairs: Sequence[int]) -> list[int]:
    """The keys of the sets that these pairs show; no other pair shows them."""
    rows = session.execute(select(Pair.first_id, Pair.second_id).where(Pair.id.in_(pairs)))
    of_pairs = [key for row in rows for key in row if key is not None]
    further = select(FurtherSet.set_id).where(FurtherSet.pair_id.in_(pairs))
    return [*of_pairs, *session.scalars(further)]


def end_long_part(parts: Parts) -> None:
    if parts.is_long:
        parts.next()


def chunks(rows: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    for start in range(0, len(rows), size):
        yield rows[start : start + size]
