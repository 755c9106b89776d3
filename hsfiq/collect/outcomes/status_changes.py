"""The recorded changes of participants' status: by the owner, or by the rule about checks."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Select, func, select
from sqlalchemy.orm import Session

from hsfiq.collect.review.people_shown import Shown, among
from hsfiq.db.rows import AnyParticipant
from hsfiq.db.tables import Participant, StatusChange, Study
from hsfiq.errors import Refused
from hsfiq.text import is_storable_text

LONGEST_REASON = 1000

WITHDREW = "withdrew on the page, and all data were deleted"
"""The recorded reason of a participant who has withdrawn."""


def record(
    session: Session,
    participant: AnyParticipant,
    status: str,
    now: datetime,
    *,
    reason: str = "",
    rule: dict[str, Any] | None = None,
) -> None:
    """Set a locked participant's status and record the change; without `rule` it is the owner's."""
    if len(reason) > LONGEST_REASON or not is_storable_text(reason):
        what = f"the reason must be text of {LONGEST_REASON:,} characters or fewer"
        raise Refused(what)
    session.add(
        StatusChange(
            participant_id=participant.id,
            changed_at=now,
            before=participant.status,
            after=status,
            reason=reason or None,
            rule=rule,
        )
    )
    participant.status = status
    session.flush()


def changes_of(session: Session, participant: AnyParticipant) -> Sequence[StatusChange]:
    """A participant's changes, oldest first."""
    return session.scalars(
        select(StatusChange)
        .where(StatusChange.participant_id == participant.id)
        .order_by(StatusChange.id)
    ).all()


def latest_changes(
    session: Session, study: Study, shown: Shown | None = None
) -> dict[int, StatusChange]:
    """The latest change of each of the participants who have any, by database key.

    Of all participants of the study, or of those whose keys are `shown`.
    """
    rows = session.scalars(
        select(StatusChange)
        .join(Participant, StatusChange.participant_id == Participant.id)
        .where(Participant.study_id == study.id, among(Participant.id, shown))
        .order_by(StatusChange.id)
    )
    return {change.participant_id: change for change in rows}


def withdrawn_participants() -> Select[int]:
    """The database keys of participants whose latest change is that they withdrew."""
    latest = select(func.max(StatusChange.id)).group_by(StatusChange.participant_id)
    return select(StatusChange.participant_id).where(
        StatusChange.reason == WITHDREW, StatusChange.id.in_(latest)
    )


def stopped_by_checks(session: Session, participant: AnyParticipant) -> bool:
    """Whether the rule about checks gave the participant the status that they have."""
    changes = changes_of(session, participant)
    if not changes:
        return False
    return changes[-1].rule is not None and changes[-1].after == participant.status


def rule_text(change: StatusChange | None) -> str | None:
    """What the rule about checks counted; None if the change is not of that rule."""
    if change is None or change.rule is None:
        return None
    return f"failed checks: {change.rule['failed']}, limit {change.rule['limit']}"


def cause_of(change: StatusChange | None, status: str) -> str | None:
    """Why a participant has this status, for the owner; None if nothing is recorded."""
    if change is None or change.after != status:
        return None
    return rule_text(change) or change.reason
