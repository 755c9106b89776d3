"""Access control: logins, roles, accounts, tokens, and the key that signs cookies and pages."""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
import stat
import unicodedata
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import ColumnElement, and_, delete, not_, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from hsfiq.actors import Action, Actor, Role, User
from hsfiq.atomic_files import explained_write_errors, new_private_file, put_in_place
from hsfiq.audit import record
from hsfiq.db.engine import Database
from hsfiq.db.source_tables import Account, Login, Setting
from hsfiq.db.types import digest_of, new_token
from hsfiq.errors import Conflict, Refused, UnreadableInput

if TYPE_CHECKING:
    from argon2 import PasswordHasher


# The studio's accounts: inviting somebody, changing roles, disabling, and setting passwords.
#
# The account `owner` has the password that `hsfiq account password` sets; the others set theirs
# with a link that works once.

OWNER = "owner"
NAME = re.compile(r"[a-z0-9][a-z0-9._@+-]{0,63}")
LINK_DAYS = 7


def account_name(text: str) -> str:
    """The stored form of the name: names of accounts are case-insensitive."""
    return text.strip().lower()


def about_account(name: str, role: str = "") -> str:
    """An account, and the role that it has got, as the audit log has them."""
    return f"{account_name(name)}: {role}" if role else account_name(name)


def accounts(session: Session) -> Sequence[Account]:
    return session.scalars(select(Account).order_by(Account.name)).all()


def find_account(session: Session, name: str, *, lock: bool = False) -> Account | None:
    """The account with this name; `lock` prevents other changes until the transaction ends.

    A log-in or a change of an account locks it first, so no log-in outlives a reset.
    """
    if not NAME.fullmatch(name):
        return None
    named = select(Account).where(Account.name == name)
    return session.scalars(named.with_for_update() if lock else named).one_or_none()


def has_password(session: Session) -> bool:
    """Whether an account has a password."""
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
            f"{name[:80]!r} is not a valid account name",
            "use up to 64 letters, digits and ._@+-, such as kim or kim@example.org",
        )
    taken = Conflict(f"account {stored_name} already exists", remedy="choose another name")
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
    """Disable an account, which also ends its logins."""
    account = other_account(session, name)
    account.is_disabled, account.link_hash, account.link_expires_at = True, None, None
    end_logins(session, account)


def change_role(session: Session, name: str, role: Role) -> None:
    """Change an account's role, also for its current logins."""
    other_account(session, name).role = role
    session.flush()


