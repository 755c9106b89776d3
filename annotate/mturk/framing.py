"""Pages that Mechanical Turk may frame; a ticket in their address takes the place of the cookie.

Browsers send no cookie to a frame of another site. What a ticket opens is what the cookie would
open to its participant, and nothing else: neither the dashboard nor other participants.
"""

from __future__ import annotations

import re

from fastapi import FastAPI, Request, Response
from fastapi.responses import HTMLResponse
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hsfiq.annotate.cookies import COOKIE, COOKIE_PURPOSE, Signer
from hsfiq.annotate.pages import unknown_link_page
from hsfiq.annotate.security import path_of, security_headers
from hsfiq.annotate.texts import language_for
from hsfiq.db.tables import Participant
from hsfiq.study.recruiting import SITES

TICKET = "ticket for a frame"
"""The purpose of its signature."""

FRAMED = re.compile(r"(/framed/([\w.-]{1,300}))(/.*)")

PATHS = re.compile(
    r"/(?:study|image|page|search)/.*|/question(?:/\d+)?"
    r"|/(?:opening|consent|language|messages-seen|practice|submit|questionnaire|check|withdrawal|reconsider)"
)
"""The paths that a participant's page requests."""

HEADERS = security_headers(
    frame_ancestors=" ".join(SITES),
    form_action=" ".join(("'self'", *SITES)),
    referrer="no-referrer",
)


def framed_study(participant: Participant, signer: Signer) -> str:
    """The participant's question page, relative to the app's root."""
    return f"framed/{signer.sign(TICKET, participant.token_hash)}/study/"


def add_framed_addresses(app: FastAPI) -> None:
    """Explain addresses below /framed/ that are not valid; the middleware takes the others."""

    @app.get("/framed/{address:path}")
    async def unknown_frame(request: Request) -> Response:
        page = unknown_link_page(language_for(request.headers))
        return HTMLResponse(page, status_code=404)


class FramedPages:
    """ASGI middleware that serves a participant's page below an address with their ticket."""

    def __init__(self, app: ASGIApp, signer: Signer) -> None:
        self._app, self._signer = app, signer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        inside = self._inside(scope) if scope["type"] == "http" else None
        if inside is None:
            await self._app(scope, receive, send)
            return

        async def send_framed(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
            await send(message)

        await self._app(inside, receive, send_framed)

    def _inside(self, scope: Scope) -> Scope | None:
        """The request as if the ticket were a cookie, None if its address has no valid ticket."""
        address = FRAMED.fullmatch(path_of(scope))
        if address is None:
            return None
        prefix, ticket, path = address.groups()
        token_hash = self._signer.read(TICKET, ticket)
        if token_hash is None or not PATHS.fullmatch(path):
            return None
        cookie = f"{COOKIE}={self._signer.sign(COOKIE_PURPOSE, token_hash)}".encode()
        others = [(name, value) for name, value in scope["headers"] if name != b"cookie"]
        return {
            **scope,
            "root_path": scope.get("root_path", "") + prefix,
            "headers": [(b"cookie", cookie), *others],
        }
