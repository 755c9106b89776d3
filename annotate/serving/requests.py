"""What is told about each request that was answered: never its path, its sender or its content."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from time import perf_counter

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")

NO_ROUTE = "(none)"
"""For requests that no route takes, or that are refused before."""

HUNG_UP = "(none)"
"""For requests whose client did not wait for an answer."""

request_id: ContextVar[str | None] = ContextVar("request_id", default=None)
"""The id of the request that is being answered."""


@dataclass(frozen=True, slots=True)
class AnsweredRequest:
    """`route` is the template, such as `/start/{token}`."""

    id: str
    method: str
    route: str
    status: str
    seconds: float


class RequestObserver:
    """ASGI middleware that tells of each request, and gives it an id."""

    def __init__(self, app: ASGIApp, tell: Sequence[Callable[[AnsweredRequest], None]]) -> None:
        self._app, self._tell = app, tell

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun, status = perf_counter(), HUNG_UP
        new_id, root = secrets.token_hex(8), scope.get("root_path", "")
        request_id.set(new_id)  # also for what the server logs after this middleware has ended

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = str(message["status"])
                MutableHeaders(scope=message)["X-Request-ID"] = new_id
            await send(message)

        try:
            await self._app(scope, receive, send_with_id)
        except Exception:
            status = "500"
            raise
        finally:
            method = scope["method"] if scope["method"] in METHODS else "(other)"
            answered = AnsweredRequest(
                new_id, method, route_of(scope, root), status, perf_counter() - begun
            )
            for tell in self._tell:
                tell(answered)


def route_of(scope: Scope, root: str) -> str:
    """The template of the route that took a request; `root` is the path before routing."""
    path = getattr(scope.get("route"), "path", None)
    if path is None:
        return NO_ROUTE
    mount = str(scope.get("root_path", "")).removeprefix(root)
    return f"{mount}{path}"
