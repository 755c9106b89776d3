"""Signed values that the browser stores: the cookie of its participants, and assignments.

The signing keys are in a file or in the database, so signatures remain valid after a restart and
in every process that serves the same database.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypedDict

from fastapi import Request, Response
from sqlalchemy.orm import Session

from hsfiq.access import signing_keys
from hsfiq.collect.participant_row import ParticipantRow, participant_row
from hsfiq.db.engine import Database
from hsfiq.db.types import DIGEST_LENGTH, digest_of
from hsfiq.errors import Forbidden, Refused

COOKIE = "hsfiq_participant"
COOKIE_PURPOSE = "participant"
HALF_A_YEAR = 180 * 24 * 3600

UNKNOWN_BROWSER = "this browser is unknown; begin at the welcome page"

BETWEEN_PARTICIPANTS = ":"
MOST_PARTICIPANTS = 40
"""Twice this number fits a cookie of 4 kB; a browser forgets the least recent participant."""


class UnknownBrowser(Refused):
    status = 401


class UnknownParticipant(UnknownBrowser):
    """The cookie's signature is valid, but its participants are not stored.

    They were forgotten, or the database is that of a backup from before they began.
    """


class Signer:
    """Signs short texts, each for one purpose: a signature is not valid for another purpose."""

    def __init__(self, *keys: bytes) -> None:
        """The first key signs; signatures of the other keys are valid, too."""
        self._keys = keys

    def sign(self, purpose: str, text: str) -> str:
        return f"{text}.{signature(self._keys[0], purpose, text)}"

    def derive(self, purpose: str, text: str) -> str:
        """A text that only the key's holder can compute, the same each time."""
        return signature(self._keys[0], purpose, text)

    def read(self, purpose: str, signed: str) -> str | None:
        """The text that was signed for this purpose; None if the signature is not valid."""
        text, _, given = signed.rpartition(".")
        return text if self.confirms(purpose, text, given) else None

    def confirms(self, purpose: str, text: str, given: str) -> bool:
        """Whether this is the signature of the text, with one of the keys."""
        is_valid = [
            hmac.compare_digest(
                signature(key, purpose, text).encode(), given.encode("utf-8", "replace")
            )
            for key in self._keys
        ]
        return any(is_valid)


def signature(key: bytes, purpose: str, text: str) -> str:
    message = f"{purpose}\n{text}".encode("utf-8", "replace")
    return hmac.digest(key, message, "sha256").hex()


def signer_of(database: Database) -> Signer:
    """The signer with this database's keys."""
    return Signer(*signing_keys(database))


# ------------------------------------------------------------------------- participants' cookie


def tokens_in(cookies: Mapping[str, str], signer: Signer) -> list[str]:
    """The tokens' digests of this browser's participants, the current one first.

    Cookies from before revision 0021 hold the tokens themselves.
    """
    signed = signer.read(COOKIE_PURPOSE, cookies.get(COOKIE, ""))
    held = signed.split(BETWEEN_PARTICIPANTS) if signed else []
    return [each if len(each) == DIGEST_LENGTH else digest_of(each) for each in held]


def required_tokens(cookies: Mapping[str, str], signer: Signer) -> list[str]:
    """The tokens' digests of this browser's participants; `UnknownBrowser` if it has none.

    The participants may have been forgotten since.
    """
    tokens = tokens_in(cookies, signer)
    if not tokens:
        raise UnknownBrowser(UNKNOWN_BROWSER)
    return tokens


def participants_in(
    session: Session, cookies: Mapping[str, str], signer: Signer
) -> list[ParticipantRow]:
    """The participants who have used this browser, the current one first."""
    return list(valid_participants(session, tokens_in(cookies, signer)))


def participant_in(
    session: Session, cookies: Mapping[str, str], signer: Signer, *, lock: bool = False
) -> ParticipantRow | None:
    """The current participant of this browser, with `lock` after locking them."""
    return next(valid_participants(session, tokens_in(cookies, signer), lock=lock), None)


