"""Results as table cells, and cells as text. Reports round figures here and nowhere else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import isnan

from hsfiq.analysis.reports.document import Cell, NumberCell, Style
from hsfiq.analysis.resampling.estimate import Estimate
from hsfiq.analysis.resampling.interval import ConfidenceInterval
from hsfiq.analysis.statistics.correlation import Correlation
from hsfiq.analysis.statistics.difference import Difference
from hsfiq.analysis.statistics.preference import Rate

DASH = "\N{EM DASH}"
MINUS = "\N{MINUS SIGN}"
STARS = ((0.001, "***"), (0.01, "**"), (0.05, "*"))
"""The marks of a p-value of at most each limit, as in CIRQRS Table 2."""
SMALLEST_P = 1e-300


def number_cell(
    value: float,
    reason: str | None = None,
    *,
    n: int | None = None,
    ci: ConfidenceInterval | None = None,
    style: Style = "plain",
) -> NumberCell:
    """A figure, with its interval if it has one; its reason is kept only if it is undefined."""
    bounds = None if ci is None else (ci.low, ci.high)
    return NumberCell(value, n, bounds, ci, reason if isnan(value) else None, style)


def estimate_cell(estimate: Correlation | Rate | Estimate) -> NumberCell:
    return number_cell(estimate_value(estimate), estimate.reason, n=estimate.n, ci=estimate.ci)


def estimate_value(estimate: Correlation | Rate | Estimate) -> float:
    """The estimated figure; NaN if undefined."""
    if isinstance(estimate, Correlation):
        return estimate.rho
    return estimate.rate if isinstance(estimate, Rate) else estimate.value


def difference_cell(difference: Difference) -> NumberCell:
    """A paired difference with its interval, marked according to its Holm-adjusted p."""
    cell = number_cell(
        difference.difference, difference.reason, n=difference.n, ci=difference.ci, style="signed"
    )
    return replace(cell, stars=stars(difference.p_holm))


def p_cell(p: float, reason: str | None = None) -> NumberCell:
    return replace(number_cell(p, reason, style="p"), stars=stars(p))


def stars(p: float) -> str:
    """The marks of a p-value; none if it is NaN."""
    return next((marks for limit, marks in STARS if p <= limit), "")


def mark_best(cells: Sequence[NumberCell]) -> list[NumberCell]:
    """Mark the highest cell, if at least two have a value."""
    defined = [cell.value for cell in cells if not isnan(cell.value)]
    highest = max(defined) if len(defined) > 1 else None
    return [replace(cell, best=cell.value == highest) for cell in cells]


def cell_text(cell: Cell) -> str:
    """A cell without its superscript; an undefined figure is a dash."""
    if isinstance(cell, str):
        return cell
    if isinstance(cell, int):
        return f"{cell:,}"
    return " ".join(value_and_interval(cell)).strip()


def value_and_interval(cell: NumberCell) -> tuple[str, str]:
    """A figure and its interval as text; the interval is empty if it has none."""
    if isnan(cell.value):
        return DASH, ""
    interval = "" if cell.bounds is None else bounds_text(cell.bounds, cell.style)
    return number_text(cell.value, cell.style), interval


def bounds_text(bounds: tuple[float, float], style: Style = "plain") -> str:
    if isnan(bounds[0]):
        return f"[{DASH}]"
    low, high = (number_text(bound, style) for bound in bounds)
    return f"[{low}, {high}]"


def number_text(value: float, style: Style = "plain") -> str:
    """A figure, which must not be NaN, as it is written in sentences and tables."""
    if style == "p":
        if value < SMALLEST_P:
            return f"< {SMALLEST_P:.0e}"
        return f"{value:.1e}" if value < 0.001 else f"{value:.3f}"
    if style == "points":
        value *= 100
    formats = {
        "percent": ".1%",
        "points": ".2f",
        "signed": "+.3f",
        "short": ",.4g",
        "plain": ",.3f",
    }
    return format(value, formats[style]).replace("-", MINUS)
