"""The owner's door: the login, the logout, the wall around everything else under /owner."""

from __future__ import annotations

import asyncio
import re
from html import escape
from pathlib import Path
from string import Template
from typing import Annotated
from urllib.parse import parse_qs

from fastapi import Depends, FastAPI, Request
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hsfiq.annotate.owner.identity import COOKIE, is_from_here, is_owner, remember_owner
from hsfiq.annotate.owner.login_throttle import Patience
from hsfiq.annotate.signing import Signer
from hsfiq.db.engine import Database
from hsfiq.owner_password import matches, stored_password

OWNER = "/owner"
LOGIN = f"{OWNER}/login"
BOARD = f"{OWNER}/board"

ASSETS = re.compile(BOARD + r"/(?:assets|static|svelte)/.*|" + BOARD + r"/theme\.css")
OPEN = re.compile(
    BOARD + r"/?(?:|config/?|gradio_api/(?:run/predict/?|heartbeat/\w+|startup-events|info/?))"
)
"""What the board's page asks of Gradio, beside its assets; all else of Gradio's stays shut."""

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; "
        "style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self' data:; "
        "frame-ancestors 'none'; base-uri 'self'; form-action 'self'"
    ),
    "Referrer-Policy": "same-origin",  # with none at all, browsers hide the origin of our forms
    "X-Content-Type-Options": "nosniff",
}

FRAME = Template(
    (Path(__file__).parents[1] / "static" / "owner_door.html").read_text(encoding="utf-8")
)
FORM = Template(
    '$notice<form method="post" action="$up$login" onsubmit="this.enter.disabled = true">'
    '<label for="password">Password</label>'
    '<input id="password" name="password" type="password" autocomplete="current-password"'
    ' maxlength="1000" required autofocus><button name="enter" type="submit">Log in</button></form>'
)

HASHED_AT_ONCE = 2
"""Passwords checked at a time, whoever sends them: each takes a core and 32 MiB of memory."""


async def form_body(request: Request) -> bytes:
    """The request's body, whose size the app's middleware limits."""
    return await request.body()


Body = Annotated[bytes, Depends(form_body)]


def password_in(database: Database) -> str | None:
    """The stored hash, None where no password has been set."""
    with database.reading() as session:
        return stored_password(session)


def add_door(app: FastAPI, database: Database, signer: Signer) -> None:
    """Add the login and the logout, and put the wall around them and all the rest."""
    patience, hashing = Patience(), asyncio.Semaphore(HASHED_AT_ONCE)

    @app.get(OWNER)
    def board(request: Request) -> Response:
        return RedirectResponse(f"{up_from(request)}{BOARD[1:]}/", status_code=303)

    @app.get(LOGIN)
    def login_page(request: Request) -> Response:
        return HTMLResponse(login_form(request))

    @app.post(LOGIN)
    async def login(request: Request, body: Body) -> Response:
        wait = patience.turn(address_of(request))
        if wait is None:
            notice = "Too many wrong tries just now. Wait a minute, then try again."
            return HTMLResponse(login_form(request, notice), 429, {"Retry-After": "60"})
        await asyncio.sleep(wait)
        async with hashing:
            return await run_in_threadpool(try_password, request, body)

    def try_password(request: Request, body: bytes) -> Response:
        stored, given = password_in(database), password_from(body)
        if stored is None or not matches(stored, given):
            return HTMLResponse(login_form(request, "That was not the password."), 401)
        patience.right(address_of(request))
        response = RedirectResponse(f"{up_from(request)}{BOARD[1:]}/", status_code=303)
        secure = request.url.scheme == "https"
        remember_owner(response, signer, stored, secure=secure)
        return response

    @app.post(f"{OWNER}/logout")
    def logout(request: Request) -> Response:
        response = RedirectResponse(f"{up_from(request)}{LOGIN[1:]}", status_code=303)
        response.delete_cookie(COOKIE, httponly=True, samesite="strict")
        return response

    app.add_middleware(Wall, database=database, signer=signer)


def password_from(body: bytes) -> str:
    """The password that the form sends, nothing where it sends none."""
    fields = parse_qs(body.decode("utf-8", "replace"), keep_blank_values=True)
    return fields.get("password", [""])[0]


def address_of(request: Request) -> str:
    """Whom the server takes to have sent this; it trusts a header on that from its proxy alone."""
    return request.client.host if request.client else ""


class Wall:
    """Lets only the owner pass, and only to the routes that the board's page uses."""

    def __init__(self, app: ASGIApp, database: Database, signer: Signer) -> None:
        self._app = app
        self._database = database
        self._signer = signer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer for one request or connection."""
        if scope["type"] != "http" or not is_owners(path_of(scope)):
            await self._app(scope, receive, send)
            return
        refusal = await run_in_threadpool(self._refusal, Request(scope))
        is_asset = ASSETS.fullmatch(path_of(scope)) is not None

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                if refusal is not None or not is_asset:
                    headers["Cache-Control"] = "no-store"
            await send(message)

        await (refusal or self._app)(scope, receive, send_with_headers)

    def _refusal(self, request: Request) -> Response | None:
        """What a request gets that may not pass, None for one that may."""
        path, password = path_of(request.scope), password_in(self._database)
        if password is None:
            return page_or_line(request, 503, "no password is set: hsfiq owner password", UNSET)
        if request.method not in ("GET", "HEAD") and not is_from_here(request.headers):
            what = "this request comes from another site"
            return page_or_line(request, 403, what, f"<p>{what.capitalize()}.</p>")
        if path == LOGIN:
            return None
        if not is_owner(request.cookies, self._signer, password):
            return page_or_line(request, 401, "log in first", form(request))
        if path.startswith(f"{BOARD}/") and not (ASSETS.fullmatch(path) or OPEN.fullmatch(path)):
            return JSONResponse({"error": "there is nothing here"}, status_code=404)
        return None


UNSET = (
    "<p>Nobody can log in yet: no password has been set, and there is no default one."
    " On the machine that serves this study, run</p><code>hsfiq owner password</code>"
)


def is_owners(path: str) -> bool:
    """Whether a path is the owner's part."""
    return path == OWNER or path.startswith(f"{OWNER}/")


def path_of(scope: Scope) -> str:
    """The path as the app's routes see it."""
    return str(scope["path"]).removeprefix(scope.get("root_path", ""))


def up_from(request: Request) -> str:
    """The relative way to the app's root; it holds behind any proxy."""
    return "../" * (path_of(request.scope).count("/") - 1)


def page_or_line(request: Request, status: int, line: str, body: str) -> Response:
    """A page for a person, one line for a script."""
    if "text/html" in request.headers.get("accept", ""):
        return HTMLResponse(page(body), status_code=status)
    return JSONResponse({"error": line}, status_code=status)


def login_form(request: Request, notice: str = "") -> str:
    """The page with the login's form."""
    return page(form(request, notice))


def form(request: Request, notice: str = "") -> str:
    """The login's form, with a line on what went wrong."""
    line = f'<p class="notice" role="alert">{escape(notice)}</p>' if notice else ""
    return FORM.substitute(notice=line, up=up_from(request), login=LOGIN[1:])


def page(body: str) -> str:
    """A page of the door."""
    return FRAME.substitute(title="Study owner", body=body)
