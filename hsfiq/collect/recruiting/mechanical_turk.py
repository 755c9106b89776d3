"""Which HIT of Mechanical Turk a participant works on."""

from __future__ import annotations

from sqlalchemy import select
from sqlalchemy.orm import Session

from hsfiq.collect.stages import UNFINISHED_STAGES, completion_of, stage_of
from hsfiq.collect.steps import steps_of
from hsfiq.db.tables import Participant, WorkedHit
from hsfiq.errors import Refused
from hsfiq.study.recruiting.mechanical_turk import Hit


class HitRefused(Refused):
    """The participant has finished with another HIT, or somebody else works on this one."""

    status = 409


class HitChanged(HitRefused):
    """The participant began with another HIT, in a browser that this one is not known to be."""


def works_on(session: Session, study_id: int, worker: str, hit: Hit) -> bool:
    """Whether a link names the worker and the HIT with which they take part.

    Anybody may know a worker's id; the id of an assignment only the worker and the requester know.
    """
    statement = (
        select(WorkedHit.participant_id)
        .join(Participant, WorkedHit.participant_id == Participant.id)
        .where(
            Participant.study_id == study_id,
            Participant.external_id == worker,
            WorkedHit.assignment_id == hit.assignment_id,
        )
    )
    return session.scalar(statement) is not None


def work_on(
    session: Session, participant: Participant, hit: Hit, *, has_ticket: bool = False
) -> None:
    """Record the HIT of a participant of a locked study.

    A participant who has not finished may change it, with the ticket of their page once they have
    agreed to take part: before that, nothing is theirs that somebody else could see or change.

    Raises:
        HitRefused: the participant has finished with another HIT, or somebody else has this one.
        HitChanged: the participant has begun with another HIT, and this may be somebody else.
    """
    if is_of_another(session, participant, hit):
        raise HitRefused("somebody else works on this HIT")
    current = session.get(WorkedHit, participant.id)
    if current is not None and current.assignment_id == hit.assignment_id:
        return
    if has_ended(session, participant):
        raise HitRefused("you have taken part with another HIT")
    if participant.consented_at is not None and not has_ticket:
        raise HitChanged("you have begun with another HIT")
    current = current or WorkedHit(participant_id=participant.id)
    current.assignment_id, current.hit_id = hit.assignment_id, hit.hit_id
    current.submit_to = hit.submit_to
    session.add(current)
    session.flush()


def has_ended(session: Session, participant: Participant) -> bool:
    """Whether nothing is left to answer, or the HIT that is recorded may be sent already."""
    progress = steps_of(session, participant)
    stage = stage_of(session, participant, progress)
    completion = completion_of(session, participant, stage, progress.answered)
    return stage not in UNFINISHED_STAGES or bool(completion.get("hit"))


def is_of_another(session: Session, participant: Participant, hit: Hit) -> bool:
    """Whether somebody else in the study works on this HIT, or has sent it."""
    others = (
        select(WorkedHit.participant_id)
        .join(Participant, WorkedHit.participant_id == Participant.id)
        .where(
            Participant.study_id == participant.study_id,
            Participant.id != participant.id,
            WorkedHit.assignment_id == hit.assignment_id,
        )
    )
    return session.scalar(others.limit(1)) is not None
