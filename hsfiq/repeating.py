"""A function that a thread calls at intervals."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread


@contextmanager
def repeated(function: Callable[[], object], seconds: float, name: str) -> Iterator[None]:
    """Within the block, call the function every `seconds` in a thread of this name.

    Leaving the block waits for a call that has begun.
    """
    ended = Event()

    def repeat() -> None:
        while not ended.wait(seconds):
            function()

    thread = Thread(target=repeat, name=name)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
