"""The charts of the figures of question kinds other than `pair`."""

from __future__ import annotations

from math import isnan
from typing import TYPE_CHECKING

from hsfiq.analysis.kinds.kind import REFERENCES, Figures
from hsfiq.analysis.reports.cells import estimate_cell
from hsfiq.analysis.reports.charts import (
    WIDTH,
    draw_intervals,
    draw_legend,
    draw_reference,
    intervals_height,
)
from hsfiq.analysis.reports.document import Chart

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MARGIN = 1.2  # inches


def chart_of(figures: Figures) -> Chart | None:
    """A dot with its interval for each figure; None for fewer than two rows with one."""
    defined = {
        name: row
        for name, row in figures.rows.items()
        if not all(isnan(estimate.value) for estimate in row.values())
    }
    if len(defined) < 2:
        return None
    rows = [
        f"{name}\nn = {', '.join(dict.fromkeys(f'{each.n:,}' for each in row.values()))}"
        for name, row in defined.items()
    ]
    series = {
        column: [estimate_cell(row[column]) for row in defined.values()]
        for column in figures.columns
    }
    reference = REFERENCES.get(figures.name)

    def paint(figure: Figure) -> None:
        axes = figure.subplots()
        draw_intervals(axes, rows, series)
        if reference is not None:
            draw_reference(axes, *reference)
        axes.set_xlabel(", ".join(series))
        if len(series) > 1 or reference is not None:
            draw_legend(figure, axes)

    return Chart(
        name=f"{figures.name}_chart",
        title=figures.title,
        caption=f"{figures.title}, with 95% intervals; n below each name. {figures.method}",
        alt=f"One row for each {figures.rows_are}, with the figures of the table and their "
        "intervals.",
        size=(WIDTH, intervals_height(2 * len(rows), len(series), MARGIN)),
        paint=paint,
    )
