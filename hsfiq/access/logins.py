"""Logins of accounts, in the database: what ends one ends it in every process at once."""

from __future__ import annotations

from datetime import datetime, timedelta

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from hsfiq.access.accounts import account_name, find_account
from hsfiq.access.roles import Role, User
from hsfiq.db.source_tables import Account, Login
from hsfiq.db.types import digest_of, new_token


def log_in(session: Session, account: Account, now: datetime, duration: timedelta) -> str:
    """The token of a new login; logins that have expired are deleted."""
    session.execute(delete(Login).where(Login.expires_at <= now))
    token = new_token()
    session.add(
        Login(token_hash=digest_of(token), account_id=account.id, expires_at=now + duration)
    )
    session.flush()
    return token


def log_out(session: Session, token: str) -> None:
    session.execute(delete(Login).where(Login.token_hash == digest_of(token)))


def user_of_login(session: Session, token: str, now: datetime) -> User | None:
    """Whose login it is; None if it has ended or the account is disabled."""
    valid = (
        select(Account)
        .join(Login, Login.account_id == Account.id)
        .where(Login.token_hash == digest_of(token), Login.expires_at > now)
    )
    return user_of(session.scalars(valid).one_or_none())


def user_named(session: Session, name: str) -> User | None:
    """The user whose account has this name, unless it is disabled."""
    return user_of(find_account(session, account_name(name)))


def user_of(account: Account | None) -> User | None:
    if account is None or account.is_disabled:
        return None
    return User(account.name, Role(account.role))
