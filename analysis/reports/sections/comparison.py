"""The section that compares metrics with each other."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan

from hsfiq.analysis.reports import charts
from hsfiq.analysis.reports.cells import difference_cell, number_cell, number_text, p_cell
from hsfiq.analysis.reports.document import Chart, Section, Table
from hsfiq.analysis.reports.layout import table
from hsfiq.analysis.reports.sections.comparison_matrix import matrix_chart
from hsfiq.analysis.statistics.compare import STATISTICS, Comparison

MANY_PAIRS = 6
"""With more pairs of metrics than this, the chart is a matrix."""
NAMES = {"spearman": "Spearman's rho", "tie_half": "tie_half", "symmetric": "symmetric rate"}


def comparison_section(comparisons: Sequence[Comparison]) -> Section:
    """Which metric agrees better with people, on the same sets and pairs."""
    title = "Differences between metrics"
    if not comparisons:
        return Section("comparisons", title, ("A comparison needs at least two metrics.",))
    chart = matrix_chart if len(comparisons) > MANY_PAIRS else _chart
    return Section("comparisons", title, (chart(comparisons), _table(comparisons)))


def _table(comparisons: Sequence[Comparison]) -> Table:
    differences = (
        (comparison, name, getattr(comparison, name))
        for comparison in comparisons
        for name in STATISTICS
    )
    rows = (
        (
            comparison.metric,
            comparison.other,
            NAMES[name],
            difference_cell(difference),
            number_cell(difference.p, difference.reason, style="p"),
            p_cell(difference.p_holm, difference.reason),
            difference.n,
        )
        for comparison, name, difference in differences
    )
    return table("comparisons", rows)


def _chart(comparisons: Sequence[Comparison]) -> Chart:
    return charts.interval_chart(
        "comparisons",
        "Which metric agrees better with people",
        " ".join(_sentence(comparison) for comparison in comparisons),
        "For every two metrics, three dots with paired intervals: the differences in rho, in "
        "tie_half and in the symmetric rate, beside a line at no difference.",
        rows=[f"{comparison.metric}\nminus {comparison.other}" for comparison in comparisons],
        series={
            NAMES[statistic]: [
                difference_cell(getattr(comparison, statistic)) for comparison in comparisons
            ]
            for statistic in STATISTICS
        },
        x_label="difference (paired)",
        reference=(0.0, "no difference"),
    )


def _sentence(comparison: Comparison) -> str:
    rho = comparison.spearman
    better, worse = comparison.metric, comparison.other
    if isnan(rho.difference) or isnan(rho.p_holm):
        return f"{better} and {worse} cannot be compared by rho."
    p = "< 0.001" if rho.p_holm < 0.001 else f"= {number_text(rho.p_holm, 'p')}"
    if rho.p_holm >= 0.05:
        return f"The rhos of {better} and {worse} do not differ significantly (Holm p {p})."
    if rho.difference < 0:
        better, worse = worse, better
    return (
        f"The rho of {better} is higher than that of {worse} by "
        f"{number_text(abs(rho.difference))} (Holm p {p})."
    )
