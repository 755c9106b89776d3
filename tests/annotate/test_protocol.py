"""The page's declarations of the protocol match the server's types."""

from __future__ import annotations

from tests.annotate.typescript import DECLARATIONS, typescript


def test_the_typescript_declarations_match_the_python_types() -> None:
    assert DECLARATIONS.read_text(encoding="utf-8") == typescript(), (
        "run: python -m tests.annotate.typescript"
    )
