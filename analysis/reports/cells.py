"""Results as the cells of tables, and cells as text. Figures are rounded here and nowhere else."""

from __future__ import annotations

from dataclasses import replace
from math import isnan
from typing import TYPE_CHECKING

from hsfiq.analysis.reports.document import Measured

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hsfiq.analysis.reports.document import Cell, Style
    from hsfiq.analysis.resampling.estimate import Estimate
    from hsfiq.analysis.resampling.interval import Interval
    from hsfiq.analysis.statistics.compare import Difference
    from hsfiq.analysis.statistics.correlation import Correlation
    from hsfiq.analysis.statistics.preference import Rate

DASH = "\N{EM DASH}"
MINUS = "\N{MINUS SIGN}"
MARKS = ((0.001, "***"), (0.01, "**"), (0.05, "*"))
"""p at most so much gets these marks, as in CIRQRS Table 2."""
SMALLEST_P = 1e-300


def of_rho(found: Correlation) -> Measured:
    """Spearman's rho with its interval."""
    return measured(found.rho, found.n, found.ci, found.reason)


def of_rate(found: Rate) -> Measured:
    """A preference rate with its interval."""
    return measured(found.rate, found.n, found.ci, found.reason)


def of_estimate(found: Estimate) -> Measured:
    """An estimate with its interval."""
    return measured(found.value, found.n, found.ci, found.reason)


def of_difference(found: Difference) -> Measured:
    """A paired difference with its interval, marked by its Holm p."""
    cell = measured(found.difference, found.n, found.ci, found.reason)
    return replace(cell, style="signed", stars=stars(found.p_holm))


def measured(value: float, n: int | None, ci: Interval | None, reason: str | None) -> Measured:
    """Any figure with a resampled interval; the reason is kept only where it has no value."""
    ends = None if ci is None else (ci.low, ci.high)
    return Measured(value, n, ends, ci, reason if isnan(value) else None)


def p_value(p: float, reason: str | None) -> Measured:
    """A p-value."""
    return Measured(p, reason=reason if isnan(p) else None, style="p", stars=stars(p))


def share(value: float, reason: str | None = None) -> Measured:
    """A share, shown as per cent."""
    return Measured(value, reason=reason if isnan(value) else None, style="percent")


def plain(value: float, reason: str | None = None) -> Measured:
    """A figure without an interval."""
    return Measured(value, reason=reason if isnan(value) else None)


def stars(p: float) -> str:
    """The marks of a p-value; none where it is NaN."""
    return next((marks for most, marks in MARKS if p <= most), "")


def mark_best(cells: Sequence[Measured]) -> list[Measured]:
    """Mark the highest of some cells, if there are two or more with a value."""
    known = [cell.value for cell in cells if not isnan(cell.value)]
    highest = max(known) if len(known) > 1 else None
    return [replace(cell, best=cell.value == highest) for cell in cells]


def shown(cell: Cell) -> str:
    """A cell as text, without its marks.

    Args:
        cell: of a table.

    Returns:
        Text as it is, counts with thousands separated, a dash where a figure is undefined.
    """
    if isinstance(cell, str):
        return cell
    if isinstance(cell, int):
        return f"{cell:,}"
    return " ".join(halves(cell)).strip()


def halves(cell: Measured) -> tuple[str, str]:
    """A figure and its interval as text; the interval is empty where it has none."""
    if isnan(cell.value):
        return DASH, ""
    interval = "" if cell.ends is None else ends(cell.ends, cell.style)
    return number(cell.value, cell.style), interval


def ends(interval: tuple[float, float], style: Style = "plain") -> str:
    """An interval as it stands in a sentence."""
    low, high = interval
    return f"[{DASH}]" if isnan(low) else f"[{number(low, style)}, {number(high, style)}]"


def number(value: float, style: Style = "plain") -> str:
    """A figure as it stands in a sentence.

    Args:
        value: not NaN.
        style: see `Measured`.
    """
    if style == "percent":
        text = f"{value:.1%}"
    elif style == "p":
        text = _p(value)
    elif style == "signed":
        text = f"{value:+.3f}"
    elif style == "short":
        text = f"{value:,.4g}"
    else:
        text = f"{value:,.3f}"
    return text.replace("-", MINUS) if style != "p" else text


def _p(p: float) -> str:
    if p < SMALLEST_P:
        return f"< {SMALLEST_P:.0e}"
    return f"{p:.1e}" if p < 0.001 else f"{p:.3f}"
