"""Identifies who uses the dashboard: by a signed cookie after login, or as the proxy names them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from fastapi import Request, Response
from starlette.requests import HTTPConnection

from hsfiq.access import LOGIN_DURATION, user_named, user_of_login
from hsfiq.actors import Actor, Permission, User
from hsfiq.annotate.cookies import Signer, place_of_cookies
from hsfiq.annotate.security import is_same_origin
from hsfiq.annotate.serving.remote_user import remote_user
from hsfiq.db.engine import Database
from hsfiq.errors import Forbidden, Refused

COOKIE = "hsfiq_owner"
PURPOSE = "login"


class NotLoggedIn(Refused):
    status = 401


@dataclass(frozen=True, slots=True)
class Identities:
    """Finds the users of requests, in the database each time: accounts change at once."""

    database: Database
    signer: Signer

    def user_of(self, request: HTTPConnection) -> User | None:
        """A name from the proxy counts even if it names no account, and then nobody is let in."""
        name = remote_user(request.scope)
        token = self.login_token(request)
        with self.database.reading() as session:
            if name is not None:
                return user_named(session, name)
            return user_of_login(session, token, datetime.now(UTC)) if token else None

    def actor_of(self, request: HTTPConnection, permission: Permission | None = None) -> Actor:
        """The user as the audit log names them; an error as in `require`."""
        return Actor(self.require(request, permission).name)

    def login_token(self, request: HTTPConnection) -> str | None:
        """The token in this browser's cookie, None if its signature is not valid."""
        return self.signer.read(PURPOSE, request.cookies.get(COOKIE, ""))

    def require(self, request: HTTPConnection, permission: Permission | None = None) -> User:
        """The user, if this is their request from one of our pages and their role allows it."""
        user = self.user_of(request)
        if user is None:
            raise NotLoggedIn("log in first")
        if not is_same_origin(request.headers):
            raise Forbidden("this request comes from another site")
        if permission is not None:
            require_permission(user, permission)
        return user


def require_permission(user: User, permission: Permission) -> None:
    if not user.may(permission):
        raise Forbidden(f"the role {user.role} may not do this")


def set_login_cookie(response: Response, signer: Signer, token: str, request: Request) -> None:
    """Log this browser in; neither scripts nor other sites can use the cookie."""
    response.set_cookie(
        COOKIE,
        signer.sign(PURPOSE, token),
        max_age=int(LOGIN_DURATION.total_seconds()),
        httponly=True,
        samesite="strict",
        **place_of_cookies(request),
    )
