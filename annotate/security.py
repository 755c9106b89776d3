"""Protection of the mounted Gradio apps: security headers, and only the routes that are used.

Gradio serves some routes to everybody and accepts uploads although no component needs them. An
ASGI middleware refuses such requests before they reach Gradio.
"""

from __future__ import annotations

import re

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hsfiq.annotate.cookies import Signer, token_in
from hsfiq.annotate.pages import unknown_browser_page
from hsfiq.annotate.payloads import LARGEST_BODY
from hsfiq.annotate.texts import language_for

STUDY = "/study"

GRADIO_ASSETS = re.compile(r"/(?:assets|static|svelte)/.*|/theme\.css")
GRADIO_CALLS = re.compile(
    r"/?(?:|config/?|gradio_api/(?:run/predict/?|heartbeat/\w+|startup-events|info/?))"
)
"""What a Gradio page requests, by path below its mount; no uploads, files or proxies."""


def security_headers(*, frame_ancestors: str, referrer: str) -> dict[str, str]:
    """The headers of every response. Gradio needs inline scripts, but no other site."""
    return {
        "Content-Security-Policy": (
            "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; "
            "style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self' data:; "
            f"frame-ancestors {frame_ancestors}; base-uri 'self'; form-action 'self'"
        ),
        "Referrer-Policy": referrer,
        "X-Content-Type-Options": "nosniff",
    }


HEADERS = security_headers(frame_ancestors="'self'", referrer="no-referrer")


def path_of(scope: Scope) -> str:
    """The request's path as the app's routes see it."""
    return str(scope["path"]).removeprefix(scope.get("root_path", ""))


class StudyMiddleware:
    """Lets only participants reach the question page, and limits the size of every request."""

    def __init__(self, app: ASGIApp, signer: Signer) -> None:
        self._app = app
        self._signer = signer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        refusal = self._refusal(Request(scope))

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await (refusal or self._app)(scope, limited(receive), send_with_headers)

    def _refusal(self, request: Request) -> Response | None:
        length = request.headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > LARGEST_BODY:
            return JSONResponse({"error": f"more than {LARGEST_BODY // 1024} kB"}, status_code=413)
        path = path_of(request.scope)
        if path != STUDY and not path.startswith(f"{STUDY}/"):
            return None
        if token_in(request.cookies, self._signer) is None:
            if "text/html" in request.headers.get("accept", ""):
                page = unknown_browser_page(language_for(request.headers))
                return HTMLResponse(page, status_code=401)
            return JSONResponse({"error": "this browser is not known"}, status_code=401)
        below = path.removeprefix(STUDY)
        if not (GRADIO_ASSETS.fullmatch(below) or GRADIO_CALLS.fullmatch(below)):
            return JSONResponse({"error": "not found"}, status_code=404)
        return None


def limited(receive: Receive) -> Receive:
    """The same messages, until a body without a declared length exceeds `LARGEST_BODY`.

    The application then sees a disconnected client, and never holds more than the limit.
    """
    received = 0

    async def receive_limited() -> Message:
        nonlocal received
        message = await receive()
        received += len(message.get("body", b""))
        return {"type": "http.disconnect"} if received > LARGEST_BODY else message

    return receive_limited
