"""Regular checkpoints, so that SQLite's main file is never more than some seconds old."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread

from hsfiq.db.engine import Database

SECONDS = 10.0
"""The time between two checkpoints."""


@contextmanager
def regular_checkpoints(database: Database, seconds: float = SECONDS) -> Iterator[None]:
    """Within the block, copy SQLite's write-ahead log into the main file every few seconds."""
    ended = Event()

    def repeat() -> None:
        while not ended.wait(seconds):
            database.checkpoint()

    thread = Thread(target=repeat, name="checkpoints")
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
