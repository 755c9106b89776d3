"""Clients that send nothing, or too slowly, or do not read: they end, and others are served."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from urllib.parse import urlsplit

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from hsfiq import http_server
from tests.live_servers import serving

PATIENCE = 30.0
"""Seconds; a connection that is still open then has no limit."""

LARGE = 64 * 2**20


async def echo(request: Request) -> Response:
    try:
        return PlainTextResponse(await request.body())
    except ClientDisconnect:
        return PlainTextResponse("too late")


async def large(_request: Request) -> Response:
    return PlainTextResponse(b"x" * LARGE)


APP = Starlette(routes=[Route("/", echo, methods=["GET", "POST"]), Route("/large", large)])


@contextmanager
def connection(url: str) -> Iterator[socket.socket]:
    address = urlsplit(url)
    assert address.hostname
    assert address.port
    with socket.create_connection((address.hostname, address.port), timeout=PATIENCE) as opened:
        yield opened


def received(opened: socket.socket) -> bytes:
    """All that the server sends until it ends the connection."""
    parts = []
    while True:
        try:
            part = opened.recv(65536)
        except ConnectionResetError:
            return b"".join(parts)
        if not part:
            return b"".join(parts)
        parts.append(part)


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\n", b"GET / HTTP/1.1\r\nHost: x\r\nA: "])
def test_a_request_without_all_its_headers_ends(
    monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setattr(http_server, "HEADER_SECONDS", 0.2)
    with serving(APP) as url, connection(url) as silent:
        silent.sendall(sent)
        assert received(silent) == b""


def test_headers_that_come_slowly_do_not_extend_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "HEADER_SECONDS", 0.5)
    with serving(APP) as url, connection(url) as slow:
        slow.sendall(b"GET / HTTP/1.1\r\n")
        slow.settimeout(0.1)
        for number in range(300):
            try:
                if not slow.recv(1):
                    return
            except TimeoutError:
                slow.sendall(b"A%d: b\r\n" % number)
            except ConnectionError:
                return
    pytest.fail("the connection did not end")


@pytest.mark.parametrize("limit", ["BODY_PAUSE_SECONDS", "BODY_SECONDS"])
def test_a_body_that_does_not_come_is_answered_with_408(
    monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    monkeypatch.setattr(http_server, limit, 0.2)
    with serving(APP) as url, connection(url) as slow:
        slow.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhalf")
        assert received(slow).startswith(b"HTTP/1.1 408 ")


def test_a_body_in_parts_is_read() -> None:
    with serving(APP) as url:
        assert httpx.post(url, content=iter([b"a" * 9000, b"b" * 9000]), timeout=PATIENCE).text == (
            "a" * 9000 + "b" * 9000
        )


def test_a_client_that_does_not_read_its_answer_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "READ_SECONDS", 0.2)
    cut_off = threading.Event()

    class Observed(http_server.LimitedProtocol):
        waiting = http_server.Waiting(10)

        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            cut_off.set()

    monkeypatch.setattr("hsfiq.http_server.limited_protocol", lambda: Observed)
    with serving(APP) as url, connection(url) as slow:
        slow.sendall(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
        assert slow.recv(1)
        cut_off.wait(PATIENCE)
        assert len(received(slow)) < LARGE


def test_silent_connections_give_way_to_new_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "most_connections", lambda: 10)
    with serving(APP) as url, ExitStack() as silent:
        opened = [silent.enter_context(connection(url)) for _ in range(40)]
        for _ in range(3):
            assert httpx.get(url, timeout=PATIENCE).status_code == 200
        assert received(opened[0]) == b""  # long before its ten seconds


def test_a_connection_is_used_for_several_requests() -> None:
    with serving(APP) as url, httpx.Client(base_url=url, timeout=PATIENCE) as client:
        answers = [client.post("/", content=b"x" * n) for n in (0, 5, 70_000)]
        assert [len(answer.content) for answer in answers] == [0, 5, 70_000]
        with connection(url) as pipelined:
            request = b"GET / HTTP/1.1\r\nHost: x\r\n"
            pipelined.sendall(request + b"\r\n" + request + b"Connection: close\r\n\r\n")
            assert received(pipelined).count(b"HTTP/1.1 200") == 2
