"""Slowing down guesses of the password: each try waits longer than the one before."""

from __future__ import annotations

import threading
import time

FIRST, LONGEST = 0.25, 5.0
"""Seconds: what the second try waits, doubled by each after it, and the most between two."""

LONGEST_QUEUE = 20.0
FORGIVEN_AFTER = 600.0


class Patience:
    """One queue for all tries, whoever makes them: nobody's address is looked at or kept.

    A try counts as failed until it is known to be right, so that many at once wait as well.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._failures = 0
        self._last = self._free_at = 0.0

    def turn(self) -> float | None:
        """Seconds to wait before this try, None where too many wait already."""
        with self._lock:
            now = time.monotonic()
            if now - self._last > FORGIVEN_AFTER:
                self._failures = 0
            delay = min(FIRST * 2 ** (self._failures - 1), LONGEST) if self._failures else 0.0
            starts = max(self._free_at, now) + delay
            if starts - now > LONGEST_QUEUE:
                return None
            self._failures = min(self._failures + 1, 10)
            self._last, self._free_at = now, starts
            return starts - now

    def right(self) -> None:
        """Forgive what went before: the owner is in."""
        with self._lock:
            self._failures, self._free_at = 0, 0.0
