"""What a participant's page sends to Mechanical Turk at the end."""

from __future__ import annotations

from sqlalchemy import select
from sqlalchemy.orm import Session

from hsfiq.collect.outcomes.protocol import HitForm
from hsfiq.db.tables import Participant, WorkedHit
from hsfiq.study.completion import Outcome
from hsfiq.study.recruiting.mechanical_turk import SUBMIT_PATH


def hit_form(
    session: Session, participant: Participant, outcome: Outcome, code: str
) -> HitForm | None:
    """The form of the participant's HIT; None if they do not work on any.

    `outcome` is always among its fields, because an assignment without any answer may be refused.
    """
    if participant.source != "mturk":
        return None
    # In a preview, nobody is stored: the id is null.
    hit = session.scalars(
        select(WorkedHit).where(WorkedHit.participant_id == participant.id)
    ).one_or_none()
    if hit is None:
        return None
    fields = {"assignmentId": hit.assignment_id, "outcome": outcome}
    if code:
        fields["completionCode"] = code
    return {"action": f"{hit.submit_to}{SUBMIT_PATH}", "fields": fields}
