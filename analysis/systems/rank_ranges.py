"""Rank ranges and significance clusters of systems, from the resampled strengths.

System i is better than j if the interval of s_i - s_j lies above 0. The intervals of all pairs hold
together: they are as wide as the 95% quantile, over the resamples, of the largest standardised
deviation of any pair (Mogstad, Romano, Shaikh and Wilhelm 2024, "Inference for Ranks"), expanded
for few clusters by the ratio of Student's quantile to the normal one. A system's
rank is then from 1 + the number of systems that are better to n - the number that are worse, for
all systems at once. A cluster ends where every system above is better than every one below, as in
the tables of the Conference on Machine Translation (WMT).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from math import sqrt

import numpy as np
from scipy import stats

from hsfiq.analysis.arrays import BoolArray
from hsfiq.analysis.json_values import JsonRecord, json_value, with_reason
from hsfiq.analysis.resampling.bootstrap import Bootstrap
from hsfiq.analysis.resampling.interval import MOST_UNDEFINED
from hsfiq.analysis.resampling.spread import LEVEL, TAIL, Spread
from hsfiq.analysis.systems.bradley_terry import EQUAL
from hsfiq.analysis.systems.ranking import Strengths


@dataclass(frozen=True)
class RankRange(JsonRecord):
    """The place of one system.

    Attributes:
        rank: 1 is the strongest; equal strengths share the better rank.
        low, high: the ranks that the data do not rule out.
        cluster: 1 is the best cluster.
    """

    rank: int
    low: int
    high: int
    cluster: int

    def text(self) -> str:
        """The range, such as 2-3."""
        return str(self.low) if self.low == self.high else f"{self.low}-{self.high}"


@dataclass(frozen=True)
class RankRanges(JsonRecord):
    """The places of all systems according to people or to a metric, best first."""

    systems: Mapping[str, RankRange] = field(default_factory=dict)
    reason: str | None = None

    def text(self) -> str:
        """The systems with their ranges; a bar separates clusters."""
        if self.reason is not None:
            return f"undefined: {self.reason}"
        clusters = groupby(self.systems.items(), key=lambda item: item[1].cluster)
        return " | ".join(
            ", ".join(f"{name} {place.text()}" for name, place in systems)
            for _, systems in clusters
        )

    def to_json(self) -> dict[str, object]:
        systems = None if self.reason is not None else json_value(self.systems)
        return with_reason({"systems": systems}, self.reason)


def rank_ranges(strengths: Strengths, names: Sequence[str], bootstrap: Bootstrap) -> RankRanges:
    """Undefined, with a reason, where strengths or their intervals are."""
    if strengths.reason is not None:
        return RankRanges(reason=strengths.reason)
    if bootstrap.n_clusters_of(None) < 2:
        return RankRanges(reason="rank ranges need 2 clusters, and there is 1")
    resampled = strengths.resampled[1:]
    n_undefined = int(np.isnan(resampled).any(axis=1).sum())
    if n_undefined > MOST_UNDEFINED * len(resampled):
        n = len(resampled)
        return RankRanges(reason=f"strengths are undefined in {n_undefined:,} of {n:,} resamples")
    better = better_pairs(strengths, bootstrap)
    order = np.argsort(-strengths.fitted, kind="stable").tolist()
    clusters = cluster_numbers(better, order)
    stronger = strengths.fitted[:, None] - strengths.fitted > EQUAL
    return RankRanges(
        {
            names[system]: RankRange(
                rank=1 + int(stronger[:, system].sum()),
                low=1 + int(better[:, system].sum()),
                high=len(names) - int(better[system].sum()),
                cluster=clusters[system],
            )
            for system in order
        }
    )


def better_pairs(strengths: Strengths, bootstrap: Bootstrap) -> BoolArray:
    """Whether system i is better than system j, (n, n), at 95% for all pairs together."""
    n = len(strengths.fitted)
    first, second = np.triu_indices(n, 1)
    differences = strengths.resampled[:, first] - strengths.resampled[:, second]
    deviations = bootstrap.deviations(differences)
    deviations = deviations[~np.isnan(deviations).any(axis=1)]
    with np.errstate(invalid="ignore", divide="ignore"):
        standardised = np.nan_to_num(np.abs(deviations / deviations.std(axis=0)))
    critical = np.quantile(standardised.max(axis=1, initial=0.0), LEVEL)
    spreads = [bootstrap.spread(column) for column in differences.T]
    errors = np.array([student_error(spread) for spread in spreads])
    margin = critical * errors + EQUAL
    better = np.zeros((n, n), dtype=np.bool_)
    better[first, second] = differences[0] > margin
    better[second, first] = -differences[0] > margin
    return better


def student_error(spread: Spread) -> float:
    """A standard error, expanded by the ratio of Student's quantile to the normal one."""
    return float(sqrt(spread.variance) * stats.t.ppf(TAIL, spread.df) / stats.norm.ppf(TAIL))


def cluster_numbers(better: BoolArray, order: Sequence[int]) -> dict[int, int]:
    """The cluster of each system, counted from 1, given the systems best first."""
    number, clusters = 1, {}
    for place, system in enumerate(order):
        if place and better[np.ix_(order[:place], order[place:])].all():
            number += 1
        clusters[system] = number
    return clusters
