"""Results that many requests share: computed in a thread, once for all who ask meanwhile."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from anyio import CapacityLimiter, to_thread

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

FRESH_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Started(Generic[V]):
    """A computation, and when it began."""

    task: asyncio.Task[V]
    at: float


class SharedResults(Generic[K, V]):
    """Results by key, each computed again at most once a minute, and one at a time.

    Requests that wait hold no thread, so those of participants are answered meanwhile.
    """

    def __init__(
        self, compute: Callable[[K], V], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._compute = compute
        self._clock = clock
        self._started: dict[K, Started[V]] = {}
        self._one_at_a_time = CapacityLimiter(1)

    async def get(self, key: K) -> V:
        started = self._started.get(key)
        if started is None or self._is_over(started):
            started = Started(asyncio.create_task(self._computed(key)), self._clock())
            self._started[key] = started
        # A visitor who leaves must not end what others wait for.
        return await asyncio.shield(started.task)

    def _is_over(self, started: Started[V]) -> bool:
        if not started.task.done():
            return False
        has_failed = started.task.cancelled() or started.task.exception() is not None
        return has_failed or self._clock() - started.at >= FRESH_SECONDS

    async def _computed(self, key: K) -> V:
        return await to_thread.run_sync(self._compute, key, limiter=self._one_at_a_time)
