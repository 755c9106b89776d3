"""A ranker behind HTTP, by the protocol of `hsfiq.live`."""

from __future__ import annotations

import hmac
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TypeVar

import torch
import uvicorn
from pydantic import BaseModel
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from hsfiq.errors import HsfiqError
from hsfiq.http_server import server_settings, stop
from hsfiq.live import protocol
from hsfiq.model.ranker import CorpusRanker
from hsfiq.signals import Signals

# The HTTP server of the protocol in docs/guides/live-retrievers.md.

B = TypeVar("B", bound=BaseModel)
R = TypeVar("R")

LARGEST_BODY = 4 * 2**20
"""Bytes of a request."""

MOST_WAITING = 64
"""Requests that are computed or waiting; further requests are answered 503."""

RETRY_AFTER = 1
"""Seconds after which a client that was answered 503 may ask again."""


def build_app(ranker: CorpusRanker, token: str | None = None) -> Starlette:
    """The app of a ranker; with a token, requests need it."""
    endpoints = Endpoints(ranker)
    return Starlette(
        routes=[
            Route("/v1/system", endpoints.system),
            Route("/v1/corpus", endpoints.corpus),
            Route("/v1/rank", endpoints.rank, methods=["POST"]),
            Route("/v1/compose", endpoints.compose, methods=["POST"]),
        ],
        middleware=[Middleware(RequiredToken, token=token)] if token else [],
        exception_handlers={HsfiqError: refused, HTTPException: no_such_request},
    )


class Endpoints:
    def __init__(self, ranker: CorpusRanker) -> None:
        self._ranker = ranker
        self._n_waiting = 0

    async def system(self, _: Request) -> Response:
        return json_response(self._ranker.system())

    async def corpus(self, _: Request) -> Response:
        return json_response(protocol.CorpusReply(image_ids=self._ranker.corpus()))

    async def rank(self, request: Request) -> Response:
        asked = await read_body(protocol.RankRequest, request)
        self._check_batch("searches", len(asked.searches))
        began = time.perf_counter()
        lists = await self._compute(
            lambda: self._ranker.rank(asked.searches, asked.history, asked.k)
        )
        system = self._ranker.system()
        return json_response(
            protocol.RankReply(
                lists=tuple(lists),
                version=system.version,
                corpus_sha256=system.corpus.sha256,
                seconds=time.perf_counter() - began,
            )
        )

    async def compose(self, request: Request) -> Response:
        asked = await read_body(protocol.ComposeRequest, request)
        self._check_batch("queries", len(asked.queries))
        vectors = await self._compute(lambda: self._ranker.compose(asked.queries))
        return json_response(protocol.ComposeReply(vectors=tuple(vectors)))

    async def _compute(self, function: Callable[[], R]) -> R:
        """Call the function in a thread, unless too many requests wait already."""
        if self._n_waiting >= MOST_WAITING:
            raise protocol.RetrieverUnavailable(
                "server", "is overloaded", "ask again", retry_after=RETRY_AFTER
            )
        self._n_waiting += 1
        try:
            return await run_in_threadpool(function)
        finally:
            self._n_waiting -= 1

    def _check_batch(self, where: str, n: int) -> None:
        limit = self._ranker.system().max_batch
        if n > limit:
            raise protocol.RetrieverRefused(
                where, f"{n:,} is more than {limit:,}", "send several requests", status=413
            )


class RequiredToken:
    """Answers 401 to requests without the token."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._expected = f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = Headers(scope=scope).get("Authorization", "").encode()
        if hmac.compare_digest(given, self._expected):  # takes as long for any wrong token
            await self._app(scope, receive, send)
            return
        response = error_response(
            401, "Authorization", "is not the right token", "send Bearer TOKEN"
        )
        response.headers["WWW-Authenticate"] = "Bearer"
        await response(scope, receive, send)


async def read_body(kind: type[B], request: Request) -> B:
    """The request's message; reading stops at `LARGEST_BODY`."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > LARGEST_BODY:
            raise protocol.RetrieverRefused(
                "body", f"is larger than {LARGEST_BODY:,} bytes", "send less", status=413
            )
    return protocol.read_request(kind, bytes(body))


def json_response(message: BaseModel, status: int = 200) -> Response:
    return Response(message.model_dump_json(), status, media_type="application/json")


def error_response(status: int, where: str, what: str, remedy: str = "") -> Response:
    return json_response(
        protocol.ErrorReply(error=protocol.Problem(where=where, what=what, remedy=remedy)),
        status=status,
    )


def refused(_: Request, error: Exception) -> Response:
    """The answer to a refused request; 500 for an error of the retriever itself."""
    assert isinstance(error, HsfiqError)  # noqa: S101 -- for the type checker
    status = error.status if isinstance(error, protocol.RetrieverRefused) else 500
    if isinstance(error, protocol.RetrieverUnavailable):
        status = 503
    response = error_response(status, error.where, error.what, error.remedy)
    if isinstance(error, protocol.RetrieverUnavailable):
        response.headers["Retry-After"] = str(RETRY_AFTER)
    return response


def no_such_request(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 404
    return error_response(
        status, f"{request.method} {request.url.path}", "is not a request of the protocol"
    )


# Serving a ranker until a signal stops it.


def serve(
    ranker: CorpusRanker, listener: socket.socket, token: str | None, threads: int = 1
) -> None:
    """Answer requests at a bound socket until a signal; requests being answered are finished.

    `threads` are PyTorch's, for each request on a CPU.
    """
    torch.set_num_threads(threads)
    host, port = listener.getsockname()[:2]
    with suppress(KeyboardInterrupt), Signals() as signals:
        server = uvicorn.Server(server_settings(build_app(ranker, token), host, port))
        signals.call(partial(stop, server))
        server.run(sockets=[listener])
