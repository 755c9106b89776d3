"""The audit log: recording entries with their objects, and writing them as CSV and JSON lines."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from io import StringIO
from typing import Any

from sqlalchemy import Select, delete, func, or_, select
from sqlalchemy.orm import Session

from hsfiq.actors import Action, Actor, Outcome
from hsfiq.db.tables import AuditEntry
from hsfiq.text import spreadsheet_text

# Writing, reading and pruning the audit log. Entries are never changed.
#
# They form no chain of digests: each writer would have to wait until the one before has committed,
# and anybody who can change the table could compute the digests again.


def record(
    session: Session,
    actor: Actor,
    action: Action,
    *,
    study: str | None = None,
    about: str = "",
    outcome: Outcome = Outcome.DONE,
) -> None:
    """Add an entry in the transaction of the action itself.

    `study` is a study's name, None if the action concerns all of the database. `about` names other
    objects: pseudonyms, ids in releases, counts; never secrets or personal data.
    """
    entry = AuditEntry(
        at=datetime.now(UTC),
        actor=actor.name,
        action=action,
        study=study,
        about=about,
        outcome=outcome,
    )
    session.add(entry)
    session.flush()


@dataclass(frozen=True, slots=True)
class Selection:
    """Entries of a study, since a time, or of an actor; None selects all.

    `with_general` adds entries about no study to those of `study`.
    """

    study: str | None = None
    since: datetime | None = None
    actor: str | None = None
    with_general: bool = False

    def query(self) -> Select[AuditEntry]:
        query = select(AuditEntry)
        if self.study is not None:
            of_study = AuditEntry.study == self.study
            general = AuditEntry.study.is_(None)
            query = query.where(or_(of_study, general) if self.with_general else of_study)
        if self.since is not None:
            query = query.where(AuditEntry.at >= self.since)
        if self.actor is not None:
            query = query.where(AuditEntry.actor == self.actor)
        return query


def entries(session: Session, selection: Selection) -> Sequence[AuditEntry]:
    """The selected entries, oldest first."""
    return session.scalars(selection.query().order_by(AuditEntry.at, AuditEntry.id)).all()


def newest_entries(
    session: Session, selection: Selection, limit: int, skipped: int = 0
) -> Sequence[AuditEntry]:
    """The last of the selected entries, but for the `skipped` newest ones; newest first."""
    newest = selection.query().order_by(AuditEntry.at.desc(), AuditEntry.id.desc())
    return session.scalars(newest.limit(limit).offset(skipped)).all()


def last_time(session: Session, action: Action, study: str | None = None) -> datetime | None:
    """The time of the last such action; for one study, if named."""
    times = select(func.max(AuditEntry.at)).where(AuditEntry.action == action)
    return session.scalar(times if study is None else times.where(AuditEntry.study == study))


def last_actor(session: Session, action: Action, study: str) -> str | None:
    """The actor of the last such action on a study."""
    done = AuditEntry.action == action, AuditEntry.study == study
    actors = select(AuditEntry.actor).where(*done).order_by(AuditEntry.id.desc())
    return session.scalar(actors.limit(1))


def count_entries(session: Session, selection: Selection) -> int:
    return session.scalar(select(func.count()).select_from(selection.query().subquery())) or 0


def count_deleted_with_answers(session: Session, study: str) -> int:
    """The number of deleted studies of this name with answers, by the entries."""
    deleted = select(func.count()).where(
        AuditEntry.action == Action.STUDY_DELETE,
        AuditEntry.study == study,
        AuditEntry.about.not_like("0 answers %"),
    )
    return session.scalar(deleted) or 0


def prune(session: Session, actor: Actor, before: datetime) -> int:
    """Delete the entries before a time, and record the deletion; return their number."""
    old = AuditEntry.at < before
    number = session.scalar(select(func.count()).select_from(AuditEntry).where(old)) or 0
    session.execute(delete(AuditEntry).where(old))
    about = f"{number} entries before {before.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
    record(session, actor, Action.AUDIT_PRUNE, about=about)
    return number


def facts(entry: AuditEntry) -> dict[str, Any]:
    """An entry as printed and exported; the time is UTC in ISO 8601."""
    return {
        "at": entry.at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "actor": entry.actor,
        "action": entry.action,
        "study": entry.study,
        "about": entry.about,
        "outcome": entry.outcome,
    }


# Entries of the audit log as CSV and as JSON lines.

COLUMNS = ("at", "actor", "action", "study", "about", "outcome")


def csv_file(entries: Iterable[AuditEntry]) -> bytes:
    """Spreadsheets take no cell for a formula; see `spreadsheet_text`."""
    content = StringIO()
    writer = csv.writer(content, lineterminator="\n")
    writer.writerow(COLUMNS)
    for entry in entries:
        row = facts(entry)
        writer.writerow([spreadsheet_text(row[column] or "") for column in COLUMNS])
    return content.getvalue().encode()


def json_lines(entries: Iterable[AuditEntry]) -> bytes:
    lines = (json.dumps(facts(entry), ensure_ascii=False) for entry in entries)
    return "".join(f"{line}\n" for line in lines).encode()


FORMATS: Mapping[str, Callable[[Iterable[AuditEntry]], bytes]] = {
    "csv": csv_file,
    "jsonl": json_lines,
}
"""By the ending of a file's name."""
