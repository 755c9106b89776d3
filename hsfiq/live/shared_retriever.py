"""One retriever shared by many simultaneous searches.

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
    """The circuit breaker of a failing retriever; `clock` has seconds."""

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
        """`RetrieverUnavailable` during a pause, unless a request for this turn is pending."""
        with self._lock:
            rest = 0.0 if turn in self._outstanding else self._breaker.rest()
        if rest:
            what = f"failed for {FAILURES} people in a row; requests are paused for {rest:.0f} s"
            raise RetrieverUnavailable(self._client.url, what, "hsfiq retriever check")

    def ranking(
        self, turn: int, person: int, request: Callable[[], RankRequest]
    ) -> Future[Answered]:
        """The answer for a turn; `request` makes what is sent if no request is outstanding.

        The client is asked without the lock, because it waits for its event loop, which may wait
        for the lock to say that another request has ended.
        """
        with self._lock:
            if turn in self._outstanding:
                return self._outstanding[turn]
            awaited = self._outstanding[turn] = Future()
            awaited.set_running_or_notify_cancel()  # from now on, no one who waits can cancel it
            self._breaker.asked()
        try:
            sent = self._client.ranking(request())
        except BaseException as error:
            self._end(turn)
            awaited.set_exception(error)
            raise
        sent.add_done_callback(partial(self._answered, turn, person, awaited))
        return awaited

    def _answered(
        self, turn: int, person: int, awaited: Future[Answered], sent: Future[Answered]
    ) -> None:
        """Pass on how a request ended."""
        is_closed = sent.cancelled()
        error = None if is_closed else sent.exception()
        with self._lock:
            if isinstance(error, RetrieverFaulty):
                self._breaker.failed(person)
            elif error is None and not is_closed:
                self._breaker.answered()
        self._end(turn)
        if is_closed:
            awaited.set_exception(RetrieverUnavailable(self._client.url, "is not asked any more"))
        elif error is not None:
            awaited.set_exception(error)
        else:
            awaited.set_result(sent.result())

    def _end(self, turn: int) -> None:
        with self._lock:
            del self._outstanding[turn]
