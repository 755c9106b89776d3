"""What the browser carries but cannot alter: the participant's cookie and signed assignments.

The signing key is stored in the database, so signatures outlast the process and hold for every
process that serves the same database.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from fastapi import Response
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from hsfiq.collect import participants
from hsfiq.db.engine import Database
from hsfiq.db.tables import Participant, Setting
from hsfiq.errors import Forbidden, Refused

KEY_SETTING = "secret_key"
COOKIE = "hsfiq_participant"
COOKIE_PURPOSE = "participant"
HALF_A_YEAR = 180 * 24 * 3600


class UnknownBrowser(Refused):
    """The request has no valid participant's cookie."""

    status = 401


class Signer:
    """Signs short texts, each for one purpose: a signature is not valid for another purpose."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def sign(self, purpose: str, text: str) -> str:
        """The text, a dot, and the signature."""
        return f"{text}.{self._signature(purpose, text)}"

    def read(self, purpose: str, signed: str) -> str | None:
        """The text that was signed for this purpose, None if the signature is not valid."""
        text, _, signature = signed.rpartition(".")
        expected = self._signature(purpose, text)
        is_valid = hmac.compare_digest(expected.encode(), signature.encode("utf-8", "replace"))
        return text if is_valid else None

    def _signature(self, purpose: str, text: str) -> str:
        message = f"{purpose}\n{text}".encode("utf-8", "replace")
        return hmac.new(self._key, message, hashlib.sha256).hexdigest()


def signer_of(database: Database) -> Signer:
    """The signer with this database's key; the first call makes the key."""
    key = stored_key(database)
    if key is None:
        try:
            with database.writing() as session:
                session.add(Setting(key=KEY_SETTING, value=secrets.token_hex(32)))
        except IntegrityError:
            pass  # another process has stored its key first: that one is used
        key = stored_key(database)
    if key is None:
        raise RuntimeError("the signing key was stored but cannot be read back")
    return Signer(bytes.fromhex(key))


def stored_key(database: Database) -> str | None:
    """The database's signing key, None before its first use."""
    with database.reading() as session:
        setting = session.get(Setting, KEY_SETTING)
        return setting.value if setting else None


# -------------------------------------------------------------------------- participant's cookie


def token_in(cookies: Mapping[str, str], signer: Signer) -> str | None:
    """The participant's token in these cookies, None if it is absent or not signed by us."""
    return signer.read(COOKIE_PURPOSE, cookies.get(COOKIE, ""))


def participant_in(
    session: Session, cookies: Mapping[str, str], signer: Signer
) -> Participant | None:
    """The participant whose cookie this is, None if there is no such participant."""
    token = token_in(cookies, signer)
    return participants.by_token(session, token) if token else None


def required_participant(
    session: Session, cookies: Mapping[str, str], signer: Signer
) -> Participant:
    """The participant whose cookie this is.

    Raises:
        UnknownBrowser: there is no such participant.
    """
    participant = participant_in(session, cookies, signer)
    if participant is None:
        raise UnknownBrowser("this browser is not known; begin at the welcome page")
    return participant


def set_participant_cookie(
    response: Response, participant: Participant, signer: Signer, *, secure: bool
) -> None:
    """Store the participant's token in the browser; scripts cannot read it."""
    response.set_cookie(
        COOKIE,
        signer.sign(COOKIE_PURPOSE, participant.token),
        max_age=HALF_A_YEAR,
        httponly=True,
        samesite="lax",
        secure=secure,
    )


# ------------------------------------------------------------------------------------ assignments


@dataclass(frozen=True, slots=True)
class Assignment:
    """What a page shows: a question at a revision (0: unanswered), or a check (always 0)."""

    kind: Literal["question", "check"]
    key: int
    revision: int = 0

    def signed(self, signer: Signer, participant: str) -> str:
        """The assignment as carried by the page of the participant with this token."""
        return signer.sign(purpose_for(participant), f"{self.kind}:{self.key}:{self.revision}")


def read_assignment(
    signer: Signer, participant: str, signed: str, kind: Literal["question", "check"]
) -> Assignment:
    """The assignment that was signed for this participant.

    Raises:
        Forbidden: it was altered, belongs to somebody else, or is of the other kind.
    """
    text = signer.read(purpose_for(participant), signed)
    if text is None or not text.startswith(f"{kind}:"):
        raise Forbidden("this page is not yours, or was altered")
    _, key, revision = text.split(":")
    return Assignment(kind, int(key), int(revision))


def purpose_for(participant: str) -> str:
    """Assignments are signed for each participant, so nobody can use another's."""
    return f"assignment of {participant}"
