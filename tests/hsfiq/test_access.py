"""Accounts that are changed from two places at the same time."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from datetime import timedelta

import pytest
from sqlalchemy.orm import Session

from hsfiq.access import (
    account_of_link,
    find_account,
    invite,
    log_in,
    owner_password,
    reset,
    set_owner_password,
    set_password,
    user_of_login,
)
from hsfiq.actors import Role
from hsfiq.db.engine import Database
from hsfiq.errors import Conflict
from tests.studies import NOW

LATER = NOW + timedelta(days=7)


class Meanwhile:
    """A change by another process, which begins within a transaction, and ends when it can."""

    def __init__(self, other: Database, change: Callable[[Session], str]) -> None:
        self._other, self._change = other, change
        self._pool = ThreadPoolExecutor(1)

    def start(self) -> None:
        self._running = self._pool.submit(self._perform)
        wait([self._running], timeout=0.3)

    def _perform(self) -> str:
        with self._other.writing() as session:
            return self._change(session)

    def result(self) -> str:
        self._pool.shutdown()
        return self._running.result()


def reset_kim(session: Session) -> str:
    return reset(session, "kim", LATER)


def test_no_login_outlives_a_reset(database: Database, other: Database) -> None:
    with database.writing() as session:
        token = invite(session, "kim", Role.ANALYST, LATER)
        account = account_of_link(session, token, NOW)
        assert account is not None
        set_password(session, account, "hash")
    resetting = Meanwhile(other, reset_kim)
    with database.writing() as session:
        account = find_account(session, "kim", lock=True)
        assert account is not None
        resetting.start()
        login = log_in(session, account, NOW)
    assert resetting.result()
    with database.reading() as session:
        assert user_of_login(session, login, NOW) is None


def test_a_password_that_is_set_during_a_reset_is_forgotten(
    database: Database, other: Database
) -> None:
    with database.writing() as session:
        token = invite(session, "kim", Role.ANALYST, LATER)
    resetting = Meanwhile(other, reset_kim)
    with database.writing() as session:
        account = account_of_link(session, token, NOW, lock=True)
        assert account is not None
        resetting.start()
        set_password(session, account, "hash")
    assert resetting.result()
    with database.reading() as session:
        account = find_account(session, "kim")
        assert account is not None
        assert account.password is None


def test_a_name_that_is_invited_twice_at_once_is_a_conflict(
    database: Database, other: Database
) -> None:
    inviting = Meanwhile(other, lambda session: invite(session, "kim", Role.HELPER, LATER))
    with database.writing() as session:
        invite(session, "kim", Role.ANALYST, LATER)
        inviting.start()
    with pytest.raises(Conflict, match="account kim already exists"):
        inviting.result()


def test_of_two_first_passwords_of_the_owner_the_later_counts(
    database: Database, other: Database
) -> None:
    def set_second(session: Session) -> str:
        set_owner_password(session, "second")
        return "set"

    setting = Meanwhile(other, set_second)
    with database.writing() as session:
        set_owner_password(session, "first")
        setting.start()
    assert setting.result() == "set"
    with database.reading() as session:
        assert owner_password(session) == "second"
