"""Slows down password guessing: each attempt of a client waits longer than the one before."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from math import ceil

from sqlalchemy import ColumnElement, delete, func, select, text
from sqlalchemy.orm import Session

from hsfiq.annotate.cookies import Signer
from hsfiq.annotate.serving.clients import network_of
from hsfiq.db.engine import Database
from hsfiq.db.source_tables import LoginAttempts

FIRST_DELAY, LONGEST_DELAY = 0.25, 5.0
"""Seconds before the second attempt, doubled for each after it, and the maximum."""

LONGEST_QUEUE = 20.0
RETRY_AFTER = ceil(LONGEST_QUEUE)
"""Seconds after which all waiting attempts of a refused client have been made."""

FORGET_AFTER = timedelta(minutes=10)


class LoginThrottle:
    """A queue for each client, so that one client's attempts never delay another's.

    The queues are in the database: a client that reaches several processes or hosts is no faster
    than with one. Clients are identified by a keyed digest of their address, which is not stored.
    """

    def __init__(self, database: Database, signer: Signer) -> None:
        self._database, self._signer = database, signer

    def delay_for(self, address: str) -> float | None:
        """Seconds to wait before this attempt, None if too many of the client's are waiting.

        An attempt counts as failed until its password has been checked, so simultaneous ones wait
        too.
        """
        client = self._client(address)
        with self._database.reading() as session:  # a refused flood writes and locks nothing
            now = time_of(session)
            if wait_of(attempts_of(session, client, now), now) is None:
                return None
        with self._database.writing() as session:
            lock_attempts(session)
            now = time_of(session)
            forget_old(session, now)
            attempts = attempts_of(session, client, now)
            seconds = wait_of(attempts, now)
            if seconds is not None:
                delay = min(2 * attempts.delay, LONGEST_DELAY) if attempts else FIRST_DELAY
                free_at = now + timedelta(seconds=seconds)
                session.merge(
                    LoginAttempts(client=client, delay=delay, last_at=now, free_at=free_at)
                )
            return seconds

    def succeeded(self, address: str) -> None:
        """Take back what the last attempt added to the delay, because its password was right.

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


def attempts_of(session: Session, client: str, now: datetime) -> LoginAttempts | None:
    of_client = select(LoginAttempts).where(LoginAttempts.client == client, remembered(now))
    return session.scalars(of_client).one_or_none()


def forget_old(session: Session, now: datetime) -> None:
    session.execute(delete(LoginAttempts).where(~remembered(now)))


def wait_of(attempts: LoginAttempts | None, now: datetime) -> float | None:
    """Seconds before a client's next attempt, None if its queue is too long."""
    seconds = 0.0
    if attempts:
        seconds = max(0.0, (attempts.free_at - now).total_seconds()) + attempts.delay
    return seconds if seconds <= LONGEST_QUEUE else None
