"""One computation of what a dashboard shows, for all who have it open."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from threading import Lock
from time import monotonic
from typing import Any

Outputs = list[Any]

KEPT_SECONDS = 10.0
"""What is shown may be older than this when the next page asks, less than a page's timer takes."""

PAUSE = 4
"""What took long is computed again after a pause of so many times as long, at the earliest."""

MOST_KEPT = 32


@dataclass(slots=True)
class Latest:
    """What was computed last; whoever computes it holds the lock."""

    lock: Lock = field(default_factory=Lock)
    outputs: Outputs | None = None
    begun: float = 0.0
    seconds: float = 0.0

    def compute(self, compute: Callable[[], Outputs], clock: Callable[[], float]) -> Outputs:
        begun = clock()
        self.outputs = compute()
        self.begun, self.seconds = begun, clock() - begun
        return self.outputs


@dataclass(frozen=True, slots=True)
class SharedOutputs:
    """The latest outputs by study and role; they say themselves of when they are."""

    clock: Callable[[], float] = monotonic
    latest: dict[Hashable, Latest] = field(default_factory=dict)
    lock: Lock = field(default_factory=Lock)

    def now(self, key: Hashable, compute: Callable[[], Outputs]) -> Outputs:
        """Compute the outputs as they are now; pages that refresh soon get them, too."""
        own = self._of(key)
        with own.lock:
            return own.compute(compute, self.clock)

    def recent(self, key: Hashable, compute: Callable[[], Outputs]) -> Outputs:
        """The outputs of a moment ago, or those of a computation that is under way, or new ones."""
        own = self._of(key)
        with own.lock:
            age = self.clock() - own.begun - own.seconds
            if own.outputs is not None and age < max(KEPT_SECONDS, PAUSE * own.seconds):
                return own.outputs
            return own.compute(compute, self.clock)

    def _of(self, key: Hashable) -> Latest:
        with self.lock:
            if key not in self.latest and len(self.latest) >= MOST_KEPT:
                del self.latest[next(iter(self.latest))]
            return self.latest.setdefault(key, Latest())
