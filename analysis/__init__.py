"""The statistics: DataFrames in, frozen results and figures out. A leaf: imports no other room.

`analysis.report(release, metrics=["recall@5"])` gives everything at once; it is imported when it
is first asked for, so that importing a single statistic loads nothing else.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hsfiq.analysis.reports.report import report

__all__ = ["report"]


def __getattr__(name: str) -> object:
    if name == "report":
        return import_module("hsfiq.analysis.reports.report").report
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
