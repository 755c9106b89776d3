"""The report's section on metric against metric."""

from __future__ import annotations

from math import isnan
from typing import TYPE_CHECKING

from hsfiq.analysis.reports import charts
from hsfiq.analysis.reports.cells import number, of_difference, p_value
from hsfiq.analysis.reports.document import Chart, Column, Section, Table
from hsfiq.analysis.statistics.compare import STATISTICS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from hsfiq.analysis.analyze import Analysis
    from hsfiq.analysis.statistics.compare import Comparison

NAMES = {"spearman": "Spearman's rho", "tie_half": "tie_half", "symmetric": "symmetric rate"}


def comparison_section(analysis: Analysis) -> Section:
    """Lay out which metric agrees better with people, on the same sets and pairs."""
    if not analysis.comparisons:
        text = "One metric has no other to be compared with."
        return Section("comparisons", "Metric against metric", (text,))
    blocks = (_chart(list(analysis.comparisons)), _table(list(analysis.comparisons)))
    return Section("comparisons", "Metric against metric", blocks)


def _table(comparisons: list[Comparison]) -> Table:
    rows = []
    for each in comparisons:
        for statistic in STATISTICS:
            found = getattr(each, statistic)
            rows.append(
                (
                    each.metric,
                    each.other,
                    NAMES[statistic],
                    of_difference(found),
                    p_value(found.p, found.reason),
                    p_value(found.p_holm, found.reason),
                    found.n,
                )
            )
    columns = (
        Column("metric", "Metric"),
        Column("other", "less"),
        Column("statistic", "Statistic"),
        Column("difference", "Difference", "difference"),
        Column("p", "P-value", "difference"),
        Column("p_holm", "Holm p", "difference"),
        Column("rows", "Rows"),
    )
    note = "Marks go by the Holm p. A difference without a mark is no sign of equality."
    return Table("comparisons", "Paired differences between metrics", columns, tuple(rows), note)


def _chart(comparisons: list[Comparison]) -> Chart:
    names = [f"{each.metric}\nless {each.other}" for each in comparisons]

    def paint(figure: Figure) -> None:
        axes = figure.subplots()
        series = {
            NAMES[statistic]: [of_difference(getattr(each, statistic)) for each in comparisons]
            for statistic in STATISTICS
        }
        charts.intervals(axes, names, series)
        charts.reference(axes, 0.0, "no difference")
        axes.set_xlabel("difference (paired)")
        charts.legend(figure, axes)

    return Chart(
        "comparisons",
        "Which metric agrees better with people",
        _caption(comparisons),
        "For every two metrics three dots with paired intervals: the differences of rho, of "
        "tie_half and of the symmetric rate, beside a line at no difference.",
        (charts.WIDTH, charts.height(len(names), 3, 1.2)),
        paint,
    )


def _caption(comparisons: list[Comparison]) -> str:
    said = []
    for each in comparisons:
        rho = each.spearman
        if isnan(rho.difference) or isnan(rho.p_holm):
            said.append(f"{each.metric} and {each.other} cannot be compared by rho.")
            continue
        ahead, behind = each.metric, each.other
        if rho.difference < 0:
            ahead, behind = behind, ahead
        said.append(
            f"{ahead} goes better with the scores than {behind} by "
            f"{number(abs(rho.difference))} (Holm p {_against(rho.p_holm)})."
            if rho.p_holm < 0.05
            else f"{each.metric} and {each.other} are not shown to differ in rho (Holm p "
            f"{_against(rho.p_holm)})."
        )
    return " ".join(said)


def _against(p: float) -> str:
    return "< 0.001" if p < 0.001 else f"= {number(p, 'p')}"
