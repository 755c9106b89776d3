"""Whether the process can take answers (`/healthz`, `/readyz`), and pages for faults."""

from __future__ import annotations

import errno
from logging import getLogger
from pathlib import Path
from urllib.parse import parse_qsl

import anyio
from anyio import CapacityLimiter
from fastapi import FastAPI, Request, Response
from fastapi.responses import HTMLResponse, JSONResponse
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hsfiq.annotate.pages import render
from hsfiq.annotate.texts import entry_texts, language_for
from hsfiq.db.engine import Database
from hsfiq.db.failures import LEAST_SPACE, first_existing, free_space, unavailable
from hsfiq.db.schema import current_revision, head_revision
from hsfiq.db.sqlite import file_of
from hsfiq.errors import Unavailable

# Requests that break off, are too large, or come while the database cannot work.

RETRY_SECONDS = 5

FORM = "application/x-www-form-urlencoded"

SECRET_FIELDS = ("password",)
"""Fields that no page repeats, even to their author."""

NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EMFILE, errno.ENFILE)

logger = getLogger(__name__)


def wants_page(headers: Headers) -> bool:
    return "text/html" in headers.get("accept", "")


async def answer_faults(
    app: ASGIApp, scope: Scope, receive: Receive, send: Send, *, largest: int
) -> None:
    """Run an app; answer 413 for a body that is too large, 503 if something is unavailable.

    A client that hangs up gets no answer, and nothing is logged about it.
    """
    body = ReceivedBody(receive, largest)
    has_begun = False

    async def send_unless_too_large(message: Message) -> None:
        nonlocal has_begun
        if body.is_too_large and not has_begun:
            return
        has_begun = True
        await send(message)

    try:
        await app(scope, body.receive, send_unless_too_large)
    except ClientDisconnect:
        pass
    except (Unavailable, OSError) as error:
        if has_begun or not (isinstance(error, Unavailable) or error.errno in NO_SPACE):
            raise
        response = await unavailable_response(Request(scope, body.receive), error, body)
        await response(scope, receive, send)
        return
    if body.is_too_large and not has_begun:
        await too_large(largest)(scope, receive, send)


def too_large(largest: int) -> Response:
    return JSONResponse({"error": f"more than {largest // 1024} kB"}, status_code=413)


class ReceivedBody:
    """A request's body, stored while it is read, up to a maximum number of bytes.

    The application then sees a disconnected client, and never holds more than the limit.
    """

    def __init__(self, receive: Receive, largest: int) -> None:
        self._receive, self._largest = receive, largest
        self.content = bytearray()
        self._is_complete = False
        self.is_too_large = False

    async def receive(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.request":
            self.content += message.get("body", b"")
            self._is_complete = not message.get("more_body", False)
        else:
            self._is_complete = True
        if len(self.content) > self._largest:
            self.is_too_large = self._is_complete = True
            self.content.clear()
            return {"type": "http.disconnect"}
        return message

    async def form(self) -> list[tuple[str, str]]:
        """The fields of a form, after reading what the application has not read."""
        while not self._is_complete:
            await self.receive()
        return parse_qsl(self.content.decode("utf-8", "replace"), keep_blank_values=True)


async def unavailable_response(
    request: Request, error: Exception, body: ReceivedBody | None = None
) -> Response:
    """503: JSON for a script; for a person, a page that sends the same fields again."""
    route = request.scope.get("route")
    # A path may hold a participant's token.
    place = getattr(route, "path", None) or "a page"
    reason = str(error) if isinstance(error, Unavailable) else f"{error.args[-1]}"
    logger.warning("503 at %s %s: %s", request.method, place, reason)
    headers = {"Retry-After": str(RETRY_SECONDS), "Cache-Control": "no-store"}
    if not wants_page(request.headers):
        return JSONResponse({"error": reason}, 503, headers)
    is_form = request.headers.get("content-type", "").startswith(FORM)
    fields = await body.form() if body is not None and is_form else []
    return HTMLResponse(unavailable_page(request, fields), 503, headers)


def unavailable_page(request: Request, fields: list[tuple[str, str]]) -> str:
    """The page for a person, with a button that sends the same request again."""
    language = language_for(request.headers)
    has_secret = any(name in SECRET_FIELDS for name, _ in fields)
    return render(
        "unavailable.html",
        title=entry_texts(language)["unavailable_title"],
        language=language,
        text=entry_texts(language),
        method="get" if request.method == "GET" else "post",
        fields=[] if has_secret else fields,
        must_go_back=has_secret,
    )


CHECK_SECONDS = 5.0
"""Seconds after which a check fails."""

CHECKS_AT_ONCE = 2

OK = "ok"


def add_health(app: FastAPI, database: Database, image_copies: Path) -> None:
    """Add the routes; `/readyz` fails if all threads that answer requests stay busy."""
    threads = CapacityLimiter(CHECKS_AT_ONCE)

    @app.get("/healthz")
    async def health() -> dict[str, bool]:
        return {"ok": True}

    @app.get("/healthz/client")
    async def client(request: Request) -> JSONResponse:
        """Shows `hsfiq doctor` whether a proxy passes on the client's address."""
        port = request.client.port if request.client else 0
        content = {"is_told": "x-forwarded-for" in request.headers, "port": port}
        return JSONResponse(content, headers={"Cache-Control": "no-store"})

    @app.get("/readyz")
    async def ready() -> JSONResponse:
        checks = {"threads": "no thread is free in time", "database": "no answer in time"}
        checks |= {"migrations": "unknown", "disk": "unknown"}

        async def check_threads() -> None:
            await anyio.to_thread.run_sync(int)  # anything, by a thread that answers requests
            checks["threads"] = OK

        async def check_state() -> None:
            checks.update(
                await anyio.to_thread.run_sync(
                    state_of, database, image_copies, abandon_on_cancel=True, limiter=threads
                )
            )

        with anyio.move_on_after(CHECK_SECONDS):
            async with anyio.create_task_group() as group:
                group.start_soon(check_threads)
                group.start_soon(check_state)
        is_ready = set(checks.values()) == {OK}
        content = {"ok": is_ready, **checks}
        return JSONResponse(content, 200 if is_ready else 503, {"Cache-Control": "no-store"})


def state_of(database: Database, image_copies: Path) -> dict[str, str]:
    """For each check `ok`, or a short description of the fault."""
    disk = disk_state(database, image_copies)
    try:
        database.require_writable()
        with unavailable():
            revision = current_revision(database.engine)
    except Unavailable as error:
        return {"database": str(error), "migrations": "unknown", "disk": disk}
    needed = head_revision()
    migrations = OK if revision == needed else f"revision {revision}, needed is {needed}"
    return {"database": OK, "migrations": migrations, "disk": disk}


def disk_state(database: Database, image_copies: Path) -> str:
    """Whether the disks of a SQLite file and of the images' copies have space left."""
    is_sqlite = database.engine.dialect.name == "sqlite"
    file = file_of(database.engine.url) if is_sqlite else None
    for folder in ([file.parent] if file else []) + [image_copies]:
        existing = first_existing(folder)
        if existing is not None and free_space(existing) < LEAST_SPACE:
            return f"less than {LEAST_SPACE // 2**20} MB left"
    return OK
