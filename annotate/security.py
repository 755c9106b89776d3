"""The wall around the mounted Gradio app: no cookie, no answer; and no door that nobody needs.

Gradio answers some of its routes to anybody and takes uploads although no component wants one.
A plain ASGI wrapper settles both before Gradio is reached.
"""

from __future__ import annotations

import re

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hsfiq.annotate.cookies import token_in
from hsfiq.annotate.payloads import LARGEST_BODY
from hsfiq.annotate.signing import Signer
from hsfiq.annotate.texts import preferred_language
from hsfiq.annotate.welcome import stranger_page

STUDY = "/study"
OPEN = re.compile(
    STUDY + r"/?(?:|assets/.*|static/.*|svelte/.*|theme\.css|config/?|gradio_api/(?:run/predict/?"
    r"|heartbeat/\w+|startup-events|info/?))"
)
"""What Gradio's page asks for. Everything else of Gradio's stays shut: uploads, files, proxies."""

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; "
        "style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self' data:; "
        "frame-ancestors 'self'; base-uri 'self'; form-action 'self'"
    ),
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
"""Gradio's page runs inline scripts; what matters is that it can neither load from nor tell
another site anything."""


class Guard:
    """Lets only known participants reach the study, and only the routes that its page uses."""

    def __init__(self, app: ASGIApp, signer: Signer) -> None:
        self._app = app
        self._signer = signer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer for one request or connection."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        refusal = self._refusal(request)

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await (refusal or self._app)(scope, capped(receive), send_with_headers)

    def _refusal(self, request: Request) -> Response | None:
        """What a request gets that may not pass, None for one that may."""
        length = request.headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > LARGEST_BODY:
            return JSONResponse({"error": f"more than {LARGEST_BODY // 1024} kB"}, status_code=413)
        path = str(request.scope["path"]).removeprefix(request.scope.get("root_path", ""))
        if path != STUDY and not path.startswith(f"{STUDY}/"):
            return None
        if token_in(request.cookies, self._signer) is None:
            if "text/html" in request.headers.get("accept", ""):
                language = preferred_language(request.headers.get("accept-language", ""))
                return HTMLResponse(stranger_page(language), status_code=401)
            return JSONResponse({"error": "this browser is not known here"}, status_code=401)
        if not OPEN.fullmatch(path):
            return JSONResponse({"error": "there is nothing here"}, status_code=404)
        return None


def capped(receive: Receive) -> Receive:
    """The same messages, until a body that did not announce its length grows too large.

    The application then sees its sender hang up, and never holds more than the cap.
    """
    received = 0

    async def within_cap() -> Message:
        nonlocal received
        message = await receive()
        received += len(message.get("body", b""))
        return {"type": "http.disconnect"} if received > LARGEST_BODY else message

    return within_cap
