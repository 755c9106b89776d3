"""Serving an app with uvicorn on an address that is free, to clients that may never answer."""

from __future__ import annotations

import asyncio
import errno
import socket
from typing import Any

import h11
import uvicorn
from uvicorn.config import LOGGING_CONFIG
from uvicorn.protocols.http.h11_impl import H11Protocol

from hsfiq.errors import UnreadableInput

# Connections that send nothing, or too slowly: they end, and never keep others from being served.
#
# uvicorn waits forever for a request's headers and body, and for a client that does not read.

HEADER_SECONDS = 10.0
"""The time for all headers of a request, from its first byte or the start of the connection."""

BODY_PAUSE_SECONDS = 20.0
"""The longest pause within a body."""

BODY_SECONDS = 120.0
"""The time for a whole body: a picture of 8 MB over a slow mobile network."""

READ_SECONDS = 60.0
"""The longest time that a client may not read its data."""

FILES_KEPT = 300
"""File descriptors that are not for connections: database, images, libraries, and what was just
accepted."""

FEWEST, MOST = 16, 4096

ACCEPTED_AT_ONCE = 128
"""How many connections may wait to be accepted; asyncio accepts as many before it serves any."""

TIMED_OUT = b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"


def most_connections() -> int:
    """The most connections of this process, after raising its limit of open files."""
    try:
        import resource  # noqa: PLC0415 (not on Windows)
    except ImportError:
        return MOST
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST + FILES_KEPT
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(hard, wanted)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return MOST if soft == resource.RLIM_INFINITY else max(FEWEST, min(MOST, soft - FILES_KEPT))


class Waiting:
    """The connections of a process without a request, the one that has waited longest first."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._connections: dict[LimitedProtocol, None] = {}

    def add(self, connection: LimitedProtocol) -> None:
        self._connections[connection] = None

    def __contains__(self, connection: LimitedProtocol) -> bool:
        return connection in self._connections

    def discard(self, connection: LimitedProtocol) -> None:
        self._connections.pop(connection, None)

    def end_longest(self) -> None:
        """End the connection that has waited longest, so that another can be served."""
        connection = next(iter(self._connections), None)
        if connection is not None:
            self.discard(connection)
            connection.transport.abort()


class LimitedProtocol(H11Protocol):
    """uvicorn's protocol, with a limit for each kind of waiting and for their number."""

    waiting: Waiting

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._deadline: asyncio.TimerHandle | None = None
        self._pause: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self.waiting.most:
            self.waiting.end_longest()
        self._wait_for_header()

    def data_received(self, data: bytes) -> None:
        if self._deadline is None and not self._is_answering():
            self._wait_for_header()
        super().data_received(data)
        if self._is_answering():
            self._wait_for_body()

    def on_response_complete(self) -> None:
        self._stop_waiting()
        self.waiting.add(self)  # until the time that uvicorn keeps an unused connection
        super().on_response_complete()
        if self._is_answering():  # the next request had already come
            self._wait_for_body()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        self.resume_writing()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unread = self.loop.call_later(READ_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None
        super().resume_writing()

    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _wait_for_header(self) -> None:
        self._stop_waiting()
        self.waiting.add(self)
        self._deadline = self.loop.call_later(HEADER_SECONDS, self._end)

    def _wait_for_body(self) -> None:
        """Called with each part of a request, also the last."""
        is_first = self in self.waiting
        if is_first or not self.cycle.more_body:
            self._stop_waiting()
        if not self.cycle.more_body:
            return
        if self._deadline is None:
            self._deadline = self.loop.call_later(BODY_SECONDS, self._end)
        if self._pause is not None:
            self._pause.cancel()
        self._pause = self.loop.call_later(BODY_PAUSE_SECONDS, self._end)

    def _end(self) -> None:
        """Send a timeout error, unless an answer has begun, and close the connection."""
        if self.transport.is_closing():
            return
        has_begun = self.cycle is not None and self.cycle.response_started
        if self.conn.their_state is not h11.IDLE and not has_begun:
            self.transport.write(TIMED_OUT)
        self.transport.close()

    def _stop_waiting(self) -> None:
        self.waiting.discard(self)
        for timer in (self._deadline, self._pause):
            if timer is not None:
                timer.cancel()
        self._deadline = self._pause = None


def limited_protocol() -> type[LimitedProtocol]:
    """The protocol of one server, with its own list of waiting connections."""

    class OfServer(LimitedProtocol):
        waiting = Waiting(most_connections())

    return OfServer


# Serving an app with uvicorn on an address that is free.


def listening(host: str, port: int) -> socket.socket:
    """A socket that is bound to the address, before anything else starts, or `UnreadableInput`."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Only with the protocol given does asyncio set TCP_NODELAY, which sends small replies at once.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise unusable(host, port, error) from error
    return listener


def accept_connections(listener: socket.socket) -> None:
    """From now on connections wait to be answered, or `UnreadableInput`.

    Two programs can bind the same port at the same time, but only one of them can listen.
    """
    host, port = listener.getsockname()[:2]
    try:
        listener.listen()
    except OSError as error:
        raise unusable(host, port, error) from error


def unusable(host: str, port: int, error: OSError) -> UnreadableInput:
    if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
        return UnreadableInput(
            "--host",
            f"{host} is not an address of this machine ({error.strerror})",
            "choose another, such as 127.0.0.1, or 0.0.0.0 for all",
        )
    return UnreadableInput(
        f"{host}:{port}", f"cannot be used ({error.strerror})", "choose another --port"
    )


def server_settings(app: Any, host: str, port: int, *, has_own_log: bool = False) -> uvicorn.Config:
    """Without an access log, which would contain addresses. `app` is an ASGI application.

    With `has_own_log`, the process has set up its log, and uvicorn leaves it as it is.
    """
    return uvicorn.Config(
        app,
        host=host,
        port=port,
        http=limited_protocol(),
        ws="none",
        backlog=ACCEPTED_AT_ONCE,
        log_config=None if has_own_log else LOGGING_CONFIG,
        log_level="error",  # each broken request of a scanner would be a warning
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=2,  # a page that stays open must not delay the end
    )


def stop(server: uvicorn.Server) -> None:
    """End the server after the requests that it is answering."""
    server.should_exit = True
