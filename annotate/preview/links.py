"""The signed link to a preview, and the cookie that says which preview a browser shows."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace

from fastapi import Request, Response
from sqlalchemy.orm import Session

from hsfiq.annotate.cookies import Signer, UnknownBrowser, place_of_cookies
from hsfiq.collect.running.preview import batch_to_preview
from hsfiq.db.tables import Study

PREVIEW = "/preview"
OPEN = f"{PREVIEW}/open"

COOKIE = "hsfiq_preview"
PURPOSE = "preview"
HOURS = 24


@dataclass(frozen=True, slots=True)
class PreviewPlace:
    """A preview that the owner has signed: of which batch, until when, and the steps done.

    `language` is the one chosen, "" for the study's first.
    """

    study_id: int
    batch: int
    expires: int
    reached: int = 0
    language: str = ""

    def signed(self, signer: Signer) -> str:
        text = f"{self.study_id}:{self.batch}:{self.expires}:{self.reached}:{self.language}"
        return signer.sign(PURPOSE, text)

    def after(self, reached: int) -> PreviewPlace:
        return replace(self, reached=reached)


def new_preview(session: Session, study: Study, hours: float = HOURS) -> PreviewPlace:
    """A preview from its beginning; `Refused` if the study has no questions."""
    expires = int(time.time() + hours * 3600)
    return PreviewPlace(study.id, batch_to_preview(session, study), expires)


def preview_path(signer: Signer, place: PreviewPlace) -> str:
    """The path of the link that opens a preview in any browser."""
    return f"{OPEN}/{place.signed(signer)}"


def read_place(signer: Signer, signed: str) -> PreviewPlace | None:
    """The preview that was signed; None if the signature is not valid or the time is over."""
    text = signer.read(PURPOSE, signed)
    if not text:
        return None
    study_id, batch, expires, reached, language = text.split(":")
    place = PreviewPlace(int(study_id), int(batch), int(expires), int(reached), language)
    return place if place.expires > time.time() else None


def place_in(cookies: Mapping[str, str], signer: Signer) -> PreviewPlace | None:
    return read_place(signer, cookies.get(COOKIE, ""))


def required_place(cookies: Mapping[str, str], signer: Signer) -> PreviewPlace:
    place = place_in(cookies, signer)
    if place is None:
        raise UnknownBrowser("the preview has expired; open it again")
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
