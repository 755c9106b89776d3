"""Personal invitation links, written to a CSV file that only its owner can read."""

from __future__ import annotations

import csv
import os
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from hsfiq.actors import Action, Actor
from hsfiq.audit import record
from hsfiq.collect.leases import DEPARTED_STATUSES
from hsfiq.collect.participants import invite
from hsfiq.collect.recruiting.places import count_taking_part, quotas_of
from hsfiq.collect.studies import find_study, require_unfinished
from hsfiq.db.engine import Database
from hsfiq.db.tables import Participant, Study
from hsfiq.errors import Refused
from hsfiq.study.capacity import capacity_of
from hsfiq.study.config import config_of
from hsfiq.text import count_text


def write_invitations(
    database: Database,
    actor: Actor,
    study: str,
    count: int,
    url: str,
    path: Path,
    *,
    language: str | None = None,
) -> None:
    """Add participants to a study and write their links to a new CSV file: participant, link.

    The file is written within the transaction, so there are no invitations without their links.
    `actor` is who invites them, `url` the app's public address, `language` that of the invited, if
    it is known.
    """
    with ExitStack() as undo:
        with database.writing() as session:
            row = find_study(session, study)
            if row is None:
                raise Refused(f"there is no study {study!r}")
            require_unfinished(row)
            invited = invite(session, row.id, count, now=datetime.now(UTC), language=language)
            about = count_text(count, "invitation")
            record(session, actor, Action.STUDY_INVITE, study=study, about=about)
            # Whoever has a link can answer as that participant.
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            undo.callback(path.unlink)
            with os.fdopen(handle, "w", newline="", encoding="utf-8") as file:
                writer = csv.writer(file)
                writer.writerow(["participant", "link"])
                writer.writerows([p.name, f"{url.rstrip('/')}/start/{p.token}"] for p in invited)
        undo.pop_all()


@dataclass(frozen=True, slots=True)
class InvitationPlaces:
    """How many participants can still begin, and how many invitations have not been followed."""

    study: str
    free: int
    waiting: int

    def warnings(self) -> list[str]:
        if self.waiting <= self.free:
            return []
        warning = (
            f"study {self.study} has places for {self.free:,} more participants, and "
            f"{self.waiting:,} invitations wait to be followed: who comes last finds it full"
        )
        return [warning]


def places_for_invitations(session: Session, study: Study, now: datetime) -> InvitationPlaces:
    """Count the places as they are now; unfinished participants may leave theirs later."""
    waiting = session.scalar(
        select(func.count(Participant.id)).where(
            Participant.study_id == study.id,
            Participant.source == "invitation",
            Participant.enrolled_at.is_(None),
            Participant.status.not_in(DEPARTED_STATUSES),
        )
    )
    unassigned = capacity_of(session, study).unassigned
    for count in quotas_of(session, study, now):
        left = max(0, count.quota - count.taking_part)
        unassigned[count.category] = min(left, unassigned[count.category])
    free, cap = unassigned.total(), config_of(study).recruitment.participants
    if cap:
        free = min(free, max(0, cap - count_taking_part(session, study, now)))
    return InvitationPlaces(study.name, free, waiting or 0)
