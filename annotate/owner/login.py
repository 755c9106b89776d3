"""The owner's login and logout, and the middleware that protects everything under /owner."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Annotated
from urllib.parse import parse_qs

from fastapi import Depends, FastAPI, Request
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hsfiq.access.owner_password import Owner, log_in, log_out, matches, stored_owner
from hsfiq.annotate.cookies import Signer, place_of_cookies
from hsfiq.annotate.owner.identity import (
    COOKIE,
    LOGIN_DURATION,
    is_owner,
    login_token,
    set_owner_cookie,
)
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
from hsfiq.db.engine import Database

OWNER = "/owner"
LOGIN = f"{OWNER}/login"
DASHBOARD = f"{OWNER}/board"

HEADERS = security_headers(frame_ancestors="'none'")

CHECKED_AT_ONCE = 2
"""Passwords checked at the same time: each check takes a CPU core and 32 MiB of memory."""


async def form_body(request: Request) -> bytes:
    """The request's body, whose size the app's middleware limits."""
    return await request.body()


Body = Annotated[bytes, Depends(form_body)]


def owner_in(database: Database) -> Owner | None:
    with database.reading() as session:
        return stored_owner(session, datetime.now(UTC))


def add_login(app: FastAPI, database: Database, signer: Signer) -> None:
    throttle, slots = LoginThrottle(database, signer), asyncio.Semaphore(CHECKED_AT_ONCE)
    counting = asyncio.Lock()  # a flood takes one connection to the database

    @app.get(OWNER)
    def board(request: Request) -> Response:
        return RedirectResponse(f"{relative_root(request)}{DASHBOARD[1:]}/", status_code=303)

    @app.get(LOGIN)
    def login_form(request: Request) -> Response:
        return HTMLResponse(login_page(request))

    @app.post(LOGIN)
    async def login(request: Request, body: Body) -> Response:
        async with counting:
            delay = await run_in_threadpool(throttle.delay_for, client_address(request))
        if delay is None:
            notice = f"Too many failed logins. Wait {RETRY_AFTER} seconds, then try again."
            headers = {"Retry-After": str(RETRY_AFTER)}
            return HTMLResponse(login_page(request, notice=notice), 429, headers)
        await asyncio.sleep(delay)
        async with slots:
            return await run_in_threadpool(check_password, request, body)

    def check_password(request: Request, body: bytes) -> Response:
        owner = owner_in(database)
        if owner is None or not matches(owner.password, password_from(body)):
            return HTMLResponse(login_page(request, notice="Wrong password."), 401)
        throttle.reset(client_address(request))
        response = RedirectResponse(f"{relative_root(request)}{DASHBOARD[1:]}/", status_code=303)
        with database.writing() as session:
            token = log_in(session, datetime.now(UTC), LOGIN_DURATION)
        set_owner_cookie(response, signer, owner.password, token, request)
        return response

    @app.post(f"{OWNER}/logout")
    def logout(request: Request) -> Response:
        token = login_token(request.cookies, signer, owner_in(database))
        if token is not None:
            with database.writing() as session:
                log_out(session, token)
        response = RedirectResponse(f"{relative_root(request)}{LOGIN[1:]}", status_code=303)
        response.delete_cookie(
            COOKIE, httponly=True, samesite="strict", **place_of_cookies(request)
        )
        return response

    app.add_middleware(OwnerMiddleware, database=database, signer=signer)


def password_from(body: bytes) -> str:
    """The password in the form, empty if there is none."""
    fields = parse_qs(body.decode("utf-8", "replace"), keep_blank_values=True)
    return fields.get("password", [""])[0]


class OwnerMiddleware:
    """Lets only the owner reach /owner, and only the routes that the dashboard uses."""

    def __init__(self, app: ASGIApp, database: Database, signer: Signer) -> None:
        self._app = app
        self._database = database
        self._signer = signer

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
        path, owner = path_of(request.scope), owner_in(self._database)
        if owner is None:
            error = "no password is set: hsfiq owner password"
            return page_or_json(request, 503, error, login_page(request, no_password=True))
        if path == LOGIN:
            return None
        if not is_owner(request.cookies, self._signer, owner):
            return page_or_json(request, 401, "log in first", login_page(request))
        below = path.removeprefix(f"{DASHBOARD}/")
        if below != path and not (is_asset(path) or GRADIO_CALLS.fullmatch(f"/{below}")):
            return JSONResponse({"error": "not found"}, status_code=404)
        return None


def is_owner_path(path: str) -> bool:
    return path == OWNER or path.startswith(f"{OWNER}/")


def is_asset(path: str) -> bool:
    return path.startswith(DASHBOARD) and bool(
        GRADIO_ASSETS.fullmatch(path.removeprefix(DASHBOARD))
    )


def login_page(request: Request, *, notice: str = "", no_password: bool = False) -> str:
    """The login form with a notice; without a password, how to set one."""
    return render(
        "owner_login.html",
        title="Study owner",
        language="en",
        login_path=relative_root(request) + LOGIN[1:],
        notice=notice,
        no_password=no_password,
    )
