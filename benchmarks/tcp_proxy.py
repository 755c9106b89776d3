"""A TCP proxy in front of PostgreSQL, through which benchmarks and tests make it unreachable."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from sqlalchemy.engine import make_url

RESET = struct.pack("ii", 1, 0)
"""SO_LINGER: closing ends the connection by a reset."""


class TcpProxy:
    """Forwards connections to a server, until they are reset or silent."""

    def __init__(self, host: str, port: int) -> None:
        self._upstream = host, port
        self._flows = threading.Event()
        self._flows.set()
        self._sockets: list[socket.socket] = []
        self._lock = threading.Lock()
        self.port = 0
        self._listen()

    def _listen(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", self.port), backlog=256)
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._take, args=(self._listener,), daemon=True).start()

    def fall_silent(self) -> None:
        """Connections stay and new ones are made, but no byte passes in any direction."""
        self._flows.clear()

    def recover(self) -> None:
        """Accept connections again, and pass on what has waited and all that follows."""
        if self._listener.fileno() < 0:
            self._listen()
        self._flows.set()

    def reset(self) -> None:
        """Refuse new connections, and reset the others."""
        # Closing alone does not wake the thread that waits for a connection.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._flows.set()
        with self._lock:
            ended, self._sockets = self._sockets, []
        for each in ended:
            with suppress(OSError):
                each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _take(self, listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                threading.Thread(target=self._connect, args=(client,), daemon=True).start()

    def _connect(self, client: socket.socket) -> None:
        self._flows.wait()
        try:
            server = socket.create_connection(self._upstream)
        except OSError:
            client.close()
            return
        with self._lock:
            self._sockets += [client, server]
        for source, target in ((client, server), (server, client)):
            threading.Thread(target=self._forward, args=(source, target), daemon=True).start()

    def _forward(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while part := source.recv(65536):
                self._flows.wait()
                target.sendall(part)
        with suppress(OSError):
            target.shutdown(socket.SHUT_RDWR)


@contextmanager
def postgres_behind_proxy(url: str, **options: str) -> Iterator[tuple[str, TcpProxy]]:
    """The URL of this database through a proxy, with more options of libpq, and the proxy."""
    parsed = make_url(url)
    proxy = TcpProxy(parsed.host or "127.0.0.1", parsed.port or 5432)
    through = parsed.set(host="127.0.0.1", port=proxy.port).update_query_dict(options)
    try:
        yield through.render_as_string(hide_password=False), proxy
    finally:
        proxy.reset()
