"""Messages from the owner to participants, and their read receipts.

Each message has a row for each recipient, which records whether the recipient has read it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from functools import cache
from typing import Any

from sqlalchemy import Row, Select, bindparam, delete, func, select, update
from sqlalchemy.orm import Session

from hsfiq.collect.leases import DEPARTED_STATUSES
from hsfiq.collect.participant_row import ParticipantRow
from hsfiq.collect.studies import require_unfinished
from hsfiq.db.engine import added
from hsfiq.db.rows import rows_of
from hsfiq.db.tables import Message, MessageRecipient, Participant, Study
from hsfiq.errors import Conflict, Refused
from hsfiq.text import is_storable_text

LONGEST_MESSAGE = 5_000
"""Characters."""

LATELY = timedelta(minutes=10)  # the same message again is the one whose reply was lost

LARGEST_KEY = 2**31 - 1
"""The largest number that databases accept; a page may send any number."""


def send_message(
    session: Session, study: Study, text: str, *, to: Participant | None, now: datetime
) -> int:
    """Store a message to one or all current participants; return the number of recipients.

    Later participants and participants who have left do not get the message.

    Raises:
        Refused: the text is empty, too long or cannot be stored, or there are no recipients.
    """
    require_unfinished(study)
    require_message(text)
    same = Message.text == text.strip(), Message.participant_id.is_not_distinct_from(to and to.id)
    since = Message.study_id == study.id, Message.sent_at > now - LATELY
    if session.scalar(select(Message.id).where(*same, *since)):
        raise Conflict("this message has just been sent")
    if to is None:
        taking_part = select(Participant.id).where(
            Participant.study_id == study.id,
            Participant.enrolled_at.is_not(None),
            Participant.status.not_in(DEPARTED_STATUSES),
        )
        recipients = session.scalars(taking_part.order_by(Participant.id)).all()
    else:
        recipients = [to.id]
    if not recipients:
        raise Refused(
            f"study {study.name}: the message has no recipients, since nobody takes part yet"
        )
    message = added(
        session,
        Message(
            study_id=study.id, participant_id=to.id if to else None, text=text.strip(), sent_at=now
        ),
    )
    session.add_all(
        MessageRecipient(message_id=message.id, participant_id=recipient)
        for recipient in recipients
    )
    session.flush()
    return len(recipients)


def take_back(session: Session, to: Participant, sent_at: datetime | None = None) -> None:
    """Delete the last message to one participant alone; `Refused` if they have read it."""
    sent = select(Message).where(Message.participant_id == to.id).order_by(Message.id.desc())
    if sent_at is not None:
        sent = sent.where(Message.sent_at == sent_at)
    message = session.scalars(sent.limit(1)).one_or_none()
    if message is None:
        return
    recipient = session.get_one(MessageRecipient, (message.id, to.id))
    if recipient.seen_at is not None:
        raise Refused(f"{to.name} has already read the message")
    session.delete(recipient)
    session.flush()
    session.delete(message)


def require_message(text: str) -> None:
    if not text.strip():
        raise Refused("the message is empty")
    if len(text) > LONGEST_MESSAGE:
        raise Refused(f"the message is longer than {LONGEST_MESSAGE:,} characters")
    if not is_storable_text(text):
        raise Refused("the message has characters that cannot be stored")


def unread_messages(session: Session, participant: ParticipantRow) -> Sequence[Row[int, str]]:
    """The `id` and `text` of the messages that a participant has not closed yet, oldest first."""
    if not participant.has_unread_messages:
        return []
    return rows_of(session, _unread(), {"participant": participant.id}).all()


@cache  # building it takes as long as running it, and every page needs it
def _unread() -> Select[int, str]:
    return (
        select(Message.id, Message.text)
        .join(MessageRecipient, MessageRecipient.message_id == Message.id)
        .where(
            MessageRecipient.participant_id == bindparam("participant"),
            MessageRecipient.seen_at.is_(None),
        )
        .order_by(Message.id)
    )


def mark_seen(session: Session, participant: int, messages: Sequence[int], now: datetime) -> None:
    """Record when a participant first closed these messages; those of others are left alone."""
    possible = [message for message in messages if 0 < message <= LARGEST_KEY]
    session.execute(
        update(MessageRecipient)
        .where(
            MessageRecipient.participant_id == participant,
            MessageRecipient.message_id.in_(possible),
            MessageRecipient.seen_at.is_(None),
        )
        .values(seen_at=now)
    )


def forget_messages(session: Session, participant: Participant) -> None:
    """Delete a participant's individual messages and read receipts."""
    session.execute(
        delete(MessageRecipient).where(MessageRecipient.participant_id == participant.id)
    )
    session.execute(delete(Message).where(Message.participant_id == participant.id))


@dataclass(frozen=True, slots=True)
class SentMessage:
    """A message for the owner's view; `participant` is None if the message was sent to all."""

    participant: str | None
    text: str
    sent_at: datetime
    recipients: int
    seen: int

    def facts(self) -> dict[str, Any]:
        return asdict(self) | {"sent_at": self.sent_at.isoformat()}


def sent_messages(session: Session, study: Study) -> list[SentMessage]:
    """The study's messages, newest first."""
    rows = session.execute(
        select(
            Message,
            Participant.name,
            func.count(MessageRecipient.participant_id),
            func.count(MessageRecipient.seen_at),
        )
        .outerjoin(Participant, Message.participant_id == Participant.id)
        .outerjoin(MessageRecipient, MessageRecipient.message_id == Message.id)
        .where(Message.study_id == study.id)
        .group_by(Message.id, Participant.name)
        .order_by(Message.id.desc())
    )
    return [
        SentMessage(name, message.text, message.sent_at, recipients, seen)
        for message, name, recipients, seen in rows
    ]
