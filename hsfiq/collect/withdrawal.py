"""Withdrawal on the page: deletion from the tables and from the database's files."""

from __future__ import annotations

from contextlib import AbstractContextManager, suppress
from datetime import UTC, datetime, timedelta
from functools import partial

from sqlalchemy import func, select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from hsfiq.actors import Action, Actor
from hsfiq.audit import record as record_action
from hsfiq.collect.owner import PERSONAL_TABLES, forget
from hsfiq.collect.participants import WITHDREW, record_status_change
from hsfiq.db.engine import Database
from hsfiq.db.source_tables import Setting
from hsfiq.db.tables import Form, Participant, Question, Response
from hsfiq.errors import Unavailable
from hsfiq.signals import repeated

ERASURE = "rows-to-erase-since"
"""The setting with the time from which the database's files may hold deleted rows."""

ERASED_AFTER = timedelta(hours=1)
"""Rewriting the files stops other writes, so all withdrawals of an hour share it."""

CHECKING_SECONDS = 60.0


def count_answered(session: Session, participant: int) -> int:
    """How many questions a participant has answered, checks included."""
    answered = (
        select(func.count(func.distinct(Response.question_id)))
        .join(Question, Response.question_id == Question.id)
        .join(Form, Question.form_id == Form.id)
        .where(Form.participant_id == participant)
    )
    return session.scalar(answered) or 0


def withdraw(session: Session, participant: Participant, now: datetime) -> None:
    """Forget a participant of a locked study who has withdrawn, and record the withdrawal."""
    name, study = participant.name, participant.study
    forget(session, participant)
    status = participant.status
    record_status_change(session, participant.id, status, status, now, reason=WITHDREW)
    actor = Actor(f"participant {name}")
    record_action(session, actor, Action.PARTICIPANT_WITHDRAW, study=study.name, about=name)
    erase_later(session, now)


def erase_later(session: Session, now: datetime) -> str:
    """Note that the files may hold deleted rows, which a server erases; return since when."""
    setting = session.get(Setting, ERASURE) or Setting(key=ERASURE, value=now.isoformat())
    session.add(setting)
    session.flush()
    return setting.value


def erase_withdrawn(database: Database, now: datetime) -> None:
    """Rewrite the files if somebody withdrew an hour ago; if that fails, try again in an hour."""
    with suppress(SQLAlchemyError, Unavailable):
        with database.reading() as session:
            due = session.get(Setting, ERASURE)
        # A time in the future is from before the clock was set back.
        if due is None or abs(now - datetime.fromisoformat(due.value)) < ERASED_AFTER:
            return
        erase(database, due.value, now)


def erase(database: Database, due: str, now: datetime) -> bool:
    """Rewrite the files that may hold rows deleted since `due`; return whether that was done."""
    is_erased = database.erase_deleted_rows(PERSONAL_TABLES)
    with database.writing() as session:
        setting = session.get(Setting, ERASURE)
        if setting is not None and setting.value == due:
            if is_erased:
                session.delete(setting)
            else:
                setting.value = now.isoformat()
    return is_erased


def erase_now(database: Database) -> None:
    erase_withdrawn(database, datetime.now(UTC))


def regular_erasure(
    database: Database, seconds: float = CHECKING_SECONDS
) -> AbstractContextManager[None]:
    """Within the block, rewrite the database's files within an hour after a withdrawal."""
    return repeated(partial(erase_now, database), seconds, "erasure")
