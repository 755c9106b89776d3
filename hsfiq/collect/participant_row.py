"""A participant as a row: read with their study in one statement, for all that a page shows.

ORM objects are slower, so they are loaded only if more than a row's columns change.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from typing import Any

from sqlalchemy import Select, Text, Update, bindparam, cast, select, update
from sqlalchemy.orm import Session

from hsfiq.db.rows import execute, rows_of
from hsfiq.db.tables import MessageRecipient, Participant, Study
from hsfiq.study.config import StudyConfig, config_of, config_of_columns

ANSWER_COUNTS = ("n_painted", "n_not_painted", "n_painting_unknown", "n_skipped")
CHANGED_BY_ANSWERS = ("status", "seen_at", *ANSWER_COUNTS, "n_revisions")
CHANGED_BY_PAGES = ("language", "practised_at", *CHANGED_BY_ANSWERS)


@dataclass(frozen=True, slots=True)
class StudyRow:
    """What pages need of a stored study."""

    config: StudyConfig
    id: int
    title: str
    status: str
    origin: str
    kind: str
    ties_allowed: bool
    text_version: int | None

    @classmethod
    def of(cls, study: Study) -> StudyRow:
        return cls(config_of(study), *(getattr(study, column.key) for column in STUDY_COLUMNS))


@dataclass(slots=True)
class ParticipantRow:
    """A participant; `store` writes the changes. `id` 0 means not stored."""

    study: StudyRow
    id: int
    token_hash: str
    name: str
    source: str
    status: str
    language: str | None
    external_id: str | None = None
    platform_study_id: str | None = None
    platform_session_id: str | None = None
    enrolled_at: datetime | None = None
    consented_at: datetime | None = None
    practised_at: datetime | None = None
    seen_at: datetime | None = None
    n_painted: int = 0
    n_not_painted: int = 0
    n_painting_unknown: int = 0
    n_skipped: int = 0
    n_revisions: int = 0
    has_unread_messages: bool = False
    _stored: dict[str, Any] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self._stored = self._changeable()

    def platform_ids(self) -> dict[str, str]:
        """The stored ids of a platform's link, as `Panel` names them."""
        ids = {
            "person": self.external_id,
            "study": self.platform_study_id,
            "session": self.platform_session_id,
        }
        return {name: value for name, value in ids.items() if value}

    def store(self, session: Session) -> None:
        """Write the columns that have changed, and no others: the row may not be locked."""
        now = self._changeable()
        changed = {name: value for name, value in now.items() if value != self._stored[name]}
        if changed:
            new = {f"new_{name}": value for name, value in changed.items()}
            execute(session, _changed(tuple(changed)), {"participant": self.id, **new})
            self._stored = now

    def _changeable(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in CHANGED_BY_PAGES}


def participant_row(session: Session, digest: str, *, lock: bool = False) -> ParticipantRow | None:
    """The participant whose token has this digest; with `lock`, locked before they are read."""
    row = rows_of(session, _locked_row() if lock else _row(), {"digest": digest}).one_or_none()
    if row is None:
        return None
    columns = tuple(row)
    of_config, of_study, own = columns[:N_CONFIG], columns[N_CONFIG:N_BOTH], columns[N_BOTH:]
    return ParticipantRow(StudyRow(config_of_columns(*of_config), *of_study), *own)


def read_row(session: Session, digest: str) -> ParticipantRow:
    """The row of a stored participant, such as after a change of the participant's object."""
    row = participant_row(session, digest)
    if row is None:
        raise LookupError("no participant has this token")
    return row


STUDY_COLUMNS = (
    *(Study.id, Study.title, Study.status, Study.origin, Study.kind, Study.ties_allowed),
    Study.text_version,
)
CONFIG_COLUMNS = (
    *(Study.name, Study.title, Study.guidelines, Study.consent, Study.platform_study_id),
    cast(Study.design, Text),
)
N_CONFIG = len(CONFIG_COLUMNS)
N_BOTH = N_CONFIG + len(STUDY_COLUMNS)


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
            *(*CONFIG_COLUMNS, *STUDY_COLUMNS),
            *(Participant.id, Participant.token_hash, Participant.name, Participant.source),
            *(Participant.status, Participant.language, Participant.external_id),
            *(Participant.platform_study_id, Participant.platform_session_id),
            *(Participant.enrolled_at, Participant.consented_at, Participant.practised_at),
            *(Participant.seen_at, Participant.n_painted, Participant.n_not_painted),
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
def _changed(names: tuple[str, ...]) -> Update:
    return (
        update(Participant)
        .where(Participant.id == bindparam("participant"))
        .values({name: bindparam(f"new_{name}") for name in names})
    )
