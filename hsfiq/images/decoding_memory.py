"""A limit on the pixels that are in memory at the same time, whatever the number of threads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Condition, Lock

MAX_PIXELS = 8192 * 8192
"""The largest image that is accepted: 256 MiB in memory, because Pillow pads RGB to four bytes."""


class PixelBudget:
    """Threads reserve the pixels of an image before they decode it, and wait while there are none.

    First come, first served: many small images never keep a large one waiting.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._reserved = 0
        self._queue = Lock()
        self._released = Condition()

    @contextmanager
    def reserved(self, pixels: int) -> Iterator[None]:
        """Reserve at most `limit` pixels until the block ends. Blocks must not be nested."""
        with self._queue, self._released:
            self._released.wait_for(lambda: self._reserved + pixels <= self.limit)
            self._reserved += pixels
        try:
            yield
        finally:
            with self._released:
                self._reserved -= pixels
                self._released.notify()


BUDGET = PixelBudget(MAX_PIXELS)
"""Of this process: one image of the largest size, or as many smaller ones as fit."""
