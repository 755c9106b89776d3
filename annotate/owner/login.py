"""Login and logout, and the middleware that protects everything under /owner."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Annotated
from urllib.parse import parse_qs

from fastapi import Depends, FastAPI, Request, Response
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hsfiq.access import OWNER as OWNER_ACCOUNT
from hsfiq.access import account_name, find_account, has_password, log_in, log_out, matches
from hsfiq.actors import NOBODY, Action, Actor, Outcome, Permission
from hsfiq.annotate.cookies import Signer, place_of_cookies
from hsfiq.annotate.owner.identity import COOKIE, Identities, set_login_cookie
from hsfiq.annotate.owner.login_throttle import RETRY_AFTER, LoginThrottle
from hsfiq.annotate.pages import render
from hsfiq.annotate.security import (
    GRADIO_ASSETS,
    GRADIO_CALLS,
    page_or_json,
    path_of,
    relative_root,
    security_headers,
)
from hsfiq.annotate.serving.clients import client_address
from hsfiq.annotate.serving.remote_user import remote_user
from hsfiq.audit import record

OWNER = "/owner"
LOGIN = f"{OWNER}/login"
DASHBOARD = f"{OWNER}/board"
LINK = f"{OWNER}/link"
"""Below it are the links with which the holder of an account sets its password."""

OF_EVERY_ROLE = ("", "board", "logout")
PERMISSIONS = {
    "export": Permission.EXPORT,
    "image": Permission.READ,
    "invitations": Permission.RECRUIT,
    "leaderboard": Permission.READ,
    "participant": Permission.READ,
    "preview": Permission.READ,
    "question": Permission.READ,
    "upload": Permission.READ,
}
"""What the paths below /owner need, by their next part; all others need `MANAGE`."""

HEADERS = security_headers(frame_ancestors="'none'")

CHECKED_AT_ONCE = 2
"""Passwords checked at the same time: each check takes a CPU core and 32 MiB of memory."""


async def form_body(request: Request) -> bytes:
    """The request's body, whose size the app's middleware limits."""
    return await request.body()


Body = Annotated[bytes, Depends(form_body)]


def add_login(app: FastAPI, identities: Identities) -> None:
    database, signer = identities.database, identities.signer
    throttle, slots = LoginThrottle(database, signer), asyncio.Semaphore(CHECKED_AT_ONCE)
    counting = asyncio.Lock()  # a flood takes one connection to the database

    # Both: proxies redirect the path without the slash to that with it, and the router the other
    # way if it has only one.
    @app.get(OWNER)
    @app.get(f"{OWNER}/")
    def board(request: Request) -> Response:
        return RedirectResponse(f"{relative_root(request)}{DASHBOARD[1:]}/", status_code=303)

    @app.get(LOGIN)
    def login_form(request: Request) -> Response:
        return HTMLResponse(login_page(request))

    @app.post(LOGIN)
    async def login(request: Request, body: Body) -> Response:
        name, password = name_and_password(body)
        async with counting:
            delay = await run_in_threadpool(throttle.delay_for, client_address(request), name)
        if delay is None:
            notice = f"Too many failed logins. Wait {RETRY_AFTER} seconds, then try again."
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
    """The way to the dashboard, with the cookie of a new login."""
    response = RedirectResponse(f"{relative_root(request)}{DASHBOARD[1:]}/", status_code=303)
    set_login_cookie(response, signer, token, request)
    return response


def name_and_password(body: bytes) -> tuple[str, str]:
    """The account's name and the password in the form; without a name, the owner's account."""
    fields = parse_qs(body.decode("utf-8", "replace"), keep_blank_values=True)
    name = account_name(fields.get("name", [""])[0])
    return name or OWNER_ACCOUNT, fields.get("password", [""])[0]


class OwnerMiddleware:
    """Lets only accounts reach /owner, each only what its role may use."""

    def __init__(self, app: ASGIApp, identities: Identities) -> None:
        self._app = app
        self._identities = identities

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not is_owner_path(path_of(scope)):
            await self._app(scope, receive, send)
            return
        refusal = await run_in_threadpool(self._refusal, Request(scope))
        is_cacheable = refusal is None and is_asset(path_of(scope))

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
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
            page = forbidden_page(request, user.role)
            return page_or_json(request, 403, f"the role {user.role} may not do this", page)
        below = path.removeprefix(f"{DASHBOARD}/")
        if below != path and not (is_asset(path) or GRADIO_CALLS.fullmatch(f"/{below}")):
            return JSONResponse({"error": "not found"}, status_code=404)
        return None

    def _refusal_of_stranger(self, request: Request, *, is_login: bool) -> Response | None:
        name = remote_user(request.scope)
        if name is not None and not is_login:
            error = "the proxy names a user who has no account, or a disabled one"
            notice = f"{error[0].upper()}{error[1:]}: {name[:80]}"
            return page_or_json(request, 403, error, login_page(request, notice=notice))
        with self._identities.database.reading() as session:
            if not has_password(session):
                error = "no password is set: hsfiq owner password"
                return page_or_json(request, 503, error, login_page(request, no_password=True))
        if is_login:
            return None
        return page_or_json(request, 401, "log in first", login_page(request))


def permission_for(path: str) -> Permission | None:
    """What a path under /owner needs; None if every role may use it."""
    part = path.removeprefix(OWNER).removeprefix("/").partition("/")[0]
    return None if part in OF_EVERY_ROLE else PERMISSIONS.get(part, Permission.MANAGE)


def is_owner_path(path: str) -> bool:
    return path == OWNER or path.startswith(f"{OWNER}/")


def is_asset(path: str) -> bool:
    return path.startswith(DASHBOARD) and bool(
        GRADIO_ASSETS.fullmatch(path.removeprefix(DASHBOARD))
    )


def forbidden_page(request: Request, role: str) -> str:
    return render(
        "owner_missing.html",
        title="Not for your role",
        root=relative_root(request) + OWNER[1:] + "/",
        reason=f"Accounts with the role {role} do not see this page.",
    )


def login_page(
    request: Request, name: str = OWNER_ACCOUNT, *, notice: str = "", no_password: bool = False
) -> str:
    """The login form with a notice; without a password, how to set one."""
    return render(
        "owner_login.html",
        title="Dashboard",
        language="en",
        login_path=relative_root(request) + LOGIN[1:],
        name=name,
        notice=notice,
        no_password=no_password,
    )
