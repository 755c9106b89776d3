"""The owner's login and logout, throttled, and the middleware that protects /owner."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from math import ceil
from urllib.parse import parse_qs

from fastapi import FastAPI, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from sqlalchemy import ColumnElement, delete, select
from sqlalchemy.orm import Session
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hsfiq.access import (
    LOGIN_DURATION,
    account_name,
    find_account,
    has_password,
    log_in,
    log_out,
    matches,
    user_named,
    user_of_login,
)
from hsfiq.access import OWNER as OWNER_ACCOUNT
from hsfiq.actors import NOBODY, Action, Actor, Outcome, Permission, User
from hsfiq.annotate.cookies import Signer, place_of_cookies
from hsfiq.annotate.pages import FOLDER, render
from hsfiq.annotate.security import (
    is_same_origin,
    page_or_json,
    path_of,
    relative_root,
    security_headers,
)
from hsfiq.annotate.serving.proxy import client_address, network_of, remote_user
from hsfiq.audit import record
from hsfiq.db.engine import Database
from hsfiq.db.postgres import lock_table, time_of
from hsfiq.db.source_tables import LoginAttempts
from hsfiq.errors import Forbidden, Refused
from hsfiq.study.languages import preferred

# The language of owners, and the texts of their pages.

LANGUAGES = {"en": "English", "ko": "한국어"}
LANGUAGE_COOKIE = "hsfiq_owner_language"


@cache
def translations(language: str) -> Mapping[str, str]:
    """The texts of the studio in a language, by the English ones."""
    files = (FOLDER / "languages" / f"studio.{language}").glob("*.json")
    return {k: v for path in files for k, v in json.loads(path.read_text("utf-8")).items()}


def translated(language: str, text: str, /, **values: object) -> str:
    """A text in a language; `values` replace its names in braces."""
    shown = text if language == "en" else translations(language).get(text, text)
    return shown.format_map(values) if values else shown


def language_of(request: Request) -> str:
    for chosen in (request.query_params.get("language"), request.cookies.get(LANGUAGE_COOKIE)):
        if chosen in LANGUAGES:
            return str(chosen)
    return preferred(request.headers.get("accept-language", ""), tuple(LANGUAGES)) or "en"


def page_for(request: Request, template: str, **values: object) -> str:
    """A page for owners outside the frame of the studio."""
    language = language_of(request)
    return render(template, language=language, t=partial(translated, language), **values)


# Identifies who uses the studio: by a signed cookie after login, or as the proxy names them.

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
        """A name from the proxy takes precedence; if it names no account, access is refused."""
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
        """The user, if the request comes from one of the app's pages and the role allows it."""
        user = self.user_of(request)
        if user is None:
            raise NotLoggedIn("log in first")
        if not is_same_origin(request.headers):
            raise Forbidden("this request comes from another site")
        if permission is not None and not user.may(permission):
            raise Forbidden(f"the role {user.role} may not do this")
        return user


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


# Slows down password guessing: each attempt of a client waits longer than the one before.
#
# Clients that go on guessing also wait for each other where they name the same account.

FIRST_DELAY, LONGEST_DELAY = 0.25, 5.0
"""Seconds before a client's second attempt, doubled for each after it, and the maximum."""

OWN_ATTEMPTS = 3
"""The attempts of a client that never wait for others', so that others cannot lock it out."""

NAME_DELAY = 1.0
"""Seconds between two attempts for one account by clients that have made more."""

LONGEST_QUEUE = 20.0
RETRY_AFTER = ceil(LONGEST_QUEUE)
"""Seconds after which all waiting attempts of a refused client have been made."""

FORGET_AFTER = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class Queue:
    """The attempts of one client, or those of several clients for one account."""

    key: str
    first_delay: float
    longest_delay: float


