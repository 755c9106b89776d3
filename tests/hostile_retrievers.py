"""Servers that answer a request as no live retriever should, until the client ends the connection.

Each is real and answers at an address of its own. None ends by itself: a client without limits
would wait for ever, or until its memory is full.
"""

from __future__ import annotations

import gzip
import re
import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from itertools import takewhile
from typing import BinaryIO

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"

BOMB = 200 * 2**20
"""Bytes of a compressed answer after decompression."""

PAUSE = 0.05
"""Seconds between two bytes of a slow server."""

Answer = Callable[[BinaryIO, threading.Event], None]
"""Writes an answer to a connection; the event says that the test is over."""


def hang(_: BinaryIO, is_over: threading.Event) -> None:
    is_over.wait()


def drip_head(client: BinaryIO, is_over: threading.Event) -> None:
    client.write(HEAD + b"X-Slow: ")
    while not is_over.wait(PAUSE):
        client.write(b"a")


def drip_body(client: BinaryIO, is_over: threading.Event) -> None:
    client.write(CHUNKED)
    while not is_over.wait(PAUSE):
        client.write(b"1\r\n \r\n")


def endless_body(client: BinaryIO, is_over: threading.Event) -> None:
    client.write(CHUNKED)
    while not is_over.is_set():
        client.write(b"10000\r\n" + b" " * 0x10000 + b"\r\n")


def announced_body(client: BinaryIO, is_over: threading.Event) -> None:
    """Announce 1.5 GB, and send nothing of it."""
    client.write(HEAD + b"Content-Length: 1500000000\r\n\r\n")
    is_over.wait()


def endless_continue(client: BinaryIO, is_over: threading.Event) -> None:
    while not is_over.is_set():
        client.write(b"HTTP/1.1 100 Continue\r\n\r\n" * 100)


def gzip_bomb(client: BinaryIO, is_over: threading.Event) -> None:
    body = bomb()
    head = HEAD + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(body)
    client.write(head + body)
    is_over.wait()


@cache
def bomb() -> bytes:
    return gzip.compress(bytes(BOMB))


@dataclass(frozen=True, slots=True)
class HostileServer:
    """Where it is, and for each request that it got, what its headers were."""

    url: str
    requests: list[bytes] = field(default_factory=list)


@contextmanager
def hostile(answer: Answer, port: int = 0) -> Iterator[HostileServer]:
    """A server that answers every request so; on a free port unless one is given."""
    is_over = threading.Event()

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            with suppress(OSError):
                while not is_over.is_set() and (request := self.request_head()):
                    state.requests.append(request)
                    answer(self.wfile, is_over)

        def request_head(self) -> bytes:
            """The headers of the next request, after reading its body; b"" if there is none."""
            head = b"".join(takewhile(lambda line: line != b"\r\n", self.rfile))
            if length := re.search(rb"(?i)content-length: (\d+)", head):
                self.rfile.read(int(length[1]))
            return head

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True
        block_on_close = False
        allow_reuse_address = True
        request_queue_size = 128

    with Server(("127.0.0.1", port), Handler) as server:
        state = HostileServer(f"http://127.0.0.1:{server.server_address[1]}")
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        try:
            yield state
        finally:
            is_over.set()
            server.shutdown()
