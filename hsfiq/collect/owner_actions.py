"""What a study's owner changes: the status of the study or of a participant, and their data.

The dashboard and the command line both `prepare` an action, which records the status that the
owner saw, and perform it in a later transaction, which locks the row and refuses if the status has
changed since.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from sqlalchemy.orm import Session

from hsfiq.actors import Action, Actor
from hsfiq.audit import record as record_action
from hsfiq.collect.leases import end_lease
from hsfiq.collect.outcomes.status_changes import record
from hsfiq.collect.participants import Deleted, by_name, forget
from hsfiq.collect.recruiting.people import require_signable
from hsfiq.collect.recruiting.places import set_quotas
from hsfiq.collect.recruiting.unbegun import release_unbegun
from hsfiq.collect.studies import find_study, lock_study, require_unfinished
from hsfiq.db.engine import Database
from hsfiq.db.tables import Participant, Study
from hsfiq.errors import Conflict, Refused
from hsfiq.images.check import Track
from hsfiq.study.config import config_of, stored_recruitment
from hsfiq.study.extensions.extension import Added, MoreAnnotators, NewQueries, extend_study
from hsfiq.study.extensions.parts import extend_in_parts

STUDY_ACTIONS = {"open": "open", "pause": "paused", "close": "closed"}
"""The study's status after each action."""

PARTICIPANT_ACTIONS = {
    "pause": "paused",
    "resume": "active",
    "exclude": "excluded",
    "return": "returned",
    "screen-out": "screened-out",
    "forget": "returned",
    "reassign": None,
}
"""The participant's status after each action; None leaves it as it is."""


@dataclass(frozen=True, slots=True)
class OwnerAction:
    """An action on a study, or on one of its participants, that has not been performed yet.

    `participant` is None for an action on the study itself; `name` is a key of `STUDY_ACTIONS` or
    `PARTICIPANT_ACTIONS`; `status_seen` is the status when the action was prepared. `reason` is
    kept with the change of a participant's status.
    """

    study: str
    participant: str | None
    name: str
    status_seen: str
    reason: str = ""

    @property
    def status_after(self) -> str | None:
        return (STUDY_ACTIONS if self.participant is None else PARTICIPANT_ACTIONS)[self.name]

    @property
    def target(self) -> str:
        return self.participant or f"study {self.study}"

    @property
    def audit_name(self) -> Action:
        return Action(f"{'study' if self.participant is None else 'participant'}.{self.name}")


def prepare(
    study: Study, action: str, participant: Participant | None = None, reason: str = ""
) -> OwnerAction:
    """Describe an action with the status as it is now; `Refused` if the study does not allow it."""
    row = participant or study
    prepared = OwnerAction(
        study.name, participant.name if participant else None, action, row.status, reason
    )
    require_allowed(study, prepared)
    return prepared


def perform(session: Session, action: OwnerAction, actor: Actor) -> Deleted:
    """Perform an action in a writing transaction, and record it; return what it deleted.

    Raises:
        Conflict: the status is no longer the one that the owner saw.
        Refused: there is no such study or participant, or the study can take no more answers.
    """
    study = find_study(session, action.study)
    if study is None:
        raise Refused(f"there is no study {action.study[:80]!r}")
    require_allowed(study, action)
    if action.participant is None:
        lock_as_seen(session, study, action)
        study.status = STUDY_ACTIONS[action.name]
        deleted = Deleted()
    else:
        deleted = perform_on_participant(session, study, action.participant, action)
    record_action(
        session, actor, action.audit_name, study=study.name, about=action.participant or ""
    )
    return deleted


def perform_on_participant(
    session: Session, study: Study, name: str, action: OwnerAction
) -> Deleted:
    if action.name == "forget":
        lock_study(session, study.id)  # a release of it may be about to be recorded
    participant = by_name(session, study, name)
    lock_as_seen(session, participant, action)
    if action.name == "forget":
        return forget(session, participant)
    if action.status_after is None:
        end_lease(participant)
    else:
        now = datetime.now(UTC)
        record(session, participant, action.status_after, now, reason=action.reason)
    return Deleted()


def extend(
    session: Session, study: Study, wanted: MoreAnnotators | NewQueries, now: datetime
) -> Added:
    """Add forms to a study in a writing transaction; its lock also puts enrolments in order.

    Raises:
        Refused: the study can take no more answers, or there is nothing to add.
    """
    locked = lock_study(session, study.id)
    require_unfinished(locked)
    return extend_study(session, locked, wanted, now)


def extend_while_running(
    database: Database,
    actor: Actor,
    study_of: Callable[[Session], Study],
    wanted: MoreAnnotators | NewQueries,
    now: datetime,
    track: Track = iter,
) -> Added:
    """Add forms to a study as `extend` does, in short transactions; `study_of` finds the study.

    The images of new pairs are checked; `track` iterates over them, for a progress bar.
    """

    def unfinished(session: Session) -> Study:
        study = study_of(session)
        require_unfinished(study)
        return study

    def lock(session: Session) -> Study:
        return lock_study(session, unfinished(session).id)

    return extend_in_parts(
        database, actor, wanted, now, study_of=unfinished, lock=lock, track=track
    )


def change_quotas(session: Session, study: Study, quotas: Mapping[str, int]) -> None:
    """Set quotas in a writing transaction; the lock puts enrolments in order.

    Raises:
        ConfigError: the study has no such category, or too few forms of it.
    """
    locked = lock_study(session, study.id)
    require_unfinished(locked)
    set_quotas(session, locked, quotas)


def change_enrolment(session: Session, study: Study, changes: Mapping[str, Any]) -> None:
    """Change rules of `[recruitment]` for who may begin; the lock puts enrolments in order."""
    locked = lock_study(session, study.id)
    require_unfinished(locked)
    recruitment = replace(config_of(locked).recruitment, **changes)
    if recruitment.signed_links and "signed_links" in changes:
        require_signable(locked)
    locked.design = locked.design | {"recruitment": stored_recruitment(recruitment)}
    session.flush()


def release_places(
    session: Session, study: Study, now: datetime, minutes: int | None = None
) -> list[str]:
    """Give back the places that nobody began; see `release_unbegun`."""
    locked = lock_study(session, study.id)
    require_unfinished(locked)
    return release_unbegun(session, locked, now, minutes)


def require_allowed(study: Study, action: OwnerAction) -> None:
    if action.participant is None or action.name == "reassign":
        require_unfinished(study)


def lock_as_seen(session: Session, row: Study | Participant, action: OwnerAction) -> None:
    """Lock the row that an action changes; raise `Conflict` unless its status is the one seen."""
    session.refresh(row, ["status"], with_for_update=True)
    if row.status != action.status_seen:
        raise Conflict(
            f"{action.target} is now {row.status}, no longer {action.status_seen}",
            remedy="try again",
        )
