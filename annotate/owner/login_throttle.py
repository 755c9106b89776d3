"""Slows down password guessing: each attempt of a client waits longer than the one before.

Clients that go on guessing also wait for each other where they name the same account.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import ceil

from sqlalchemy import ColumnElement, delete, func, select, text
from sqlalchemy.orm import Session

from hsfiq.annotate.cookies import Signer
from hsfiq.annotate.serving.clients import network_of
from hsfiq.db.engine import Database
from hsfiq.db.source_tables import LoginAttempts

FIRST_DELAY, LONGEST_DELAY = 0.25, 5.0
"""Seconds before a client's second attempt, doubled for each after it, and the maximum."""

OWN_ATTEMPTS = 3
"""So many attempts of a client never wait for others', so that nobody is locked out by others."""

NAME_DELAY = 1.0
"""Seconds between two attempts for one account by clients that have made more."""

LONGEST_QUEUE = 20.0
RETRY_AFTER = ceil(LONGEST_QUEUE)
"""Seconds after which all waiting attempts of a refused client have been made."""

FORGET_AFTER = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class Queue:
    """The attempts of one client, or those of several clients for one account."""

    key: str
    first_delay: float
    longest_delay: float


class LoginThrottle:
    """A queue for each client, and one for each name of an account, whether it exists or not.

    The queues are in the database: a client that reaches several processes or hosts is no faster
    than with one. They are identified by keyed digests of addresses and names, which are not
    stored.
    """

    def __init__(self, database: Database, signer: Signer) -> None:
        self._database, self._signer = database, signer

    def delay_for(self, address: str, name: str) -> float | None:
        """Seconds to wait before this attempt, None if too many are waiting in its queues.

        An attempt counts as failed until its password has been checked, so simultaneous ones wait
        too.
        """
        with self._database.reading() as session:  # a refused flood writes and locks nothing
            now = time_of(session)
            queues = self._queues(session, address, name, now)
            if any(wait_of(attempts, now) is None for attempts in queues.values()):
                return None
        with self._database.writing() as session:
            lock_attempts(session)
            now = time_of(session)
            forget_old(session, now)
            queues = self._queues(session, address, name, now)
            waits = {queue: wait_of(attempts, now) for queue, attempts in queues.items()}
            seconds = [wait for wait in waits.values() if wait is not None]
            if len(seconds) < len(waits):
                return None
            for (queue, attempts), wait in zip(queues.items(), seconds, strict=True):
                add_attempt(session, queue, attempts, now, wait)
            return max(seconds)

    def _queues(
        self, session: Session, address: str, name: str, now: datetime
    ) -> dict[Queue, LoginAttempts | None]:
        """The queues in which an attempt waits, with the attempts before it."""
        client = Queue(self._client(address), FIRST_DELAY, LONGEST_DELAY)
        attempts = attempts_of(session, client.key, now)
        queues = {client: attempts}
        if attempts is not None and attempts.delay >= FIRST_DELAY * 2 ** (OWN_ATTEMPTS - 1):
            key = self._signer.derive("name at login", name)
            account = Queue(key, NAME_DELAY, NAME_DELAY)
            queues[account] = attempts_of(session, account.key, now)
        return queues

    def succeeded(self, address: str) -> None:
        """Take back what the client's last attempt added, because its password was right.

        Failures before it count on: otherwise somebody could log in to an account of their own
        between two guesses at another's password.
        """
        with self._database.writing() as session:
            lock_attempts(session)
            attempts = attempts_of(session, self._client(address), time_of(session))
            if attempts is None:
                return
            attempts.delay /= 2
            if attempts.delay < FIRST_DELAY:
                session.delete(attempts)

    def _client(self, address: str) -> str:
        return self._signer.derive("login", network_of(address))


def lock_attempts(session: Session) -> None:
    """Let no other process change attempts before the transaction ends; SQLite has one writer."""
    if session.get_bind().dialect.name == "postgresql":
        session.execute(text("LOCK TABLE login_attempts IN EXCLUSIVE MODE"))


def time_of(session: Session) -> datetime:
    """The time of PostgreSQL, because hosts may differ; SQLite has only one host."""
    if session.get_bind().dialect.name == "postgresql":
        theirs: datetime = session.execute(select(func.clock_timestamp())).scalar_one()
        return theirs
    return datetime.now(UTC)


def remembered(now: datetime) -> ColumnElement[bool]:
    """Whether attempts count; those in the future are from before the clock was set back."""
    return LoginAttempts.last_at.between(now - FORGET_AFTER, now)


def attempts_of(session: Session, key: str, now: datetime) -> LoginAttempts | None:
    in_queue = select(LoginAttempts).where(LoginAttempts.client == key, remembered(now))
    return session.scalars(in_queue).one_or_none()


def add_attempt(
    session: Session, queue: Queue, before: LoginAttempts | None, now: datetime, wait: float
) -> None:
    """Count an attempt that this queue lets wait for so many seconds."""
    delay = min(2 * before.delay, queue.longest_delay) if before else queue.first_delay
    free_at = now + timedelta(seconds=wait)
    session.merge(LoginAttempts(client=queue.key, delay=delay, last_at=now, free_at=free_at))


def forget_old(session: Session, now: datetime) -> None:
    session.execute(delete(LoginAttempts).where(~remembered(now)))


def wait_of(attempts: LoginAttempts | None, now: datetime) -> float | None:
    """Seconds before the next attempt in a queue, None if it is too long."""
    seconds = 0.0
    if attempts:
        seconds = max(0.0, (attempts.free_at - now).total_seconds()) + attempts.delay
    return seconds if seconds <= LONGEST_QUEUE else None
