"""Identifies the owner by a signed cookie after login."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import timedelta

from fastapi import Request, Response

from hsfiq.access.owner_password import Owner
from hsfiq.annotate.cookies import Signer, place_of_cookies
from hsfiq.annotate.security import is_same_origin
from hsfiq.db.types import digest_of
from hsfiq.errors import Forbidden, Refused

COOKIE = "hsfiq_owner"
LOGIN_DURATION = timedelta(hours=12)


class NotOwner(Refused):
    status = 401


class NoPassword(Refused):
    status = 503


def purpose_under(password: str) -> str:
    """What the cookie is signed for: a new password invalidates all earlier cookies."""
    return f"owner {hashlib.sha256(password.encode()).hexdigest()}"


def set_owner_cookie(
    response: Response, signer: Signer, password: str, token: str, request: Request
) -> None:
    """Log this browser in; neither scripts nor other sites can use the cookie."""
    response.set_cookie(
        COOKIE,
        signer.sign(purpose_under(password), token),
        max_age=int(LOGIN_DURATION.total_seconds()),
        httponly=True,
        samesite="strict",
        **place_of_cookies(request),
    )


def login_token(cookies: Mapping[str, str], signer: Signer, owner: Owner | None) -> str | None:
    """The token of this browser's login, None if it has none that is valid."""
    if owner is None:
        return None
    token = signer.read(purpose_under(owner.password), cookies.get(COOKIE, ""))
    return token if token is not None and digest_of(token) in owner.logins else None


def is_owner(cookies: Mapping[str, str], signer: Signer, owner: Owner | None) -> bool:
    return login_token(cookies, signer, owner) is not None


def require_owner(
    headers: Mapping[str, str], cookies: Mapping[str, str], signer: Signer, owner: Owner | None
) -> None:
    """Raise unless this is the owner's request from one of our pages."""
    if owner is None:
        raise NoPassword("no owner's password has been set")
    if not is_owner(cookies, signer, owner):
        raise NotOwner("log in first")
    if not is_same_origin(headers):
        raise Forbidden("this request comes from another site")
