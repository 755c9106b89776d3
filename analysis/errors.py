"""Errors of the statistics that a user can act on. Each keeps its parts: where, what, remedy."""

from __future__ import annotations

from pathlib import Path

# Counts in words: "1 set", "2 sets".


def count_text(n: int, noun: str, plural: str | None = None) -> str:
    """A number with its noun in the singular or the plural, which ends in -s unless it is given."""
    return f"{n:,} {noun if n == 1 else plural or f'{noun}s'}"


class AnalysisError(Exception):
    """Data or a metric name that cannot be used as it is; the command line exits with 2.

    Attributes:
        where: the file and the place in it, or the option.
        remedy: how to fix it, unless `what` makes that plain.
    """

    exit_code = 2

    def __init__(self, where: Path | str, what: str, remedy: str = "") -> None:
        super().__init__(f"{where}: {what}" + (f"; {remedy}" if remedy else ""))
        self.where = str(where)
        self.what = what
        self.remedy = remedy


class NothingToAnalyse(AnalysisError):
    """No answer is of the requested kind; the command line exits with 1."""

    exit_code = 1


def first_few(names: list[str], limit: int = 3) -> str:
    """The first names and the number of the others: "a, b, c and 7 more"."""
    shown = ", ".join(names[:limit])
    return shown if len(names) <= limit else f"{shown} and {len(names) - limit} more"
