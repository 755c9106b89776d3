"""Statements on rows: executed at once, and a participant read with their study."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any, TypeVarTuple

from sqlalchemy import (
    CursorResult,
    Executable,
    Select,
    Text,
    Update,
    bindparam,
    cast,
    insert,
    select,
    update,
)
from sqlalchemy.orm import Session

from hsfiq.db.tables import (
    FurtherSet,
    MessageRecipient,
    Pair,
    Participant,
    Question,
    RetrievedImage,
    RetrievedSet,
    Study,
)

# Statements in SQLAlchemy Core: half the processor time of `Session.execute`, or less.

Columns = TypeVarTuple("Columns")


def rows_of(
    session: Session, statement: Select[*Columns], parameters: Mapping[str, Any]
) -> CursorResult[*Columns]:
    """The rows of a statement that selects columns; what the session has changed is written first.

    Keep the statement, for building one takes as long as running it.
    """
    return execute(session, statement, parameters)


def execute(
    session: Session,
    statement: Executable,
    parameters: Mapping[str, Any] | Sequence[Mapping[str, Any]],
) -> CursorResult[*tuple[Any, ...]]:
    """The same for any statement. Objects of the session do not see what it writes.

    Of several parameters, each is a row to insert.
    """
    session.flush()
    return session.connection().execute(statement, parameters)


# Statements that store rows, made once: making one takes as long as running it.

NEW_SETS = insert(RetrievedSet).returning(RetrievedSet.id, sort_by_parameter_order=True)
NEW_IMAGES = insert(RetrievedImage)
NEW_PAIRS = insert(Pair).returning(Pair.id, sort_by_parameter_order=True)
NEW_FURTHER_SETS = insert(FurtherSet)
NEW_QUESTIONS = insert(Question).returning(Question.id, sort_by_parameter_order=True)


# A participant with their study, read in one statement.


@dataclass(frozen=True, slots=True)
class StudyRow:
    """Columns of a `Study`. Two rows are equal if their columns are: what is derived can be kept.

    `design` is JSON.
    """

    id: int
    name: str
    title: str
    guidelines: str
    consent: str
    status: str
    kind: str
    ties_allowed: bool
    text_version: int | None
    platform_study_id: str | None
    design: str


@dataclass(slots=True)
class ParticipantRow:
    """Columns of a `Participant`; `store` writes those that answers change."""

    study: StudyRow
    id: int
    token_hash: str
    status: str
    language: str | None
    consented_at: datetime | None
    practised_at: datetime | None
    seen_at: datetime | None
    n_painted: int
    n_not_painted: int
    n_painting_unknown: int
    n_skipped: int
    n_revisions: int
    has_unread_messages: bool

    def store(self, session: Session) -> None:
        changed = {f"new_{name}": getattr(self, name) for name in CHANGED_BY_ANSWERS}
        execute(session, _changed(), {"participant": self.id, **changed})


AnyParticipant = Participant | ParticipantRow
AnyStudy = Study | StudyRow

N_STUDY = len(StudyRow.__dataclass_fields__)
ANSWER_COUNTS = ("n_painted", "n_not_painted", "n_painting_unknown", "n_skipped")
CHANGED_BY_ANSWERS = ("status", "seen_at", *ANSWER_COUNTS, "n_revisions")


def participant_row(session: Session, digest: str, *, lock: bool = False) -> ParticipantRow | None:
    """The participant whose token has this digest; with `lock`, locked before they are read."""
    row = rows_of(session, _locked_row() if lock else _row(), {"digest": digest}).one_or_none()
    if row is None:
        return None
    columns = tuple(row)
    return ParticipantRow(StudyRow(*columns[:N_STUDY]), *columns[N_STUDY:])


@cache
def _row() -> Select[*tuple[Any, ...]]:
    unread = (
        select(MessageRecipient.message_id)
        .where(
            MessageRecipient.participant_id == Participant.id, MessageRecipient.seen_at.is_(None)
        )
        .exists()
    )
    return (
        select(
            *(Study.id, Study.name, Study.title, Study.guidelines, Study.consent, Study.status),
            *(Study.kind, Study.ties_allowed, Study.text_version, Study.platform_study_id),
            cast(Study.design, Text),
            *(Participant.id, Participant.token_hash, Participant.status, Participant.language),
            *(Participant.consented_at, Participant.practised_at, Participant.seen_at),
            *(Participant.n_painted, Participant.n_not_painted),
            *(Participant.n_painting_unknown, Participant.n_skipped, Participant.n_revisions),
            unread,
        )
        .join(Study, Participant.study_id == Study.id)
        .where(Participant.token_hash == bindparam("digest"))
    )


@cache
def _locked_row() -> Select[*tuple[Any, ...]]:
    return _row().with_for_update(of=Participant)


@cache
def _changed() -> Update:
    return (
        update(Participant)
        .where(Participant.id == bindparam("participant"))
        .values({name: bindparam(f"new_{name}") for name in CHANGED_BY_ANSWERS})
    )
