"""The signals that tell `hsfiq demo --full` to end, heeded at places of our choosing.

One that broke in anywhere could fall between the start of a process and our knowing of it, or
into the ending of another.
"""

from __future__ import annotations

import signal
from types import FrameType
from typing import Any, Self

ENDING = tuple(
    signal.Signals[name] for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)
"""Ctrl-C, being told to end, and the end of the terminal where the platform tells of it."""


class Signals:
    """Within the block, a signal that would end us is kept until it is heeded.

    What is ignored already, as `nohup` has it, stays so.

    Attributes:
        came: the first one that came; those after it change nothing.
    """

    def __init__(self) -> None:
        self.came: signal.Signals | None = None
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        for number in ENDING:
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._keep)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        if kind is None:
            self.heed()

    def _keep(self, number: int, _: FrameType | None) -> None:
        self.came = self.came or signal.Signals(number)

    def heed(self) -> None:
        """End as after Ctrl-C if one of them has come.

        Raises:
            KeyboardInterrupt: one has.
        """
        if self.came is not None:
            raise KeyboardInterrupt
