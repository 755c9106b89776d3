"""Slowing down guesses of the password: each try of a client waits longer than the one before."""

from __future__ import annotations

import hashlib
import secrets
import threading
import time
from dataclasses import dataclass
from ipaddress import IPv6Address, IPv6Network, ip_address

FIRST, LONGEST = 0.25, 5.0
"""Seconds: what the second try waits, doubled by each after it, and the most between two."""

LONGEST_QUEUE = 20.0
FORGIVEN_AFTER = 600.0

MOST_CLIENTS = 4096
"""Clients remembered at a time; beyond them the one that tried longest ago is forgotten."""


@dataclass(slots=True)
class Queue:
    """The tries of one client.

    A try counts as failed until it is known to be right, so that many at once wait as well.
    """

    failures: int = 0
    last: float = 0.0
    free_at: float = 0.0

    def turn(self, now: float) -> float | None:
        """Seconds to wait before this try, None where too many wait already."""
        delay = min(FIRST * 2 ** (self.failures - 1), LONGEST) if self.failures else 0.0
        starts = max(self.free_at, now) + delay
        if starts - now > LONGEST_QUEUE:
            return None
        self.failures = min(self.failures + 1, 10)
        self.last, self.free_at = now, starts
        return starts - now


class Patience:
    """A queue for each client, so that nobody's tries hold up another's.

    Clients are known by a hash of their address under a secret that ends with the process: no
    address is kept, and nothing of it reaches a disk.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._secret = secrets.token_bytes(32)
        self._queues: dict[bytes, Queue] = {}  # in the order of their last tries

    def __len__(self) -> int:
        """Clients remembered."""
        return len(self._queues)

    def turn(self, address: str) -> float | None:
        """Seconds to wait before this try, None where too many of the client's wait already."""
        client = self._client(address)
        with self._lock:
            now = time.monotonic()
            queue = self._queues.get(client)
            if queue is None or now - queue.last > FORGIVEN_AFTER:
                queue = Queue()
            wait = queue.turn(now)
            if wait is not None:
                self._queues.pop(client, None)
                self._queues[client] = queue
                self._forget(now)
            return wait

    def right(self, address: str) -> None:
        """Forgive what the client did before: the owner is in."""
        with self._lock:
            self._queues.pop(self._client(address), None)

    @property
    def _oldest(self) -> Queue:
        return next(iter(self._queues.values()))

    def _client(self, address: str) -> bytes:
        name = network_of(address).encode("utf-8", "surrogatepass")
        return hashlib.blake2b(name, key=self._secret, digest_size=16).digest()

    def _forget(self, now: float) -> None:
        """Drop clients that are forgiven or too many, oldest first."""
        while len(self._queues) > MOST_CLIENTS or now - self._oldest.last > FORGIVEN_AFTER:
            del self._queues[next(iter(self._queues))]


def network_of(address: str) -> str:
    """What one visitor can send from: an IPv4 address, the /48 of an IPv6 one, else the name."""
    try:
        ip = ip_address(address)
    except ValueError:
        return address
    if isinstance(ip, IPv6Address):
        return str(ip.ipv4_mapped or IPv6Network((int(ip), 48), strict=False))
    return str(ip)
