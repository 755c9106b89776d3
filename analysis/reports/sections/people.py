"""The report's section on the participants: position bias, speed, checks."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from hsfiq.analysis.reports import charts
from hsfiq.analysis.reports.cells import measured, number, p_value, plain, share
from hsfiq.analysis.reports.document import Block, Cell, Chart, Column, Measured, Section, Table
from hsfiq.analysis.statistics.participants import WHY_UNDEFINED

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from hsfiq.analysis.analyze import Analysis
    from hsfiq.analysis.statistics.participants import Participants

FIGURES = {
    "n": "Questions",
    "mean_score": "Mean score",
    "set_1": "Set 1 preferred",
    "same_scores": "Same scores",
    "contradictions": "Contradictions",
    "irrelevant": "Irrelevant",
    "seconds": "Median seconds",
    "failed_checks": "Failed checks",
}
SHORT = ("n", "seconds", "failed_checks")
SHARES = ("set_1", "same_scores", "contradictions", "irrelevant")
LEVELS = {
    "lowest": 0.0,
    "lower_quartile": 0.25,
    "median": 0.5,
    "upper_quartile": 0.75,
    "highest": 1.0,
}


def people_section(analysis: Analysis, found: Participants) -> Section:
    """Lay out how the participants answered, and who stands apart."""
    blocks: tuple[Block, ...] = (
        _bias_table(analysis),
        _chart(found),
        _summary_table(found),
        _outliers_table(found),
        _participants_table(found),
    )
    return Section("participants", "Participants, position bias, speed and checks", blocks)


def _bias_table(analysis: Analysis) -> Table:
    bias = analysis.position_bias
    columns = (
        Column("rate", "P(set 1 preferred)", "position"),
        Column("p", "Binomial p", "position"),
        Column("p_clustered", "Sign-flip p", "position"),
        Column("questions", "Questions"),
        Column("n_participants", "Participants"),
        Column("human_ties", "Human ties left out"),
    )
    row = (
        measured(bias.rate, bias.n, bias.ci, bias.reason),
        p_value(bias.p, bias.reason),
        p_value(bias.p_clustered, bias.reason),
        *(bias.n, bias.n_participants, bias.human_ties),
    )
    note = "The binomial test takes all answers for independent; the sign-flip test does not."
    return Table("position_bias", "Position bias", columns, (row,), note)


def _chart(found: Participants) -> Chart:
    columns = {"P(set 1 preferred)": found.table["set_1"]} | {
        f"own rho of {name}": each["rho"] for name, each in found.by_metric.items()
    }

    def paint(figure: Figure) -> None:
        panels = charts.panels(figure, len(columns))
        for place, (axes, (title, values)) in enumerate(zip(panels, columns.items(), strict=True)):
            colour = (charts.GREY, *charts.COLOURS)[place % (1 + len(charts.COLOURS))]
            places, heights = charts.spread(float(value) for value in values.dropna())
            axes.plot(places, heights, linestyle="", marker="o", ms=4, color=colour)
            charts.reference(axes, 0.5 if place == 0 else 0.0, "chance")
            axes.set(
                title=charts.short(title, charts.ABOVE),
                yticks=[],
                ylim=(-1, max([*heights, 6]) + 1),
            )
            axes.spines["left"].set_visible(False)

    return Chart(
        "participants",
        "One dot for each participant",
        _caption(found),
        "Dot plots over the participants: how often each preferred set 1, and each one's own rho "
        "for every metric; dashed lines mark chance.",
        charts.panels_size(len(columns), 2.0),
        paint,
    )


def _caption(found: Participants) -> str:
    if not len(found.table):
        return "There are no participants."
    said = []
    means = found.table["mean_score"].dropna()
    if len(means):
        said.append(
            f"Participants' mean scores run from {number(means.min())} to {number(means.max())}."
        )
    for name, each in found.by_metric.items():
        rhos = each["rho"].dropna()
        if len(rhos):
            said.append(
                f"{name} goes with the scores of {int((rhos > 0).sum()):,} of {len(rhos):,} "
                "participants (own rho above 0)."
            )
    who = sorted({outlier.participant for outlier in found.outliers})
    said.append(
        f"{len(who):,} stand apart in some figure; they are named below, not left out."
        if who
        else "Nobody stands apart."
    )
    return " ".join(said)


def _figure(name: str, value: float, reason: str) -> Measured:
    cell = share(value, reason) if name in SHARES else plain(value, reason)
    return replace(cell, style="short") if name in SHORT else cell


def summary(found: Participants) -> dict[str, dict[str, float]]:
    """How the participants' figures are spread.

    Args:
        found: the participants; there may be none.

    Returns:
        By figure, then by level, the quantile over the participants who have it; NaN without any.
    """
    columns = {name: found.table[name].astype("float64").dropna() for name in FIGURES}
    return {
        name: {
            level: float(np.quantile(values, at)) if len(values) else float("nan")
            for level, at in LEVELS.items()
        }
        for name, values in columns.items()
    }


def _summary_table(found: Participants) -> Table:
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (FIGURES[name], *(_figure(name, level, _why(name)) for level in levels.values()))
        for name, levels in summary(found).items()
    )
    columns = (
        Column("figure", "Figure"),
        *(Column(level, level.replace("_", " ").capitalize()) for level in LEVELS),
    )
    return Table("participants_summary", "How the participants answered", columns, rows)


def _why(name: str) -> str:
    return WHY_UNDEFINED.get(name, "nothing was answered")


def _outliers_table(found: Participants) -> Table:
    rows = tuple(
        (each.participant, each.figure, plain(each.value), plain(each.median), plain(each.z))
        for each in found.outliers
    )
    columns = (
        Column("participant", "Participant"),
        Column("figure", "Figure"),
        Column("value", "Value"),
        Column("median", "Median"),
        Column("z", "Modified z", "outliers"),
    )
    return Table("outliers", "Who stands apart (named, not left out)", columns, rows)


def _participants_table(found: Participants) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for person in found.table.index:
        own = found.table.loc[person]
        cells: list[Cell] = [str(person), int(own["n"])]
        cells += [_figure(name, float(own[name]), _why(name)) for name in FIGURES if name != "n"]
        for each in found.by_metric.values():
            cells += [
                plain(float(each.loc[person, name]), WHY_UNDEFINED[name])
                for name in ("rho", "tie_half")
            ]
        rows.append(tuple(cells))
    metrics = [
        Column(f"{name}_{metric}", f"{name} of {metric}")
        for metric in found.by_metric
        for name in ("rho", "tie_half")
    ]
    columns = (
        Column("participant", "Participant"),
        *(Column(name, label) for name, label in FIGURES.items()),
        *metrics,
    )
    return Table("participants", "Each participant", columns, tuple(rows))
