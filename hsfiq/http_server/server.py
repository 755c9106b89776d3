"""Serving an app with uvicorn on an address that is free."""

from __future__ import annotations

import errno
import socket
from typing import Any

import uvicorn
from uvicorn.config import LOGGING_CONFIG

from hsfiq.errors import UnreadableInput
from hsfiq.http_server.connections import ACCEPTED_AT_ONCE, limited_protocol


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
            f"{host} is no address of this machine ({error.strerror})",
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
