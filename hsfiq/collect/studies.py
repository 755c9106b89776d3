"""The stored studies: finding one, and whether it still takes answers."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from hsfiq.db.tables import Study
from hsfiq.errors import NotOpen, Refused


def list_studies(session: Session) -> Sequence[Study]:
    return session.scalars(select(Study).order_by(Study.id)).all()


def find_study(session: Session, name: str) -> Study | None:
    return session.scalars(select(Study).where(Study.name == name)).one_or_none()


def lock_study(session: Session, study_id: int) -> Study:
    """Lock and reload a study, so that concurrent enrolments cannot assign the same form."""
    locked = select(Study).where(Study.id == study_id).with_for_update()
    return session.scalars(locked.execution_options(populate_existing=True)).one()


def require_open(study: Study) -> None:
    if study.status != "open":
        raise NotOpen(f"this study is {study.status}")


def is_finished(study: Study) -> bool:
    """Whether the study can take no more answers: it was imported, or its simulation has ended."""
    return study.origin == "imported" or (study.origin == "simulated" and study.status == "closed")


def require_unfinished(study: Study) -> None:
    if is_finished(study):
        raise Refused(f"study {study.name} holds {study.origin} answers and cannot take more")