def other_account(session: Session, name: str) -> Account:
    """An account that is not the owner's own; `Refused` if there is none."""
    stored_name = account_name(name)
    account = find_account(session, stored_name, lock=True)
    if stored_name == OWNER:
        raise Refused(
            f"the account {OWNER} cannot be changed",
            remedy="set its password with `hsfiq account password`",
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


def setup_link(session: Session, now: datetime) -> str | None:
    """The token of a new link with which the owner sets the first password; None if there is one.

    A link that was made before is no longer valid.
    """
    if has_password(session):
        return None
    owner = find_account(session, OWNER, lock=True) or add_owner(session)
    return new_link(session, owner, link_expiry(now))


def owner_password(session: Session) -> str | None:
    """The hash of the owner's password, None if it has not been set."""
    account = find_account(session, OWNER)
    return None if account is None else account.password


def end_logins(session: Session, account: Account) -> None:
    session.execute(delete(Login).where(Login.account_id == account.id))
    session.flush()


def link_expiry(now: datetime, days: int = LINK_DAYS) -> datetime:
    return now + timedelta(days=days)


# Logins of accounts, in the database: what ends one ends it in every process at once.

LOGIN_DURATION = timedelta(hours=12)

HOSTS_DIFFER = timedelta(minutes=5)
"""The largest difference between the clocks of hosts that serve the same database."""


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
    """The user of a login; None if the login is invalid or the account is disabled."""
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


# Hashes of passwords: argon2id, and scrypt for passwords from before there were accounts.

SHORTEST, LONGEST = 10, 1000

PASSES, KIBIBYTES, LANES = 3, 32 * 1024, 1
"""argon2id's cost for new passwords: 32 MiB and some tens of milliseconds for each attempt."""


def new_hash(password: str) -> str:
    """The salted hash of a new password; `UnreadableInput` if it is too short or too long."""
    n_characters = len(normalized(password))
    if not SHORTEST <= n_characters <= LONGEST:
        raise UnreadableInput(
            "the password",
            f"has {n_characters} characters",
            f"choose one of {SHORTEST} to {LONGEST:,}",
        )
    hashed: str = hasher().hash(encoded(password))
    return hashed


def matches(stored: str | None, password: str) -> bool:
    """Whether the password is the stored one.

    The check takes the same time without a stored password, so that it does not reveal existing
    accounts.
    """
    from argon2.exceptions import VerifyMismatchError  # noqa: PLC0415 (the extra may be absent)

    if len(normalized(password)) > LONGEST:
        return False
    if stored is not None and stored.startswith("scrypt$"):
        return matches_scrypt(stored, password)
    try:
        hasher().verify(stored or hash_of_nothing(), encoded(password))
    except VerifyMismatchError:
        return False
    return stored is not None


@cache
def hasher() -> PasswordHasher:
    from argon2 import PasswordHasher  # noqa: PLC0415 (the extra may be absent)

    return PasswordHasher(time_cost=PASSES, memory_cost=KIBIBYTES, parallelism=LANES)


@cache
def hash_of_nothing() -> str:
    """The hash to compare with if there is no password."""
    hashed: str = hasher().hash(b"")
    return hashed


def matches_scrypt(stored: str, password: str) -> bool:
    """`stored` is `scrypt$n$r$p$salt$hash`; the comparison takes constant time."""
    _, cost, block, parallel, salt, digest = stored.split("$")
    computed = hashlib.scrypt(
        encoded(password),
        salt=bytes.fromhex(salt),
        n=int(cost),
        r=int(block),
        p=int(parallel),
        maxmem=2 * 128 * int(cost) * int(block),
        dklen=32,
    )
    return hmac.compare_digest(computed, bytes.fromhex(digest))


def encoded(password: str) -> bytes:
    return normalized(password).encode("utf-8", "surrogatepass")


def normalized(password: str) -> str:
    """The password in Unicode normal form, independent of the keyboard."""
    return unicodedata.normalize("NFKC", password)


# The key that signs cookies and pages: in a file, if one is named, otherwise in the database.
#
# Anybody with the key can answer as any participant and enter the studio. Backups and copies of
# the database do not contain a key that is in a file.

VARIABLE = "HSFIQ_SECRET_FILE"
SETTING = "secret_key"
IN_FILE = "in a file"
"""The database's value instead of the key, once the key is in a file."""

BYTES = 32
KEY = re.compile(r"[0-9a-f]{64}")
COMMAND = "`hsfiq secret create FILE`"


def signing_keys(database: Database) -> list[bytes]:
    """The keys, the newest first; the newest signs, the others are still valid.

    The first call for a database without a key makes one. `UnreadableInput` if the file cannot be
    used, or is not named although the database's key has been moved to one.
    """
    named = os.environ.get(VARIABLE)
    if named:
        return read_keys(Path(named))
    key = stored_key(database)
    if key is None:
        with suppress(IntegrityError), database.writing() as session:  # another process was first
            session.add(Setting(key=SETTING, value=secrets.token_hex(BYTES)))
        key = stored_key(database)
    if key is None:
        raise RuntimeError("the signing key was stored but cannot be read back")
    if key == IN_FILE:
        raise UnreadableInput(
            VARIABLE,
            "is not set, but this database's key is stored in a file",
            "set the variable to that file",
        )
    return [bytes.fromhex(key)]


def stored_key(database: Database) -> str | None:
    with database.reading() as session:
        setting = session.get(Setting, SETTING)
        return setting.value if setting else None


def read_keys(file: Path) -> list[bytes]:
    """The keys of a file, one on each line, in hexadecimal."""
    try:
        lines = file.read_text(encoding="ascii").split()
        mode = file.stat().st_mode
    except OSError as error:
        raise UnreadableInput(
            str(file), f"cannot be read ({error.strerror})", f"make it with {COMMAND}"
        ) from error
    except UnicodeDecodeError as error:
        raise UnreadableInput(
            str(file), "holds no signing key", f"make one with {COMMAND}"
        ) from error
    if os.name == "posix" and mode & (stat.S_IRWXO | stat.S_IWGRP):
        raise UnreadableInput(str(file), "others can read or change it", f"chmod 600 {file}")
    if not lines or not all(KEY.fullmatch(line) for line in lines):
        raise UnreadableInput(str(file), "holds no signing key", f"make one with {COMMAND}")
    return [bytes.fromhex(line) for line in lines]


def create_file(database: Database, file: Path, actor: Actor) -> None:
    """Write a new key and the database's own to a new file, and delete the one in the database.

    Data signed by the database's key stay valid until the key is rotated out.
    """
    stored = stored_key(database)
    if stored == IN_FILE:
        raise UnreadableInput(str(file), "the key of this database is already in a file")
    keys = [secrets.token_hex(BYTES), *([stored] if stored else [])]
    with explained_write_errors(file), new_private_file(file) as draft:
        draft.write_text("\n".join(keys) + "\n", encoding="ascii")
    with database.writing() as session:
        session.merge(Setting(key=SETTING, value=IN_FILE))
        record(session, actor, Action.SECRET_CREATE)
    database.erase_deleted_rows([Setting])


def rotate(file: Path, *, forget: bool) -> None:
    """Write a new key to a file; the previous one is valid until the next, unless `forget`."""
    keys = [] if forget else [read_keys(file)[0].hex()]
    read_keys(file)
    draft = file.with_name(f".{file.name}-{os.getpid()}.draft")
    with explained_write_errors(file):
        try:
            draft.touch(mode=0o600, exist_ok=False)
            draft.write_text("\n".join([secrets.token_hex(BYTES), *keys]) + "\n", encoding="ascii")
            put_in_place(draft, file)
        finally:
            draft.unlink(missing_ok=True)
