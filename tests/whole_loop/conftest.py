"""Long limits for the tests of the whole loop."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from hsfiq.demo import loop
from tests.whole_loop.small_loop import FOREVER, Command


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Raise the time limits, so that a slow machine fails no test."""
    monkeypatch.setattr(loop, "PAGE_SECONDS", FOREVER)
    monkeypatch.setattr(loop, "START_SECONDS", FOREVER)


@pytest.fixture
def forked_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the loop's commands start with the libraries imported."""
    forking = SimpleNamespace(Popen=Command, TimeoutExpired=TimeoutError)
    monkeypatch.setattr(loop, "subprocess", forking)
