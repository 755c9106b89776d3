"""The section on correlations within queries."""

from __future__ import annotations

from hsfiq.analysis.reports.cells import difference_cell, estimate_cell, number_cell, p_cell
from hsfiq.analysis.reports.document import Block, Section
from hsfiq.analysis.reports.layout import table
from hsfiq.analysis.within_query import WithinQuery

ABOUT = (
    "The mean, over queries, of the rank correlation between metric and human score among the sets "
    "of one query. With two sets it is 1 or -1, so it asks which of the two is better, and ties of "
    "either do not count."
)


def within_query_section(within: WithinQuery) -> Section:
    correlations = (
        (
            metric,
            estimate_cell(each.spearman),
            estimate_cell(each.kendall),
            each.spearman.n,
            each.n_groups,
            number_cell(each.mean_sets, each.reason, style="short"),
        )
        for metric, each in within.metrics.items()
    )
    blocks: list[Block] = [ABOUT, table("within_query", correlations, unit=within.unit)]
    if within.differences:
        rows = (
            (
                each.metric,
                each.other,
                difference_cell(each.spearman),
                number_cell(each.spearman.p, each.spearman.reason, style="p"),
                p_cell(each.spearman.p_holm, each.spearman.reason),
                number_cell(each.cells.p, each.cells.reason, style="p"),
                each.spearman.n,
            )
            for each in within.differences
        )
        blocks.append(table("within_query_differences", rows))
    return Section("within-query", "Within queries", tuple(blocks))
