"""Signed values that the browser stores: the participant's cookie and assignments.

The signing key is stored in the database, so signatures remain valid after a restart and in
every process that serves the same database.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Mapping
from contextlib import suppress
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
    status = 401


class Signer:
    """Signs short texts, each for one purpose: a signature is not valid for another purpose."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def sign(self, purpose: str, text: str) -> str:
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
        with suppress(IntegrityError), database.writing() as session:  # another process was first
            session.add(Setting(key=KEY_SETTING, value=secrets.token_hex(32)))
        key = stored_key(database)
    if key is None:
        raise RuntimeError("the signing key was stored but cannot be read back")
    return Signer(bytes.fromhex(key))


def stored_key(database: Database) -> str | None:
    with database.reading() as session:
        setting = session.get(Setting, KEY_SETTING)
        return setting.value if setting else None


# -------------------------------------------------------------------------- participant's cookie


def token_in(cookies: Mapping[str, str], signer: Signer) -> str | None:
    return signer.read(COOKIE_PURPOSE, cookies.get(COOKIE, ""))


def participant_in(
    session: Session, cookies: Mapping[str, str], signer: Signer
) -> Participant | None:
    token = token_in(cookies, signer)
    return participants.by_token(session, token) if token else None


def required_participant(
    session: Session, cookies: Mapping[str, str], signer: Signer
) -> Participant:
    """The participant whose cookie this is; else `UnknownBrowser`."""
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
        return signer.sign(purpose_for(participant), f"{self.kind}:{self.key}:{self.revision}")


def read_assignment(
    signer: Signer, participant: str, signed: str, kind: Literal["question", "check"]
) -> Assignment:
    """The assignment; `Forbidden` if it was altered, is somebody else's or of the other kind."""
    text = signer.read(purpose_for(participant), signed)
    if text is None or not text.startswith(f"{kind}:"):
        raise Forbidden("this page is not yours, or was altered")
    _, key, revision = text.split(":")
    return Assignment(kind, int(key), int(revision))


def purpose_for(participant: str) -> str:
    """Assignments are signed for each participant, so nobody can use another's."""
    return f"assignment of {participant}"
