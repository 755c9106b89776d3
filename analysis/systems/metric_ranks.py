"""Ranks of metrics from their paired comparisons, as in the tables of the WMT metrics task.

Metrics are put in order of their value. Going down, a new rank begins at the first metric that is
significantly worse than any metric of the current rank. Nothing is computed anew: the p are those
of `compare_all`, adjusted for all comparisons.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isnan

from hsfiq.analysis.json_values import JsonRecord
from hsfiq.analysis.statistics.compare import Comparison
from hsfiq.analysis.statistics.difference import Difference

SIGNIFICANT = 0.05


@dataclass(frozen=True)
class MetricRank(JsonRecord):
    """The rank of one metric by one statistic.

    Attributes:
        p_below: of each metric further down, by name, Holm's p of no difference; NaN if undefined,
            1 if that metric is the better one on the rows that both have.
    """

    metric: str
    value: float
    rank: int
    p_below: Mapping[str, float]
    reason: str | None = None


def metric_ranks(
    comparisons: Sequence[Comparison], values: Mapping[str, float], statistic: str
) -> list[MetricRank]:
    """Rank the metrics by the statistic of their comparisons, best first.

    `values` are those of the statistic by metric; a metric without one is left out, and fewer than
    two metrics have no ranks.
    """
    order = sorted((name for name in values if not isnan(values[name])), key=lambda m: -values[m])
    if len(order) < 2:
        return []
    p = _p_values(comparisons, statistic)
    ranks: list[MetricRank] = []
    rank, members = 1, list[str]()
    for place, metric in enumerate(order):
        if any(p[better, metric] <= SIGNIFICANT for better in members):
            rank, members = rank + 1, []
        members.append(metric)
        below = {worse: p[metric, worse] for worse in order[place + 1 :]}
        reason = "the two metrics cannot be compared" if any(map(isnan, below.values())) else None
        ranks.append(MetricRank(metric, values[metric], rank, below, reason))
    return ranks


def _p_values(comparisons: Sequence[Comparison], statistic: str) -> dict[tuple[str, str], float]:
    """Holm's p that the first metric of a pair is not better, in both orders."""
    p = {}
    for comparison in comparisons:
        difference: Difference = getattr(comparison, statistic)
        for pair, sign in (
            ((comparison.metric, comparison.other), 1),
            ((comparison.other, comparison.metric), -1),
        ):
            p[pair] = 1.0 if sign * difference.difference < 0 else difference.p_holm
    return p
