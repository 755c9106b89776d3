"""Signals that end a command, and threads that do something again and again."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from types import FrameType
from typing import Any, Self

# A function that a thread calls at intervals.


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


# Signals that end a command, handled only where it can end cleanly.
#
# An interruption elsewhere could occur between starting and registering a process, while another
# process is being stopped, or while a database is being closed.

ENDING = tuple(
    signal.Signals[name] for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)
"""Ctrl-C, termination, and the closing of the terminal on platforms that signal it."""


class Signals:
    """Within the block, defers signals that would end the process until `heed` is called.

    `received` is the first. Signals that are already ignored, as under `nohup`, stay ignored.
    """

    def __init__(self) -> None:
        self.received: signal.Signals | None = None
        self._handlers: dict[signal.Signals, Any] = {}
        self._callback: Callable[[], None] | None = None

    def __enter__(self) -> Self:
        for number in ENDING:
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._handlers[number] = signal.signal(number, self._keep)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        if kind is None:
            self.heed()

    def _keep(self, number: int, _: FrameType | None) -> None:
        self.received = self.received or signal.Signals(number)
        if self._callback is not None:
            self._callback()

    def heed(self) -> None:
        """Raise `KeyboardInterrupt` if a signal has been received."""
        if self.received is not None:
            raise KeyboardInterrupt

    def call(self, callback: Callable[[], None]) -> None:
        """Call this function at each signal, and at once if one has been received."""
        self._callback = callback
        if self.received is not None:
            callback()
