"""A connection to PostgreSQL with a timeout.

PostgreSQL limits the time of its statements itself, and the operating system ends connections to a
host that is gone. Neither helps if the server hangs, or the network drops all packets.
"""

from __future__ import annotations

from time import monotonic
from typing import Any, TypeVar

from psycopg import Connection, OperationalError
from psycopg.abc import PQGen

from hsfiq.db.failures import ANSWER_SECONDS

T = TypeVar("T")


class LimitedConnection(Connection[Any]):
    """Closed, with an error, if the server takes longer than `ANSWER_SECONDS` for one request."""

    def wait(self, gen: PQGen[T], *options: Any, **named: Any) -> T:
        return super().wait(self._limited(gen), *options, **named)

    def _limited(self, steps: PQGen[T]) -> PQGen[T]:
        """The same steps, until the time is over; psycopg goes on with them every 0.1 seconds."""
        deadline = monotonic() + ANSWER_SECONDS
        try:
            wanted = next(steps)
            while True:
                ready = yield wanted
                if not ready and monotonic() > deadline:
                    self.close()
                    raise OperationalError("the server does not answer")
                wanted = steps.send(ready)
        except StopIteration as end:
            result: T = end.value
            return result
