"""The charts of an arena: strengths with their intervals, and the win matrix."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan
from typing import TYPE_CHECKING

from hsfiq.analysis.arena.arena import Arena
from hsfiq.analysis.reports import charts
from hsfiq.analysis.reports.cells import estimate_cell
from hsfiq.analysis.reports.document import Chart
from hsfiq.analysis.systems.win_matrix import Duel

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = "PuOr"
"""Purple and orange, which colour-blind readers can distinguish."""
CELL_HEIGHT = 0.45  # inches
DARK = 0.3
"""From this distance to 0.5 on, a cell is dark and its text white."""


def strengths_chart(arena: Arena) -> Chart:
    return charts.interval_chart(
        "arena",
        "Strength of each system",
        "Strengths with 95% intervals, best first.",
        "For each system, its strength in log odds with its interval, as in the table.",
        rows=[f"{name}\nn = {each.votes:,}" for name, each in arena.systems.items()],
        series={"strength": [estimate_cell(each.strength) for each in arena.systems.values()]},
        x_label="strength (log odds)",
        reference=(0.0, "mean system"),
    )


def win_matrix_chart(duels: Sequence[Duel], names: Sequence[str]) -> Chart:
    rates = {(duel.system, duel.other): duel.rate for duel in duels}

    def paint(figure: Figure) -> None:
        axes = figure.subplots()
        nan = float("nan")
        values = [[rates[i, j].value if i != j else nan for j in names] for i in names]
        axes.pcolormesh(values, cmap=COLOURS, vmin=0, vmax=1, edgecolors="white")
        axes.invert_yaxis()
        for row, of_row in enumerate(values):
            for column, value in enumerate(of_row):
                if isnan(value):
                    continue
                colour = "white" if abs(value - 0.5) > DARK else charts.INK
                text = f"{value:.2f}\nn = {rates[names[row], names[column]].n:,}"
                axes.text(column + 0.5, row + 0.5, text, color=colour, ha="center", va="center")
        places = [place + 0.5 for place in range(len(names))]
        axes.set_yticks(places, [charts.shorten(name) for name in names])
        axes.set_xticks(places, [charts.shorten(name, 16) for name in names])
        axes.xaxis.tick_top()
        axes.tick_params(length=0)

    return Chart(
        "win_matrix",
        "Win matrix",
        "How often the system of the row was preferred to that of the column, ties counted half; "
        "n is the number of votes between the two.",
        "A matrix with a row and a column for each system, best first, with the shares of the "
        "table.",
        (charts.WIDTH, 0.8 + CELL_HEIGHT * len(names)),
        paint,
        is_empty=all(isnan(rate.value) for rate in rates.values()),
    )
