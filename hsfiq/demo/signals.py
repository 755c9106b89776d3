"""Signals that end `hsfiq demo --full`, handled only at chosen places.

An interruption elsewhere could occur between starting and registering a process, or while another
process is being stopped.
"""

from __future__ import annotations

import signal
from types import FrameType
from typing import Any, Self

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

    def heed(self) -> None:
        """Raise `KeyboardInterrupt` if a signal has been received."""
        if self.received is not None:
            raise KeyboardInterrupt
