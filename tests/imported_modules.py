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

LAZY = "transformers"
"""Imports the modules of a class, for a second, when the class is first asked for."""

ASKED_FOR = re.compile(rf"^from {LAZY} import (\([^)]*\)|.*)", re.MULTILINE)


def imported_modules(texts: list[str]) -> set[str]:
    """The modules that files of tests name in their import statements."""
    names = {name for text in texts for name in IMPORTED.findall(text)}
    return {name for name in names if not NOT_SHARED.match(name)}


def lazy_names(texts: list[str]) -> set[str]:
    """What files of tests import from the library that does not import it before."""
    imports = (names for text in texts for names in ASKED_FOR.findall(text))
    return {name for names in imports for name in re.findall(r"\w+", names)}


TEXTS = [path.read_text(encoding="utf-8") for path in Path(__file__).parent.rglob("*.py")]
for module in sorted(imported_modules(TEXTS)):
    with suppress(ImportError):
        import_module(module)
for name in sorted(lazy_names(TEXTS)):
    with suppress(ImportError, AttributeError):
        getattr(import_module(LAZY), name)
