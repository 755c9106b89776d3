"""The differences between many metrics as a matrix, where a row for each two would be too long."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan
from typing import TYPE_CHECKING

from hsfiq.analysis.reports import charts
from hsfiq.analysis.reports.cells import MINUS
from hsfiq.analysis.reports.document import Chart
from hsfiq.analysis.statistics.compare import Comparison
from hsfiq.analysis.statistics.difference import Difference

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = "PuOr"
"""Purple and orange, which colour-blind readers can distinguish."""
CELL_HEIGHT = 0.3  # inches
LABEL_LENGTH = 16
SIGNIFICANT = 0.05
DARK = 0.55
"""From this share of the largest difference on, a cell is dark and its text white."""


def matrix_chart(comparisons: Sequence[Comparison]) -> Chart:
    """Each cell: the row's metric minus the column's; rho below the diagonal, tie_half above."""
    names = by_wins(comparisons)

    def paint(figure: Figure) -> None:
        axes = figure.subplots()
        _paint(axes, names, comparisons)

    differences = [(each.spearman, each.tie_half) for each in comparisons]
    return Chart(
        "comparisons",
        "Which metric agrees better with people",
        _caption(names, comparisons),
        "A matrix with a row and a column for each metric, best first. Below the diagonal: rho of "
        "the row's metric minus that of the column's; above it: the same for tie_half. Bold "
        "figures have a Holm-adjusted p-value below .05.",
        (charts.WIDTH, 1.1 + CELL_HEIGHT * len(names)),
        paint,
        is_wide=True,
        is_empty=all(isnan(each.difference) for pair in differences for each in pair),
    )


def by_wins(comparisons: Sequence[Comparison]) -> list[str]:
    """The metrics by how many others have a lower rho, most first."""
    wins: dict[str, int] = {}
    for each in comparisons:
        for name in (each.metric, each.other):
            wins.setdefault(name, 0)
        wins[each.metric] += each.spearman.difference > 0
        wins[each.other] += each.spearman.difference < 0
    return sorted(wins, key=lambda name: -wins[name])


def _paint(axes: Axes, names: Sequence[str], comparisons: Sequence[Comparison]) -> None:
    place = {name: number for number, name in enumerate(names)}
    cells: dict[tuple[int, int], tuple[float, Difference]] = {}
    for each in comparisons:
        first, second = place[each.metric], place[each.other]
        row, column = max(first, second), min(first, second)
        sign = 1 if row == first else -1
        cells[row, column] = (sign * each.spearman.difference, each.spearman)
        cells[column, row] = (-sign * each.tie_half.difference, each.tie_half)
    values = [[cells[row, column][0] if row != column else float("nan")
               for column in place.values()] for row in place.values()]  # fmt: skip
    defined = [abs(value) for value, _ in cells.values() if not isnan(value)]
    largest = max(defined, default=0.0) or 1.0
    axes.pcolormesh(values, cmap=COLOURS, vmin=-largest, vmax=largest, edgecolors="white")
    axes.invert_yaxis()
    for (row, column), (value, difference) in cells.items():
        if not isnan(value):
            text = f"{value:+.2f}".replace("0.", ".", 1).replace("-", MINUS)
            axes.text(
                column + 0.5,
                row + 0.5,
                text,
                ha="center",
                va="center",
                color="white" if abs(value) > DARK * largest else charts.INK,
                weight="bold" if difference.p_holm < SIGNIFICANT else "normal",
            )
    labels = [charts.shorten(name, LABEL_LENGTH) for name in names]
    middles = [place + 0.5 for place in range(len(names))]
    axes.set_xticks(middles, labels, rotation=35, ha="right", rotation_mode="anchor")
    axes.set_yticks(middles, labels)
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.set_xlabel("row minus column; rho below the diagonal, tie_half above; bold: significant")


def _caption(names: Sequence[str], comparisons: Sequence[Comparison]) -> str:
    n = len(comparisons)
    different = [each for each in comparisons if each.spearman.p_holm < SIGNIFICANT]
    n_tie_half = sum(each.tie_half.p_holm < SIGNIFICANT for each in comparisons)
    caption = (
        f"The rhos of {len(different):,} of {n:,} pairs of metrics differ significantly (Holm), "
        f"and the tie_half of {n_tie_half:,}. "
    )
    best = names[0]
    beaten = sum(_beats(each, best) for each in comparisons)
    caption += f"{best} has the highest rho, significantly higher than {beaten} of "
    return f"{caption}{len(names) - 1} others."


def _beats(comparison: Comparison, name: str) -> bool:
    """Whether a metric's rho is significantly higher than that of the other."""
    difference = comparison.spearman.difference
    if comparison.spearman.p_holm >= SIGNIFICANT or isnan(difference):
        return False
    return name == (comparison.metric if difference > 0 else comparison.other)