class LoginThrottle:
    """A queue for each client, and one for each name of an account, whether it exists or not.

    The queues are in the database: a client that reaches several processes or hosts is no faster
    than with one. They are identified by keyed digests of addresses and names, which are not
    stored.
    """

    def __init__(self, database: Database, signer: Signer) -> None:
        self._database, self._signer = database, signer

    def delay_for(self, address: str, name: str) -> float | None:
        """Seconds to wait before this attempt, None if too many are waiting in its queues.

        An attempt counts as failed until its password has been checked, so simultaneous ones wait
        too.
        """
        with self._database.reading() as session:  # a refused flood writes and locks nothing
            now = time_of(session)
            queues = self._queues(session, address, name, now)
            if any(wait_of(attempts, now) is None for attempts in queues.values()):
                return None
        with self._database.writing() as session:
            lock_table(session, LoginAttempts, "EXCLUSIVE")
            now = time_of(session)
            forget_old(session, now)
            queues = self._queues(session, address, name, now)
            waits = {queue: wait_of(attempts, now) for queue, attempts in queues.items()}
            seconds = [wait for wait in waits.values() if wait is not None]
            if len(seconds) < len(waits):
                return None
            for (queue, attempts), wait in zip(queues.items(), seconds, strict=True):
                add_attempt(session, queue, attempts, now, wait)
            return max(seconds)

    def _queues(
        self, session: Session, address: str, name: str, now: datetime
    ) -> dict[Queue, LoginAttempts | None]:
        """The queues in which an attempt waits, with the attempts before it."""
        client = Queue(self._client(address), FIRST_DELAY, LONGEST_DELAY)
        attempts = attempts_of(session, client.key, now)
        queues = {client: attempts}
        if attempts is not None and attempts.delay >= FIRST_DELAY * 2 ** (OWN_ATTEMPTS - 1):
            key = self._signer.derive("name at login", name)
            account = Queue(key, NAME_DELAY, NAME_DELAY)
            queues[account] = attempts_of(session, account.key, now)
        return queues

    def succeeded(self, address: str) -> None:
        """Remove the count of the client's last attempt, because its password was correct.

        Earlier failures still count: otherwise an attacker could log in to their own account
        between two guesses at another password.
        """
        with self._database.writing() as session:
            lock_table(session, LoginAttempts, "EXCLUSIVE")
            attempts = attempts_of(session, self._client(address), time_of(session))
            if attempts is None:
                return
            attempts.delay /= 2
            if attempts.delay < FIRST_DELAY:
                session.delete(attempts)

    def _client(self, address: str) -> str:
        return self._signer.derive("login", network_of(address))


def remembered(now: datetime) -> ColumnElement[bool]:
    """Whether attempts count; those in the future are from before the clock was set back."""
    return LoginAttempts.last_at.between(now - FORGET_AFTER, now)


def attempts_of(session: Session, key: str, now: datetime) -> LoginAttempts | None:
    in_queue = select(LoginAttempts).where(LoginAttempts.client == key, remembered(now))
    return session.scalars(in_queue).one_or_none()


def add_attempt(
    session: Session, queue: Queue, before: LoginAttempts | None, now: datetime, wait: float
) -> None:
    """Count an attempt that waits in this queue for `wait` seconds."""
    delay = min(2 * before.delay, queue.longest_delay) if before else queue.first_delay
    free_at = now + timedelta(seconds=wait)
    session.merge(LoginAttempts(client=queue.key, delay=delay, last_at=now, free_at=free_at))


def forget_old(session: Session, now: datetime) -> None:
    session.execute(delete(LoginAttempts).where(~remembered(now)))


def wait_of(attempts: LoginAttempts | None, now: datetime) -> float | None:
    """Seconds before the next attempt in a queue, None if it is too long."""
    seconds = 0.0
    if attempts:
        seconds = max(0.0, (attempts.free_at - now).total_seconds()) + attempts.delay
    return seconds if seconds <= LONGEST_QUEUE else None


OWNER = "/owner"
LOGIN = f"{OWNER}/login"
LINK = f"{OWNER}/link"
"""The path above the links for setting an account's password."""

OF_EVERY_ROLE = ("", "board", "files", "logout")
PERMISSIONS = {
    "image": Permission.READ,
    "leaderboard": Permission.READ,
    "preview": Permission.READ,
    "study": Permission.READ,
    "upload": Permission.READ,
}
"""The permissions for paths below /owner, by their next part; all other paths need `MANAGE`.

Pages declare further permissions themselves.
"""

HEADERS = security_headers(frame_ancestors="'none'")

CHECKED_AT_ONCE = 2
"""Passwords checked at the same time: each check takes a CPU core and 32 MiB of memory."""


