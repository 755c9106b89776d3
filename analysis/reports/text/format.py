"""Figures as plain text. Text for the terminal rounds figures here and nowhere else."""

from __future__ import annotations

from math import isnan
from textwrap import wrap

from hsfiq.analysis.reports.cells import SMALLEST_P, estimate_value
from hsfiq.analysis.resampling.estimate import Estimate
from hsfiq.analysis.resampling.interval import ConfidenceInterval
from hsfiq.analysis.statistics.correlation import Correlation
from hsfiq.analysis.statistics.preference import Rate

WIDTH = 100


def interval_text(interval: ConfidenceInterval | None, digits: int = 4) -> str:
    if interval is None or isnan(interval.low):
        return "[undefined]"
    return f"[{interval.low:.{digits}f}, {interval.high:.{digits}f}]"


def estimate_text(estimate: Correlation | Rate | Estimate, digits: int = 4) -> str:
    """An estimate to this many digits, with its interval to three."""
    if estimate.reason:
        return "undefined"
    return f"{estimate_value(estimate):.{digits}f} {interval_text(estimate.ci, 3)}"


def p_text(p: float) -> str:
    return f"p < {SMALLEST_P:.0e}" if p < SMALLEST_P else f"p = {p:.2g}"


def folded(text: str) -> str:
    """A line in as many as it needs, of at most `WIDTH` characters unless a word is longer."""
    if len(text) <= WIDTH:
        return text
    indent = " " * (len(text) - len(text.lstrip()) + 2)
    lines = wrap(
        text,
        WIDTH,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
        replace_whitespace=False,
    )
    return "\n".join(lines)


def line(label: str, text: str = "") -> str:
    """A line whose text starts at the common column; an empty label continues the line above."""
    return f"{label:<17}{text}"
