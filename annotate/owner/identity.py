"""Identifies the owner by a signed cookie after login."""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Mapping

from fastapi import Response

from hsfiq.annotate.cookies import Signer
from hsfiq.annotate.security import is_same_origin
from hsfiq.errors import Forbidden, Refused

COOKIE = "hsfiq_owner"
HALF_A_DAY = 12 * 3600


class NotOwner(Refused):
    status = 401


class NoPassword(Refused):
    status = 503


def purpose_under(password: str) -> str:
    """What the cookie is signed for: a new password invalidates all earlier cookies."""
    return f"owner {hashlib.sha256(password.encode()).hexdigest()}"


def set_owner_cookie(response: Response, signer: Signer, password: str, *, secure: bool) -> None:
    """Log this browser in for half a day; neither scripts nor other sites can use the cookie."""
    text = f"{int(time.time()) + HALF_A_DAY}.{secrets.token_hex(8)}"
    response.set_cookie(
        COOKIE,
        signer.sign(purpose_under(password), text),
        max_age=HALF_A_DAY,
        httponly=True,
        samesite="strict",
        secure=secure,
    )


def is_owner(cookies: Mapping[str, str], signer: Signer, password: str | None) -> bool:
    if password is None:
        return False
    text = signer.read(purpose_under(password), cookies.get(COOKIE, ""))
    return text is not None and int(text.partition(".")[0]) > time.time()


def require_owner(
    headers: Mapping[str, str], cookies: Mapping[str, str], signer: Signer, password: str | None
) -> None:
    """Raise unless this is the owner's request from one of our pages."""
    if password is None:
        raise NoPassword("no owner's password has been set")
    if not is_owner(cookies, signer, password):
        raise NotOwner("log in first")
    if not is_same_origin(headers):
        raise Forbidden("this request comes from another site")
