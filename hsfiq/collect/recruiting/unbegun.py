"""Places that nobody began: their forms go back as they were drawn, for the next participants.

They go back when the next participant needs a place, and by `hsfiq participant release`. Whoever
comes back later gets a place again, if there is one.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from hsfiq.collect.leases import IS_ANSWERED, never_begun
from hsfiq.db.tables import Form, Participant, Question, Study
from hsfiq.study.config import config_of

_is_used = (
    select(Question.id)
    .join(Form, Question.form_id == Form.id)
    .where(Form.participant_id == Participant.id, IS_ANSWERED | Question.reassigned)
    .exists()
)
WITH_UNUSED_PLACES = (
    select(Participant)
    .where(Participant.status == "active", Participant.enrolled_at.is_not(None), ~_is_used)
    .order_by(Participant.id)
    .with_for_update(skip_locked=True)
)
"""The active participants who have a place and no answer; who is being changed now is left out."""


def release_unbegun(
    session: Session, study: Study, now: datetime, minutes: int | None = None
) -> list[str]:
    """Give back the places of a locked study that were taken so many minutes ago and never begun.

    The names of their participants, who stay. Without `minutes`, it is as many as the study says.
    """
    if minutes is None:
        minutes = config_of(study).recruitment.unbegun_minutes
        if minutes == 0:
            return []
    unbegun = WITH_UNUSED_PLACES.where(Participant.study_id == study.id, never_begun(now, minutes))
    # Whoever is being changed now, such as by the owner, keeps the place this time.
    people = session.scalars(unbegun).all()
    give_back(session, people)
    return [person.name for person in people]


def release_place(session: Session, participant: Participant) -> None:
    """Give back the place of an active participant of a locked study who has begun nothing."""
    give_back(session, session.scalars(WITH_UNUSED_PLACES.where(Participant.id == participant.id)))


def give_back(session: Session, people: Iterable[Participant]) -> None:
    for person in people:
        session.execute(
            update(Form)
            .where(Form.participant_id == person.id)
            .values(participant_id=None, position=None, name=None)
        )
        person.enrolled_at = person.category = None
    session.flush()
