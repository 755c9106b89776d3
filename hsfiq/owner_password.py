"""The study owner's password: kept as a scrypt hash, never as itself, and never a default one."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import unicodedata

from sqlalchemy.orm import Session

from hsfiq.db.tables import Setting
from hsfiq.errors import UnreadableInput

KEY = "owner_password"
SHORTEST, LONGEST = 10, 1000

COST, BLOCK, PARALLEL = 2**15, 8, 1
"""scrypt's n, r and p for new passwords: 32 MiB and some tens of milliseconds a try."""


def set_password(session: Session, password: str) -> None:
    """Keep the hash of this password in place of any earlier one; all logins end with that.

    Args:
        session: of a writing transaction.
        password: what the owner will type.

    Raises:
        UnreadableInput: it is too short or too long.
    """
    n_characters = len(normal(password))
    if not SHORTEST <= n_characters <= LONGEST:
        raise UnreadableInput(
            "the password",
            f"has {n_characters} characters",
            f"choose one of {SHORTEST} to {LONGEST:,}",
        )
    session.merge(Setting(key=KEY, value=hashed(password)))


def stored_password(session: Session) -> str | None:
    """The hash with its parameters, None where no password has been set."""
    setting = session.get(Setting, KEY)
    return setting.value if setting else None


def matches(stored: str, password: str) -> bool:
    """Whether the password is the stored one; the time taken tells nothing of how near it is."""
    kind, cost, block, parallel, salt, digest = stored.split("$")
    if kind != "scrypt" or len(password) > LONGEST:
        return False
    ours = scrypt(password, bytes.fromhex(salt), int(cost), int(block), int(parallel))
    return hmac.compare_digest(ours, bytes.fromhex(digest))


def hashed(password: str) -> str:
    """`scrypt$n$r$p$salt$hash`: the parameters stand beside the hash, so they can be raised."""
    salt = secrets.token_bytes(16)
    digest = scrypt(password, salt, COST, BLOCK, PARALLEL)
    return f"scrypt${COST}${BLOCK}${PARALLEL}${salt.hex()}${digest.hex()}"


def scrypt(password: str, salt: bytes, cost: int, block: int, parallel: int) -> bytes:
    """The 32 bytes of scrypt."""
    return hashlib.scrypt(
        normal(password).encode("utf-8", "surrogatepass"),
        salt=salt,
        n=cost,
        r=block,
        p=parallel,
        maxmem=2 * 128 * cost * block * parallel,
        dklen=32,
    )


def normal(password: str) -> str:
    """One spelling of characters that keyboards compose differently."""
    return unicodedata.normalize("NFKC", password)
