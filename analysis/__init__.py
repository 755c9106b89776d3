"""The statistics: DataFrames in, frozen results and figures out.

Imports of hsfiq only the reader of release folders, errors and texts.

`analysis.report(release, metrics=["recall@5"])` computes everything at once. It is imported on
first use, so that importing a single statistic loads nothing else.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hsfiq.analysis.analyze import load_inputs
    from hsfiq.analysis.data.release import read_release, release_of_tables
    from hsfiq.analysis.reports.report import report

__all__ = ["load_inputs", "read_release", "release_of_tables", "report"]

MODULES = {
    "load_inputs": "hsfiq.analysis.analyze",
    "read_release": "hsfiq.analysis.data.release",
    "release_of_tables": "hsfiq.analysis.data.release",
    "report": "hsfiq.analysis.reports.report",
}


def __getattr__(name: str) -> object:
    if name in MODULES:
        return getattr(import_module(MODULES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