def valid_participants(
    session: Session, tokens: Sequence[str], *, lock: bool = False
) -> Iterator[ParticipantRow]:
    """The participants with these tokens; tokens of people who were forgotten are left out."""
    for token in tokens:
        participant = participant_row(session, token, lock=lock)
        if participant is not None:
            yield participant


def required_participant(
    session: Session, cookies: Mapping[str, str], signer: Signer, *, lock: bool = False
) -> ParticipantRow:
    """The participant whose cookie this is, with `lock` locked; else `UnknownBrowser`."""
    participant = participant_in(session, cookies, signer, lock=lock)
    if participant is None:
        required_tokens(cookies, signer)
        raise UnknownParticipant(UNKNOWN_BROWSER)
    return participant


def set_participant_cookie(
    response: Response, token_hash: str, request: Request, signer: Signer
) -> None:
    """Make a participant the current one of a browser; the browser keeps the others.

    Scripts cannot read the cookie.
    """
    others = [token for token in tokens_in(request.cookies, signer) if token != token_hash]
    tokens = [token_hash, *others][:MOST_PARTICIPANTS]
    response.set_cookie(
        COOKIE,
        signer.sign(COOKIE_PURPOSE, BETWEEN_PARTICIPANTS.join(tokens)),
        max_age=HALF_A_YEAR,
        httponly=True,
        samesite="lax",
        **place_of_cookies(request),
    )


TRIAL = "hsfiq_cookies"
"""A cookie of the welcome page, which only shows that the browser keeps cookies."""


def set_trial_cookie(response: Response, request: Request) -> None:
    """Until the browser is closed."""
    response.set_cookie(TRIAL, "1", httponly=True, samesite="lax", **place_of_cookies(request))


def keeps_cookies(request: Request) -> bool:
    """Whether the browser has sent a cookie that one of the app's pages has set."""
    return TRIAL in request.cookies or COOKIE in request.cookies


class CookiePlace(TypedDict):
    path: str
    secure: bool


def place_of_cookies(request: Request) -> CookiePlace:
    """The addresses of a cookie: those of this app, and only over TLS if the app uses TLS."""
    return {"path": request.scope.get("root_path") or "/", "secure": request.url.scheme == "https"}


# ------------------------------------------------------------------------------------ assignments


AssignmentKind = Literal["question", "search", "upload", "check", "questionnaire", "withdrawal"]


@dataclass(frozen=True, slots=True)
class Assignment:
    """The content of a page: a question at a revision (0: unanswered), a check, or the last step.

    Or the page explains withdrawal. The revision of a search is the number of its turns. An upload
    is the picture of a search.

    `key` is that of the question, the check or, for the last two, the participant.
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
        """The name of the page's draft answer, which does not change with the page's texts."""
        return signer.sign(f"draft of {participant}", f"{self.kind}:{self.key}:{self.revision}")


def read_assignment(
    signer: Signer, participant: str, signed: str, kind: AssignmentKind
) -> Assignment:
    """The assignment; `Forbidden` if altered, another participant's or of another kind."""
    text = signer.read(purpose_for(participant), signed)
    if text is None or not text.startswith(f"{kind}:"):
        raise Forbidden("this page is not yours, or was altered")
    text, _, language = text.partition(";")
    _, key, revision, *versions = text.split(":")
    version = int(versions[0]) if versions else None
    return Assignment(kind, int(key), int(revision), version, language or None)


def assigned_token(signer: Signer, tokens: Sequence[str], signed: str, kind: AssignmentKind) -> str:
    """The token of the browser's participant for whom the assignment was signed."""
    for token in tokens:
        if signer.read(purpose_for(token), signed) is not None:
            read_assignment(signer, token, signed, kind)
            return token
    raise Forbidden("this page is not yours, or was altered")


def purpose_for(participant: str) -> str:
    """Assignments are signed for each participant, so they are invalid for others."""
    return f"assignment of {participant}"
