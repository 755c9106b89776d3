"""Protection of all routes: security headers, no requests from other sites.

Gradio accepts requests from other sites, and lets every site read its replies unless the host is
localhost. An ASGI middleware refuses such requests before they reach Gradio.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hsfiq.annotate.pages import other_site_page, unknown_browser_page
from hsfiq.annotate.payloads import largest_body
from hsfiq.annotate.preview import COOKIE
from hsfiq.annotate.serving.health import answer_faults, too_large
from hsfiq.annotate.texts import language_for

READING = ("GET", "HEAD")
"""The methods that change nothing."""


def security_headers(
    *, frame_ancestors: str, form_action: str = "'self'", referrer: str = "same-origin"
) -> dict[str, str]:
    """The headers of every response. The pages have inline scripts, but need no other site.

    With `no-referrer`, browsers hide the origin of our own forms: only Sec-Fetch-Site, which they
    send over TLS, then shows that a form is ours.
    """
    return {
        "Content-Security-Policy": (
            "default-src 'self'; script-src 'self' 'unsafe-inline'; "
            "style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self' data:; "
            f"frame-ancestors {frame_ancestors}; base-uri 'self'; form-action {form_action}"
        ),
        "Referrer-Policy": referrer,
        "X-Content-Type-Options": "nosniff",
    }


HEADERS = security_headers(frame_ancestors="'self'")


def path_of(scope: Scope) -> str:
    """The request's path relative to the app's routes."""
    return str(scope["path"]).removeprefix(scope.get("root_path", ""))


def relative_root(request: Request) -> str:
    """The relative path to the app's root, which is valid behind any proxy."""
    return "../" * (path_of(request.scope).count("/") - 1)


def is_same_origin(headers: Mapping[str, str]) -> bool:
    """Whether a browser sent this request from one of our pages (protects against CSRF).

    Current browsers send Sec-Fetch-Site, except over plain HTTP to another machine; there every
    request except GET and HEAD has an origin. A client that sends neither header is not a browser,
    so no other site can control it.
    """
    site = headers.get("sec-fetch-site")
    if site is not None:
        return site in ("same-origin", "none")
    origin = headers.get("origin")
    if origin is None:
        return True
    host = urlsplit(origin).netloc
    return host != "" and host in (headers.get("host"), headers.get("x-forwarded-host"))


class StudyMiddleware:
    """Refuses changes that other sites request, and requests that are too large.

    `pages` has the path of each question page, and whether a request may see it.
    """

    def __init__(self, app: ASGIApp, pages: Mapping[str, Callable[[Request], bool]]) -> None:
        self._app = app
        self._pages = pages

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        largest = largest_body(path_of(scope))
        refusal = self._refusal(Request(scope), largest)

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name in [name for name in headers if name.startswith("access-control-")]:
                    del headers[name]
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        app = refusal or self._app
        await answer_faults(app, scope, receive, send_with_headers, largest=largest)

    def _refusal(self, request: Request, largest: int) -> Response | None:
        length = request.headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > largest:
            return too_large(largest)
        path = path_of(request.scope)
        if request.method not in READING and not is_same_origin(request.headers):
            page = other_site_page(language_for(request.headers), relative_root(request) or "./")
            return page_or_json(request, 403, "this request comes from another site", page)
        may_see = self._pages.get(path)
        if may_see is not None and not may_see(request):
            page = unknown_browser_page(language_for(request.headers))
            return page_or_json(request, 401, "this browser is unknown", page)
        return None


def page_or_json(request: Request, status: int, error: str, page: str) -> Response:
    """The page for a person, the error as JSON for a script."""
    if "text/html" in request.headers.get("accept", ""):
        return HTMLResponse(page, status_code=status)
    return JSONResponse({"error": error}, status_code=status)


# A preview in a frame of our own pages: its place is in the address, in place of a cookie.

FRAMED = re.compile(r"(/framed-preview/([\w.:-]{1,400}))(/preview/.*)")


class FramedPreviews:
    """ASGI middleware that serves a preview below an address with its place."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        address = FRAMED.fullmatch(path_of(scope)) if scope["type"] == "http" else None
        if address is not None and scope["method"] in READING:
            prefix, place, _ = address.groups()
            others = [(name, value) for name, value in scope["headers"] if name != b"cookie"]
            scope = {
                **scope,
                "root_path": scope.get("root_path", "") + prefix,
                "headers": [(b"cookie", f"{COOKIE}={place}".encode()), *others],
            }
        await self._app(scope, receive, send)
