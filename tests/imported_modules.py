"""Importing this imports what the tests import, so that workers that fork have all of it."""

from __future__ import annotations

import re
from contextlib import suppress
from importlib import import_module
from pathlib import Path

IMPORTED = re.compile(r"^(?:from|import) ([\w.]+)", re.MULTILINE)
NOT_SHARED = re.compile(r"(?:tests|prometheus_client)\b")
"""pytest rewrites the assertions of tests when it imports them, and prometheus_client reads the
environment when it is imported, so each process imports these itself.
"""


def imported_modules() -> set[str]:
    """The modules that files of tests name in their import statements."""
    texts = (path.read_text(encoding="utf-8") for path in Path(__file__).parent.rglob("*.py"))
    names = {name for text in texts for name in IMPORTED.findall(text)}
    return {name for name in names if not NOT_SHARED.match(name)}


for module in sorted(imported_modules()):
    with suppress(ImportError):
        import_module(module)
