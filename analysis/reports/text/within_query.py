"""Correlations within queries, and tests of equivalence, as plain text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isnan

from hsfiq.analysis.counts import count_text
from hsfiq.analysis.equivalence import Equivalence
from hsfiq.analysis.reports.text.format import estimate_text, interval_text, line, p_text
from hsfiq.analysis.within_query import WithinQuery

VERDICTS = {True: "equivalent", False: "not shown to be equivalent"}


def within_query_lines(within: WithinQuery) -> Iterator[str]:
    yield line("within queries", "mean rank correlation among the sets of a query")
    for metric, each in within.metrics.items():
        if each.spearman.reason is not None:
            yield f"  {metric}: undefined: {each.spearman.reason}"
            continue
        yield (
            f"  {metric}: rho {estimate_text(each.spearman)}, tau {estimate_text(each.kendall)}, "
            f"{each.spearman.n:,} of {count_text(each.n_groups, 'query', 'queries')}"
        )
    for difference in within.differences:
        names = f"{difference.metric} minus {difference.other}"
        gap = difference.spearman
        if isnan(gap.difference):
            yield f"  {names}: undefined: {gap.reason}"
            continue
        p = f"{p_text(gap.p)}, Holm {p_text(gap.p_holm)}"
        p = "p undefined" if isnan(gap.p) else p
        yield f"  {names}: {gap.difference:.4f} {interval_text(gap.ci, 3)}, {p}"


def equivalence_lines(tested: Sequence[Equivalence]) -> Iterator[str]:
    if not tested:
        yield line("equivalence", "undefined: neither two named systems nor two metrics")
        return
    yield line("equivalence", f"within {tested[0].margin:g} of each other; 90% intervals")
    for each in tested:
        names = f"  {each.first} and {each.second}, {each.statistic}:"
        if each.is_equivalent is None:
            yield f"{names} undefined: {each.reason}"
            continue
        yield (
            f"{names} {each.difference:+.4f} [{each.low:+.4f}, {each.high:+.4f}], "
            f"{p_text(each.p)}, Holm {p_text(each.p_holm)}: {VERDICTS[each.is_equivalent]}"
        )