def add_login(app: FastAPI, identities: Identities) -> None:
    database, signer = identities.database, identities.signer
    throttle, slots = LoginThrottle(database, signer), asyncio.Semaphore(CHECKED_AT_ONCE)
    counting = asyncio.Lock()  # a flood takes one connection to the database

    @app.get(OWNER)
    @app.get(f"{OWNER}/board")
    @app.get(f"{OWNER}/board/")
    def home(request: Request) -> Response:
        return RedirectResponse(f"{relative_root(request)}{OWNER[1:]}/", status_code=303)

    @app.get(LOGIN)
    def login_form(request: Request) -> Response:
        return HTMLResponse(login_page(request))

    @app.post(LOGIN)
    async def login(request: Request) -> Response:
        name, password = name_and_password(await request.body())  # the app limits its size
        async with counting:
            delay = await run_in_threadpool(throttle.delay_for, client_address(request), name)
        if delay is None:
            wait = "Too many failed logins. Wait {n} seconds, then try again."
            notice = translated(language_of(request), wait, n=RETRY_AFTER)
            headers = {"Retry-After": str(RETRY_AFTER)}
            return HTMLResponse(login_page(request, name, notice=notice), 429, headers)
        await asyncio.sleep(delay)
        async with slots:
            return await run_in_threadpool(check_password, request, name, password)

    def check_password(request: Request, name: str, password: str) -> Response:
        with database.reading() as session:
            account = find_account(session, name)
            stored = None if account is None or account.is_disabled else account.password
        if not matches(stored, password):
            about = "" if account is None else account.name
            with database.writing() as session:
                record(session, NOBODY, Action.LOGIN, about=about, outcome=Outcome.REFUSED)
            return HTMLResponse(login_page(request, name, notice="Wrong name or password."), 401)
        with database.writing() as session:
            account = find_account(session, name, lock=True)
            if account is None or account.is_disabled or account.password != stored:
                return HTMLResponse(login_page(request, name, notice="Try again."), 401)
            token = log_in(session, account, datetime.now(UTC))
            record(session, Actor(account.name), Action.LOGIN)
        throttle.succeeded(client_address(request))
        return logged_in(request, signer, token)

    @app.post(f"{OWNER}/logout")
    def logout(request: Request) -> Response:
        token, actor = identities.login_token(request), identities.actor_of(request)
        if token is not None:
            with database.writing() as session:
                log_out(session, token)
                record(session, actor, Action.LOGOUT)
        response = RedirectResponse(f"{relative_root(request)}{LOGIN[1:]}", status_code=303)
        response.delete_cookie(
            COOKIE, httponly=True, samesite="strict", **place_of_cookies(request)
        )
        return response

    app.add_middleware(OwnerMiddleware, identities=identities)


def logged_in(request: Request, signer: Signer, token: str) -> Response:
    """The way to the list of studies, with the cookie of a new login."""
    response = RedirectResponse(f"{relative_root(request)}{OWNER[1:]}/", status_code=303)
    set_login_cookie(response, signer, token, request)
    return response


def name_and_password(body: bytes) -> tuple[str, str]:
    """The account's name and the password in the form; without a name, the owner's account."""
    fields = parse_qs(body.decode("utf-8", "replace"), keep_blank_values=True)
    name = account_name(fields.get("name", [""])[0])
    return name or OWNER_ACCOUNT, fields.get("password", [""])[0]


class OwnerMiddleware:
    """Lets only accounts reach /owner, and each account only the pages for its role."""

    def __init__(self, app: ASGIApp, identities: Identities) -> None:
        self._app = app
        self._identities = identities

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not is_owner_path(path_of(scope)):
            await self._app(scope, receive, send)
            return
        refusal = await run_in_threadpool(self._refusal, Request(scope))
        is_asset = path_of(scope).startswith(f"{OWNER}/files/")
        is_cacheable = refusal is None and is_asset

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                if not is_cacheable:
                    headers["Cache-Control"] = "no-store"
            await send(message)

        await (refusal or self._app)(scope, receive, send_with_headers)

    def _refusal(self, request: Request) -> Response | None:
        path = path_of(request.scope)
        if path.startswith(f"{LINK}/"):
            return None
        user = None if path == LOGIN else self._identities.user_of(request)
        if user is None:
            return self._refusal_of_stranger(request, is_login=path == LOGIN)
        permission = permission_for(path)
        if permission is not None and not user.may(permission):
            root = f"{relative_root(request)}{OWNER[1:]}/"
            page = page_for(request, "owner_missing.html", root=root, role=user.role)
            return page_or_json(request, 403, f"the role {user.role} may not do this", page)
        return None

    def _refusal_of_stranger(self, request: Request, *, is_login: bool) -> Response | None:
        name = remote_user(request.scope)
        if name is not None and not is_login:
            error = "the proxy names a user who has no account, or a disabled one"
            notice = f"{error[0].upper()}{error[1:]}: {name[:80]}"
            return page_or_json(request, 403, error, login_page(request, notice=notice))
        with self._identities.database.reading() as session:
            if not has_password(session):
                error = "no password is set: hsfiq account password"
                return page_or_json(request, 503, error, login_page(request, no_password=True))
        if is_login:
            return None
        return page_or_json(request, 401, "log in first", login_page(request))


def permission_for(path: str) -> Permission | None:
    """The permission for a path under /owner; None if every role may use it."""
    part, *rest = path.removeprefix(OWNER).removeprefix("/").split("/")
    if part == "study" and rest[-1:] == ["recruiting"]:
        return Permission.RECRUIT
    return None if part in OF_EVERY_ROLE else PERMISSIONS.get(part, Permission.MANAGE)


def is_owner_path(path: str) -> bool:
    return path == OWNER or path.startswith(f"{OWNER}/")


def login_page(
    request: Request, name: str = OWNER_ACCOUNT, *, notice: str = "", no_password: bool = False
) -> str:
    """The login form with a notice; without a password, how to set one."""
    return page_for(
        request,
        "owner_login.html",
        title="hsfiq studio",
        login_path=relative_root(request) + LOGIN[1:],
        name=name,
        notice=notice,
        no_password=no_password,
    )
