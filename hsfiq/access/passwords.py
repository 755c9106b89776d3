"""Hashes of passwords: argon2id, and scrypt for those that were set before there were accounts."""

from __future__ import annotations

import hashlib
import hmac
import unicodedata
from functools import cache
from typing import TYPE_CHECKING

from hsfiq.errors import UnreadableInput

if TYPE_CHECKING:
    from argon2 import PasswordHasher

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

    Without a stored one the check takes as long, so that nobody learns which accounts exist.
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
    """What passwords are compared with if there is none."""
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
    """The password with one spelling of characters that keyboards compose differently."""
    return unicodedata.normalize("NFKC", password)
