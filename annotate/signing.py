"""Signatures: what the browser carries and cannot alter.

The cookie names a participant, an assignment names the one question or check that a page shows.
Both are signed with a key that lives in the database, so that they outlast the process and hold
for every process that serves it.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from dataclasses import dataclass
from typing import Literal

from sqlalchemy.exc import IntegrityError

from hsfiq.db.engine import Database
from hsfiq.db.tables import Setting
from hsfiq.errors import Forbidden

SECRET = "secret_key"  # noqa: S105 (the name of the setting, not its value)


class Signer:
    """Signs short texts for one purpose each: what is signed for one is no good for another."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def sign(self, purpose: str, text: str) -> str:
        """`text` with its signature behind the last dot."""
        return f"{text}.{self._signature(purpose, text)}"

    def read(self, purpose: str, signed: str) -> str | None:
        """The text that was signed for this purpose, None where the signature is not ours."""
        text, _, signature = signed.rpartition(".")
        ours = self._signature(purpose, text)
        same = hmac.compare_digest(ours.encode(), signature.encode("utf-8", "replace"))
        return text if same else None

    def _signature(self, purpose: str, text: str) -> str:
        message = f"{purpose}\n{text}".encode("utf-8", "replace")
        return hmac.new(self._key, message, hashlib.sha256).hexdigest()


def signer_of(database: Database) -> Signer:
    """The signer with this database's key, which is made the first time it is asked for."""
    key = stored_key(database)
    if key is None:
        try:
            with database.writing() as session:
                session.add(Setting(key=SECRET, value=secrets.token_hex(32)))
        except IntegrityError:
            pass  # another process was first: its key is the key
        key = stored_key(database)
    if key is None:
        raise RuntimeError("the signing key was stored but cannot be read back")
    return Signer(bytes.fromhex(key))


def stored_key(database: Database) -> str | None:
    """The database's key as stored, None before its first use."""
    with database.reading() as session:
        setting = session.get(Setting, SECRET)
        return setting.value if setting else None


@dataclass(frozen=True, slots=True)
class Assignment:
    """What a page shows: a question at a revision (0 unanswered), or a check (always 0)."""

    kind: Literal["question", "check"]
    key: int
    revision: int = 0

    def signed(self, signer: Signer, participant: str) -> str:
        """The assignment as the page of the participant with this token carries it."""
        return signer.sign(purpose_for(participant), f"{self.kind}:{self.key}:{self.revision}")


def read_assignment(
    signer: Signer, participant: str, signed: str, kind: Literal["question", "check"]
) -> Assignment:
    """The assignment that we signed for this participant.

    Raises:
        Forbidden: it was altered, is somebody else's, or is of the other kind.
    """
    text = signer.read(purpose_for(participant), signed)
    if text is None or not text.startswith(f"{kind}:"):
        raise Forbidden("this page is not yours, or was altered")
    _, key, revision = text.split(":")
    return Assignment(kind, int(key), int(revision))


def purpose_for(participant: str) -> str:
    """Assignments are signed per participant: nobody can use another's."""
    return f"assignment of {participant}"
