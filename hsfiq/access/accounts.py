"""The dashboard's accounts: inviting somebody, changing roles, disabling, and setting passwords.

The account `owner` has the password that `hsfiq owner password` sets; the others set theirs with a
link that works once.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta

from sqlalchemy import delete, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from hsfiq.access.roles import Role
from hsfiq.db.source_tables import Account, Login
from hsfiq.db.types import digest_of, new_token
from hsfiq.errors import Conflict, Refused, UnreadableInput

OWNER = "owner"
NAME = re.compile(r"[a-z0-9][a-z0-9._@+-]{0,63}")
LINK_DAYS = 7


def account_name(text: str) -> str:
    """The name as it is stored: accounts' names do not depend on case."""
    return text.strip().lower()


def about_account(name: str, role: str = "") -> str:
    """An account, and the role that it has got, as the audit log has them."""
    return f"{account_name(name)}: {role}" if role else account_name(name)


def accounts(session: Session) -> Sequence[Account]:
    return session.scalars(select(Account).order_by(Account.name)).all()


def find_account(session: Session, name: str, *, lock: bool = False) -> Account | None:
    """The account with this name; with `lock`, nobody else changes it before the transaction ends.

    Whoever logs an account in or changes it locks it first: no login outlives a reset.
    """
    if not NAME.fullmatch(name):
        return None
    named = select(Account).where(Account.name == name)
    return session.scalars(named.with_for_update() if lock else named).one_or_none()


def has_password(session: Session) -> bool:
    """Whether anybody can log in with a password."""
    usable = select(Account.id).where(Account.password.is_not(None), ~Account.is_disabled)
    return session.scalars(usable.limit(1)).first() is not None


def state_of(account: Account, now: datetime) -> str:
    """`active`, `disabled`, `invited`, or `link expired` if no password was set in time."""
    if account.is_disabled:
        return "disabled"
    if account.password is not None:
        return "active"
    return "invited" if has_valid_link(account, now) else "link expired"


def invite(session: Session, name: str, role: Role, expires_at: datetime) -> str:
    """Add an account; return the token of the link that sets its password."""
    stored_name = account_name(name)
    if not NAME.fullmatch(stored_name):
        raise UnreadableInput(
            "NAME",
            f"{name[:80]!r} is no name of an account",
            "use up to 64 letters, digits and ._@+-, such as kim or kim@example.org",
        )
    taken = Conflict(f"there is an account {stored_name} already", remedy="choose another name")
    if find_account(session, stored_name) is not None or stored_name == OWNER:
        raise taken
    account = Account(name=stored_name, role=role)
    session.add(account)
    try:
        return new_link(session, account, expires_at)
    except IntegrityError as error:  # somebody else was faster
        raise taken from error


def reset(session: Session, name: str, expires_at: datetime) -> str:
    """Forget an account's password and logins, and enable it; return a new link's token."""
    account = other_account(session, name)
    account.password, account.is_disabled = None, False
    end_logins(session, account)
    return new_link(session, account, expires_at)


def disable(session: Session, name: str) -> None:
    """Refuse an account from now on, which also ends its logins."""
    account = other_account(session, name)
    account.is_disabled, account.link_hash, account.link_expires_at = True, None, None
    end_logins(session, account)


def change_role(session: Session, name: str, role: Role) -> None:
    """Give an account another role, which its logins have at once."""
    other_account(session, name).role = role
    session.flush()


def other_account(session: Session, name: str) -> Account:
    """An account that is not the owner's own; `Refused` if there is none."""
    stored_name = account_name(name)
    account = find_account(session, stored_name, lock=True)
    if stored_name == OWNER:
        raise Refused(
            f"the account {OWNER} cannot be changed",
            remedy="set its password with `hsfiq owner password`",
        )
    if account is None:
        raise Refused(f"there is no account {name[:80]!r}", remedy="see `hsfiq account list`")
    return account


def new_link(session: Session, account: Account, expires_at: datetime) -> str:
    token = new_token()
    account.link_hash, account.link_expires_at = digest_of(token), expires_at
    session.flush()
    return token


def has_valid_link(account: Account, now: datetime) -> bool:
    return account.link_expires_at is not None and now < account.link_expires_at


def account_of_link(
    session: Session, token: str, now: datetime, *, lock: bool = False
) -> Account | None:
    """The account whose password the link sets; None if it was used or has expired."""
    linked = select(Account).where(Account.link_hash == digest_of(token))
    account = session.scalars(linked.with_for_update() if lock else linked).one_or_none()
    return account if account is not None and has_valid_link(account, now) else None


def set_password(session: Session, account: Account, password_hash: str) -> None:
    """Store a new password's hash, which ends the account's link and logins."""
    account.password = password_hash
    account.link_hash, account.link_expires_at = None, None
    end_logins(session, account)


def set_owner_password(session: Session, password_hash: str) -> None:
    account = find_account(session, OWNER, lock=True) or add_owner(session)
    set_password(session, account, password_hash)


def add_owner(session: Session) -> Account:
    """The owner's account, which another process may add at the same time."""
    with suppress(IntegrityError), session.begin_nested():
        session.add(Account(name=OWNER, role=Role.OWNER))
    account = find_account(session, OWNER, lock=True)
    if account is None:
        raise RuntimeError("the owner's account was stored but cannot be read back")
    return account


def owner_password(session: Session) -> str | None:
    """The hash of the owner's password, None if it has not been set."""
    account = find_account(session, OWNER)
    return None if account is None else account.password


def end_logins(session: Session, account: Account) -> None:
    session.execute(delete(Login).where(Login.account_id == account.id))
    session.flush()


def link_expiry(now: datetime, days: int = LINK_DAYS) -> datetime:
    return now + timedelta(days=days)
