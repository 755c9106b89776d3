"""Logins of accounts, in the database: what ends one ends it in every process at once."""

from __future__ import annotations

from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, and_, delete, not_, select
from sqlalchemy.orm import Session

from hsfiq.access.accounts import account_name, find_account
from hsfiq.access.roles import Role, User
from hsfiq.db.source_tables import Account, Login
from hsfiq.db.types import digest_of, new_token

LOGIN_DURATION = timedelta(hours=12)

HOSTS_DIFFER = timedelta(minutes=5)
"""By at most this much may the clocks of hosts that serve one database differ."""


def log_in(session: Session, account: Account, now: datetime) -> str:
    """The token of a new login; logins that are not valid are deleted."""
    session.execute(delete(Login).where(not_(is_valid(now))))
    token, ends = new_token(), now + LOGIN_DURATION
    session.add(Login(token_hash=digest_of(token), account_id=account.id, expires_at=ends))
    session.flush()
    return token


def is_valid(now: datetime) -> ColumnElement[bool]:
    """Whether a login has not ended, and was not made while the clock was ahead."""
    latest = now + LOGIN_DURATION + HOSTS_DIFFER
    return and_(Login.expires_at > now, Login.expires_at <= latest)


def log_out(session: Session, token: str) -> None:
    session.execute(delete(Login).where(Login.token_hash == digest_of(token)))


def user_of_login(session: Session, token: str, now: datetime) -> User | None:
    """Whose login it is; None if it is not valid or the account is disabled."""
    valid = (
        select(Account)
        .join(Login, Login.account_id == Account.id)
        .where(Login.token_hash == digest_of(token), is_valid(now))
    )
    return user_of(session.scalars(valid).one_or_none())


def user_named(session: Session, name: str) -> User | None:
    """The user whose account has this name, unless it is disabled."""
    return user_of(find_account(session, account_name(name)))


def user_with_id(session: Session, account_id: int) -> User | None:
    return user_of(session.get(Account, account_id))


def user_of(account: Account | None) -> User | None:
    if account is None or account.is_disabled:
        return None
    return User(account.name, Role(account.role), account.id)
