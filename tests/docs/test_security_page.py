"""docs/security.md: the tests that it names exist."""

from __future__ import annotations

import ast
import re

from tests.studies import ROOT

PAGE = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
NAMED = re.findall(r"`([\w/]+\.py)::(\w+)`", PAGE)


def test_each_named_test_exists() -> None:
    assert len(NAMED) > 40
    for file, name in NAMED:
        tree = ast.parse((ROOT / "tests" / file).read_text(encoding="utf-8"))
        functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        assert name in functions, f"{file} has no {name}"


def test_each_threat_has_a_test() -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("| ")]
    threats = [row for row in rows if not row.startswith("| Threat |")]
    assert threats
    for row in threats:
        assert "::" in row, row
