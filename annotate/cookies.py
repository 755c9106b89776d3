"""Signed values that the browser stores: the cookie of its participants, and assignments.

The signing key is stored in the database, so signatures remain valid after a restart and in
every process that serves the same database.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Iterator, Mapping, Sequence
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

BETWEEN_PARTICIPANTS = ":"
MOST_PARTICIPANTS = 40
"""So many fit a cookie of 4 kB twice; a browser forgets who used it longest ago."""


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


# ------------------------------------------------------------------------- participants' cookie


def tokens_in(cookies: Mapping[str, str], signer: Signer) -> list[str]:
    """The tokens of the participants who have used this browser, the current one first."""
    signed = signer.read(COOKIE_PURPOSE, cookies.get(COOKIE, ""))
    return signed.split(BETWEEN_PARTICIPANTS) if signed else []


def participants_in(
    session: Session, cookies: Mapping[str, str], signer: Signer
) -> list[Participant]:
    """The participants who have used this browser, the current one first."""
    return list(valid_participants(session, tokens_in(cookies, signer)))


def participant_in(
    session: Session, cookies: Mapping[str, str], signer: Signer, *, lock: bool = False
) -> Participant | None:
    """The current participant of this browser, with `lock` after locking their row."""
    return next(valid_participants(session, tokens_in(cookies, signer), lock=lock), None)


def valid_participants(
    session: Session, tokens: Sequence[str], *, lock: bool = False
) -> Iterator[Participant]:
    """The participants with these tokens; tokens of people who were forgotten are left out."""
    for token in tokens:
        participant = participants.by_token(session, token, lock=lock)
        if participant is not None:
            yield participant


def required_participant(
    session: Session, cookies: Mapping[str, str], signer: Signer, *, lock: bool = False
) -> Participant:
    """The participant whose cookie this is, with `lock` locked; else `UnknownBrowser`."""
    participant = participant_in(session, cookies, signer, lock=lock)
    if participant is None:
        raise UnknownBrowser("this browser is not known; begin at the welcome page")
    return participant


def set_participant_cookie(
    response: Response,
    participant: Participant,
    cookies: Mapping[str, str],
    signer: Signer,
    *,
    secure: bool,
) -> None:
    """Make somebody the current participant of a browser; it keeps those in its cookies.

    Scripts cannot read the cookie.
    """
    others = [token for token in tokens_in(cookies, signer) if token != participant.token]
    tokens = [participant.token, *others][:MOST_PARTICIPANTS]
    response.set_cookie(
        COOKIE,
        signer.sign(COOKIE_PURPOSE, BETWEEN_PARTICIPANTS.join(tokens)),
        max_age=HALF_A_YEAR,
        httponly=True,
        samesite="lax",
        secure=secure,
    )


# ------------------------------------------------------------------------------------ assignments


AssignmentKind = Literal["question", "search", "upload", "check", "questionnaire"]


@dataclass(frozen=True, slots=True)
class Assignment:
    """What a page shows: a question at a revision (0: unanswered), a check, or what is asked last.

    The revision of a search is the number of its turns. An upload is the picture of a search.

    `key` is that of the question, the check or, for the questions at the end, the participant.
    `text_version` is that of the study's texts on the page, `language` their language; None if
    they are unknown.
    """

    kind: AssignmentKind
    key: int
    revision: int = 0
    text_version: int | None = None
    language: str | None = None

    def signed(self, signer: Signer, participant: str) -> str:
        version = "" if self.text_version is None else f":{self.text_version}"
        language = f";{self.language}" if self.language else ""
        text = f"{self.kind}:{self.key}:{self.revision}{version}{language}"
        return signer.sign(purpose_for(participant), text)

    def draft(self, signer: Signer, participant: str) -> str:
        """The name of what is entered on the page, also when its texts have changed."""
        return signer.sign(f"draft of {participant}", f"{self.kind}:{self.key}:{self.revision}")


def read_assignment(
    signer: Signer, participant: str, signed: str, kind: AssignmentKind
) -> Assignment:
    """The assignment; `Forbidden` if it was altered, is somebody else's or of another kind."""
    text = signer.read(purpose_for(participant), signed)
    if text is None or not text.startswith(f"{kind}:"):
        raise Forbidden("this page is not yours, or was altered")
    text, _, language = text.partition(";")
    _, key, revision, *versions = text.split(":")
    version = int(versions[0]) if versions else None
    return Assignment(kind, int(key), int(revision), version, language or None)


def purpose_for(participant: str) -> str:
    """Assignments are signed for each participant, so nobody can use another's."""
    return f"assignment of {participant}"
