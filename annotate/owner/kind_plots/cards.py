"""Cards of figures: each figure with its interval, on the axis of its table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil, isnan
from typing import TYPE_CHECKING

from markupsafe import Markup

from hsfiq.annotate.owner import plots
from hsfiq.annotate.owner.cards import Card, Line
from hsfiq.annotate.owner.figures import NEEDS
from hsfiq.kinds.search import POINTS
from hsfiq.study.config import StudyConfig, n_sets_of

if TYPE_CHECKING:
    from hsfiq.analysis.kinds.kind import Figures
    from hsfiq.analysis.resampling.bootstrap import Estimate

Ends = tuple[float, float]

SHARES = (0, 0.25, 0.5, 0.75, 1)
ALL = "all"
BY_SYSTEM = (
    "outcomes",
    "ratings",
    "stops",
    "effort",
    "texts",
    "satisfaction",
    "changes",
    "nearest",
)
ALPHA = (-0.5, 0, 0.5, 1)
CORRELATION = (-1, -0.5, 0, 0.5, 1)
UNKNOWN: Ends = (float("nan"), float("nan"))


def kind_cards(tables: Sequence[Figures] | None, config: StudyConfig) -> tuple[Card, ...]:
    """A card for each table that has a row; `tables` is as `KindFigures.of` returns it."""
    if tables is None:
        return (Card("Answers", empty=NEEDS),)
    return tuple(card_of(table, config) for table in tables if table.rows)


def card_of(table: Figures, config: StudyConfig) -> Card:
    from hsfiq.analysis.kinds.kind import REFERENCES  # noqa: PLC0415 (the extra may be absent)

    mark, meaning = REFERENCES.get(table.name, (None, ""))
    ticks = ticks_of(table, config)
    lines = tuple(
        line_of(label_of(table, name, column), estimate, ticks, mark)
        for name, row in rows_of(table).items()
        for column, estimate in row.items()
    )
    dashed = (f"Dashed: {meaning}",) if meaning else ()
    return Card(table.title, lines, (*dashed, f"{table.method} 95 % intervals."))


def rows_of(table: Figures) -> Mapping[str, Mapping[str, Estimate]]:
    """Without those over all systems, where there are several: of searches they are many."""
    if table.name not in BY_SYSTEM:
        return table.rows
    rows = {name: row for name, row in table.rows.items() if name != ALL}
    return {name: {c: e for c, e in row.items() if c != ALL} or row for name, row in rows.items()}


def label_of(table: Figures, row: str, column: str) -> str:
    name = f"{table.rows_are} {row}" if row.isdigit() else row
    return name if len(table.columns) == 1 else f"{name}, {column}"


def line_of(label: str, estimate: Estimate, ticks: Sequence[float], mark: float | None) -> Line:
    """A figure with its interval, or why it is undefined."""
    if isnan(estimate.value):
        return Line("", f"{label}: undefined; {estimate.reason}", Markup(""))
    ci = estimate.ci
    ends: Ends = UNKNOWN if ci is None else (ci.low, ci.high)
    spread = "" if isnan(ends[0]) else f"{ends[0]:z.2f} to {ends[1]:z.2f}, "
    plot = plots.interval(estimate.value, ends, ticks, mark, label)
    return Line(f"{estimate.value:z.2f}", f"{label}; {spread}n = {estimate.n:,}", plot)


def ticks_of(table: Figures, config: StudyConfig) -> Sequence[float]:
    """The ticks of a table's axis; the first and the last are its ends."""
    if table.name == "effort":
        return (0, max(1, ceil(max(values_in(table), default=1))))
    if table.name in ("changes", "strengths"):
        end = max(1, ceil(max(map(abs, values_in(table)), default=1)))
        return (-end, 0, end)
    axes: dict[str, Sequence[float]] = {
        "mean_scores": range(1, config.wording.points + 1),
        "mean_ranks": range(1, n_sets_of(config.design) + 1),
        "agreement": ALPHA,
        "correlation": CORRELATION,
        "ratings": range(1, POINTS + 1),
        "satisfaction": range(1, POINTS + 1),
    }
    return axes.get(table.name, SHARES)


def values_in(table: Figures) -> list[float]:
    """The figures of a table and the ends of their intervals, as far as they are defined."""
    estimates = [estimate for row in table.rows.values() for estimate in row.values()]
    values = [estimate.value for estimate in estimates]
    values += [end for e in estimates if e.ci is not None for end in (e.ci.low, e.ci.high)]
    return [value for value in values if not isnan(value)]
