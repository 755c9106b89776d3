"""The reference of commands is the same everywhere; the tests exist that "Threats" names."""

from __future__ import annotations

import ast
import re

import pytest

from hsfiq.cli.reference import reference
from tests.studies import ROOT


def test_the_reference_does_not_depend_on_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    before = reference()
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert reference() == before
    assert max(map(len, before.splitlines())) <= 100


SECURITY = (ROOT / "docs" / "contributing" / "threats.md").read_text(encoding="utf-8")
NAMED = re.findall(r"`([\w/]+\.py)::(\w+)`", SECURITY)


def test_each_named_test_exists() -> None:
    assert len(NAMED) > 40
    for file, name in NAMED:
        tree = ast.parse((ROOT / "tests" / file).read_text(encoding="utf-8"))
        functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        assert name in functions, f"{file} has no {name}"


def test_each_threat_has_a_test() -> None:
    rows = [line for line in SECURITY.splitlines() if line.startswith("| ")]
    threats = [row for row in rows if not row.startswith("| Threat |")]
    assert threats
    for row in threats:
        assert "::" in row, row
