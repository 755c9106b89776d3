"""Who is the owner: a signed cookie after a login, and requests that come from our own pages."""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Mapping
from urllib.parse import urlsplit

from fastapi import Response

from hsfiq.annotate.signing import Signer
from hsfiq.errors import Forbidden, Refused

COOKIE = "hsfiq_owner"
HALF_A_DAY = 12 * 3600


class NotOwner(Refused):
    """The request comes without the owner's cookie, or with one whose time is over."""

    status = 401


class NoPassword(Refused):
    """Nobody can log in: no password has been set."""

    status = 503


def purpose_under(password: str) -> str:
    """What the cookie is signed for: a new password makes every earlier cookie worthless."""
    return f"owner {hashlib.sha256(password.encode()).hexdigest()}"


def remember_owner(response: Response, signer: Signer, password: str, *, secure: bool) -> None:
    """Log this browser in for half a day; scripts cannot read it, other sites cannot send it.

    Args:
        signer: this database's.
        password: the stored hash.
        secure: whether the page came over https.
    """
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
    """Whether these cookies hold a login under the stored password that is not over."""
    if password is None:
        return False
    text = signer.read(purpose_under(password), cookies.get(COOKIE, ""))
    return text is not None and int(text.partition(".")[0]) > time.time()


def is_from_here(headers: Mapping[str, str]) -> bool:
    """Whether a browser sent this request from a page of ours (CSRF).

    The strict cookie keeps other sites out; this keeps out other ports and names of this one,
    too. What sends neither header is no browser, and carries no cookie that it does not know.
    """
    if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        return False
    origin = headers.get("origin")
    if origin is None:
        return True
    host = urlsplit(origin).netloc
    return host != "" and host in (headers.get("host"), headers.get("x-forwarded-host"))


def require_owner(
    headers: Mapping[str, str], cookies: Mapping[str, str], signer: Signer, password: str | None
) -> None:
    """Raise unless the owner asks, from a page of ours.

    Raises:
        NoPassword: none has been set.
        NotOwner: the cookies hold no login.
        Forbidden: the request comes from another site.
    """
    if password is None:
        raise NoPassword("no owner's password has been set")
    if not is_owner(cookies, signer, password):
        raise NotOwner("log in first")
    if not is_from_here(headers):
        raise Forbidden("this request comes from another site")
