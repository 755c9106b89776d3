"""Slows down password guessing: each attempt of a client waits longer than the one before."""

from __future__ import annotations

import hashlib
import secrets
import threading
import time
from dataclasses import dataclass
from math import ceil

from hsfiq.annotate.serving.clients import network_of

FIRST_DELAY, LONGEST_DELAY = 0.25, 5.0
"""Seconds before the second attempt, doubled for each after it, and the maximum."""

LONGEST_QUEUE = 20.0
RETRY_AFTER = ceil(LONGEST_QUEUE)
"""Seconds after which all waiting attempts of a refused client have been made."""

MOST_COUNTED = 4
"""Processes by which delays are multiplied; with more, a single delay would exceed the queue."""

FORGET_AFTER = 600.0

MAX_CLIENTS = 4096
"""Clients remembered; beyond that, those whose last attempt is oldest are forgotten."""


@dataclass(slots=True)
class ClientQueue:
    """The attempts of one client.

    An attempt counts as failed until its password has been checked, so simultaneous ones wait too.
    """

    delay: float = 0.0
    last: float = 0.0
    free_at: float = 0.0

    def next_delay(self, now: float, processes: int) -> float | None:
        """Seconds before this attempt, None if the queue is too long."""
        starts = max(self.free_at, now) + processes * self.delay
        if starts - now > LONGEST_QUEUE:
            return None
        self.delay = min(2 * self.delay, LONGEST_DELAY) if self.delay else FIRST_DELAY
        self.last, self.free_at = now, starts
        return starts - now


class LoginThrottle:
    """A queue for each client, so that one client's attempts never delay another's.

    Each of several processes sees only some of a client's attempts. With delays as many times as
    long, up to `MOST_COUNTED`, a client is no faster than with one process.

    Clients are identified by a hash of their address under a secret of this process: no address is
    kept, and nothing about it reaches a disk.
    """

    def __init__(self, processes: int = 1) -> None:
        self._processes = min(processes, MOST_COUNTED)
        self._lock = threading.Lock()
        self._secret = secrets.token_bytes(32)
        self._queues: dict[bytes, ClientQueue] = {}  # by the time of the last attempt

    def __len__(self) -> int:
        return len(self._queues)

    def delay_for(self, address: str) -> float | None:
        """Seconds to wait before this attempt, None if too many of the client's are waiting."""
        client = self._client(address)
        with self._lock:
            now = time.monotonic()
            queue = self._queues.get(client)
            if queue is None or now - queue.last > FORGET_AFTER:
                queue = ClientQueue()
            delay = queue.next_delay(now, self._processes)
            if delay is not None:
                self._queues.pop(client, None)
                self._queues[client] = queue
                self._forget(now)
            return delay

    def reset(self, address: str) -> None:
        """Forget a client's failures after a successful login."""
        with self._lock:
            self._queues.pop(self._client(address), None)

    def _client(self, address: str) -> bytes:
        name = network_of(address).encode("utf-8", "surrogatepass")
        return hashlib.blake2b(name, key=self._secret, digest_size=16).digest()

    def _forget(self, now: float) -> None:
        while self._queues:
            client, queue = next(iter(self._queues.items()))
            if len(self._queues) <= MAX_CLIENTS and now - queue.last <= FORGET_AFTER:
                break
            del self._queues[client]
