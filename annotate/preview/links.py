"""The signed link to a preview, and the cookie that says which preview a browser shows."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

from fastapi import Request, Response
from sqlalchemy.orm import Session

from hsfiq.access import user_with_id
from hsfiq.actors import Permission
from hsfiq.annotate.cookies import Signer, UnknownBrowser, place_of_cookies
from hsfiq.collect.page import batch_to_preview
from hsfiq.db.engine import Database
from hsfiq.db.tables import Study

PREVIEW = "/preview"
OPEN = f"{PREVIEW}/open"

COOKIE = "hsfiq_preview"
PURPOSE = "preview"
HOURS = 24


@dataclass(frozen=True, slots=True)
class PreviewPlace:
    """A preview that the server has signed: of which batch, until when, and the steps done.

    `account` opened it on the dashboard; 0 for a link of `hsfiq study preview`. `language` is the
    one chosen, "" for the study's first.
    """

    study_id: int
    batch: int
    expires: int
    account: int = 0
    reached: int = 0
    language: str = ""

    def signed(self, signer: Signer) -> str:
        numbers = (self.study_id, self.batch, self.expires, self.account, self.reached)
        return signer.sign(PURPOSE, ":".join([*map(str, numbers), self.language]))

    def after(self, reached: int) -> PreviewPlace:
        return replace(self, reached=reached)


def new_preview(
    session: Session, study: Study, hours: float = HOURS, account: int = 0
) -> PreviewPlace:
    """A preview from its beginning; `Refused` if the study has no questions."""
    expires = int(time.time() + hours * 3600)
    return PreviewPlace(study.id, batch_to_preview(session, study), expires, account)


def preview_path(signer: Signer, place: PreviewPlace) -> str:
    """The path of the link that opens a preview in any browser."""
    return f"{OPEN}/{place.signed(signer)}"


def read_place(database: Database, signer: Signer, signed: str) -> PreviewPlace | None:
    """The preview that was signed; None if the signature is not valid or the preview has ended."""
    text = signer.read(PURPOSE, signed)
    parts = text.split(":") if text else []
    if len(parts) != len(fields(PreviewPlace)):  # also those from before they named the account
        return None
    study_id, batch, expires, account, reached = map(int, parts[:-1])
    place = PreviewPlace(study_id, batch, expires, account, reached, parts[-1])
    is_over = place.expires <= time.time() or not may_preview(database, place.account)
    return None if is_over else place


def may_preview(database: Database, account: int) -> bool:
    """Whether the account that opened a preview is in use, and its role sees previews."""
    if not account:
        return True
    with database.reading() as session:
        user = user_with_id(session, account)
    return user is not None and user.may(Permission.READ)


def place_in(cookies: Mapping[str, str], database: Database, signer: Signer) -> PreviewPlace | None:
    return read_place(database, signer, cookies.get(COOKIE, ""))


def required_place(cookies: Mapping[str, str], database: Database, signer: Signer) -> PreviewPlace:
    place = place_in(cookies, database, signer)
    if place is None:
        raise UnknownBrowser("the preview has ended; open it again")
    return place


def set_place_cookie(
    response: Response, place: PreviewPlace, request: Request, signer: Signer
) -> None:
    response.set_cookie(
        COOKIE,
        place.signed(signer),
        max_age=max(0, place.expires - int(time.time())),
        httponly=True,
        samesite="lax",
        **place_of_cookies(request),
    )
