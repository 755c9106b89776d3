"""One retriever that is asked for many people at the same time.

At most one request of a turn is outstanding, however often its page repeats it, and none is sent
for a while after requests of several people have failed in a row.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from threading import Lock

from hsfiq.live.client import Answered, LiveRetriever
from hsfiq.live.protocol import RankRequest, RetrieverFaulty, RetrieverUnavailable

FAILURES = 3
"""People in a row whose requests fail before the retriever is left alone; one person alone, whose
text may be the cause, does not end the service for the others."""

REST = 10.0
"""Seconds for which a failing retriever is left alone; then one request shows how it is."""


class Breaker:
    """When a retriever that fails may be asked again; `clock` has seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._failed: set[int] = set()
        self._until = 0.0

    @property
    def is_open(self) -> bool:
        return len(self._failed) >= FAILURES

    def rest(self) -> float:
        """Seconds for which it is not to be asked."""
        return max(self._until - self._clock(), 0.0) if self.is_open else 0.0

    def asked(self) -> None:
        """While it fails, one request at a time tries it."""
        if self.is_open:
            self._until = self._clock() + REST

    def failed(self, person: int) -> None:
        if not self.is_open:
            self._failed.add(person)
        self.asked()

    def answered(self) -> None:
        self._failed.clear()


class SharedRetriever:
    """A client with its breaker, and the requests that are outstanding, by turn."""

    def __init__(self, client: LiveRetriever, clock: Callable[[], float] = time.monotonic) -> None:
        self._client, self._breaker = client, Breaker(clock)
        self._outstanding: dict[int, Future[Answered]] = {}
        self._lock = Lock()

    def close(self) -> None:
        self._client.close()

    def require_ready(self, turn: int) -> None:
        """`RetrieverUnavailable` if it is left alone now, and has not been asked for this turn."""
        with self._lock:
            rest = 0.0 if turn in self._outstanding else self._breaker.rest()
        if rest:
            what = f"has failed for {FAILURES} people in a row, and is left alone for {rest:.0f} s"
            raise RetrieverUnavailable(self._client.url, what, "hsfiq retrieve check")

    def ranking(
        self, turn: int, person: int, request: Callable[[], RankRequest]
    ) -> Future[Answered]:
        """The answer for a turn; `request` makes what is sent if no request is outstanding."""
        with self._lock:
            awaited = self._outstanding.get(turn)
        if awaited is not None:
            return awaited
        made = request()
        with self._lock:
            awaited = self._outstanding.get(turn)
            if awaited is not None:
                return awaited
            self._breaker.asked()
            awaited = self._outstanding[turn] = self._client.ranking(made)
        awaited.add_done_callback(partial(self._done, turn, person))
        return awaited

    def _done(self, turn: int, person: int, answered: Future[Answered]) -> None:
        with self._lock:
            del self._outstanding[turn]
            if answered.cancelled():
                return
            error = answered.exception()
            if error is None:
                self._breaker.answered()
            elif isinstance(error, RetrieverFaulty):
                self._breaker.failed(person)
