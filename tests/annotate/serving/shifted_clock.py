"""The clock of a server in this process, which a test sets forward and back."""

from __future__ import annotations

import sys
import time
from datetime import UTC, datetime, timedelta, tzinfo
from types import ModuleType

import pytest


class AnyDatetime(type):
    """The type of classes that take all datetimes for theirs."""

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, datetime)


class ShiftedClock:
    """What the code takes for the time is later than it is by `shift`; intervals are as they are.

    A package for this would also change the time of the browser's driver and of pytest.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.shift = timedelta()
        for name, module in list(sys.modules.items()):
            if name.startswith("hsfiq."):
                if vars(module).get("datetime") is datetime:
                    monkeypatch.setattr(module, "datetime", self._datetime())
                if vars(module).get("time") is time:
                    monkeypatch.setattr(module, "time", self._time())

    def now(self) -> datetime:
        return datetime.now(UTC) + self.shift

    def _datetime(clock) -> type[datetime]:  # noqa: N805 (`self` is that of the class in it)
        class Shifted(datetime, metaclass=AnyDatetime):
            @classmethod
            def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
                return datetime.now(tz) + clock.shift

        return Shifted

    def _time(self) -> ModuleType:
        shifted = ModuleType("time")
        vars(shifted).update(vars(time))
        vars(shifted)["time"] = lambda: time.time() + self.shift.total_seconds()
        return shifted
