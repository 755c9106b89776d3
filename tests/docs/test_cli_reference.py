"""The committed reference equals the help of the commands."""

from __future__ import annotations

import pytest

from hsfiq.cli.reference import reference
from tests.studies import ROOT


def test_the_reference_is_up_to_date() -> None:
    committed = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    assert committed == reference(), "run `make docs`"


def test_the_reference_does_not_depend_on_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    before = reference()
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert reference() == before
    assert max(map(len, before.splitlines())) <= 100
