"""Long limits for the tests of the whole loop."""

from __future__ import annotations

import pytest

from hsfiq.demo import processes
from tests.whole_loop.small_loop import FOREVER


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow the machine is, a page that takes long is no missing page."""
    monkeypatch.setattr(processes, "PAGE_SECONDS", FOREVER)
    monkeypatch.setattr(processes, "START_SECONDS", FOREVER)
