"""The study owner's password, stored as a scrypt hash only, and logins; there is no default one."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import unicodedata
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from hsfiq.db.source_tables import OwnerSession, Setting
from hsfiq.db.types import digest_of, new_token
from hsfiq.errors import UnreadableInput

KEY = "owner_password"
SHORTEST, LONGEST = 10, 1000

COST, BLOCK, PARALLEL = 2**15, 8, 1
"""scrypt's n, r and p for new passwords: 32 MiB and some tens of milliseconds per attempt."""


def set_password(session: Session, password: str) -> None:
    """Store the hash of a new password, which ends all logins."""
    n_characters = len(normalized(password))
    if not SHORTEST <= n_characters <= LONGEST:
        raise UnreadableInput(
            "the password",
            f"has {n_characters} characters",
            f"choose one of {SHORTEST} to {LONGEST:,}",
        )
    session.merge(Setting(key=KEY, value=hashed(password)))
    session.execute(delete(OwnerSession))


@dataclass(frozen=True, slots=True)
class Owner:
    """The hash of the owner's password, and the digests of the tokens of valid logins."""

    password: str
    logins: frozenset[str]


def stored_owner(session: Session, now: datetime) -> Owner | None:
    """None if no password is set."""
    password = stored_password(session)
    if password is None:
        return None
    valid = select(OwnerSession.token_hash).where(OwnerSession.expires_at > now)
    return Owner(password, frozenset(session.scalars(valid)))


def log_in(session: Session, now: datetime, duration: timedelta) -> str:
    """The token of a new login; logins that have expired are deleted."""
    session.execute(delete(OwnerSession).where(OwnerSession.expires_at <= now))
    token = new_token()
    session.add(OwnerSession(token_hash=digest_of(token), expires_at=now + duration))
    return token


def log_out(session: Session, token: str) -> None:
    session.execute(delete(OwnerSession).where(OwnerSession.token_hash == digest_of(token)))


def stored_password(session: Session) -> str | None:
    setting = session.get(Setting, KEY)
    return setting.value if setting else None


def matches(stored: str, password: str) -> bool:
    """Whether the password is the stored one; the comparison takes constant time."""
    kind, cost, block, parallel, salt, digest = stored.split("$")
    if kind != "scrypt" or len(password) > LONGEST:
        return False
    computed = scrypt(password, bytes.fromhex(salt), int(cost), int(block), int(parallel))
    return hmac.compare_digest(computed, bytes.fromhex(digest))


def hashed(password: str) -> str:
    """`scrypt$n$r$p$salt$hash`: with the parameters, so that they can be increased later."""
    salt = secrets.token_bytes(16)
    digest = scrypt(password, salt, COST, BLOCK, PARALLEL)
    return f"scrypt${COST}${BLOCK}${PARALLEL}${salt.hex()}${digest.hex()}"


def scrypt(password: str, salt: bytes, cost: int, block: int, parallel: int) -> bytes:
    return hashlib.scrypt(
        normalized(password).encode("utf-8", "surrogatepass"),
        salt=salt,
        n=cost,
        r=block,
        p=parallel,
        maxmem=2 * 128 * cost * block * parallel,
        dklen=32,
    )


def normalized(password: str) -> str:
    """The password with one spelling of characters that keyboards compose differently."""
    return unicodedata.normalize("NFKC", password)
