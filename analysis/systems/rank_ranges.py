"""Rank ranges and significance clusters of systems, from the resampled strengths.

System i is better than j if the interval of s_i - s_j lies above 0. The intervals of all pairs hold
together: they are as wide as the 95% quantile, over the resamples, of the largest standardised
deviation of any pair (Mogstad, Romano, Shaikh and Wilhelm 2024, "Inference for Ranks"). A system's
rank is then from 1 + the number of systems that are better to n - the number that are worse, for
all systems at once. A cluster ends where every system above is better than every one below, as in
the tables of the Conference on Machine Translation (WMT).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

import numpy as np
from scipy import stats

from hsfiq.analysis.arrays import BoolArray, FloatArray
from hsfiq.analysis.json_values import JsonRecord, json_value, with_reason
from hsfiq.analysis.resampling.bootstrap import Bootstrap
from hsfiq.analysis.resampling.interval import LEVEL, MOST_UNDEFINED, TAIL, expanded_tail
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
    if bootstrap.n_clusters < 2:
        return RankRanges(reason="rank ranges need 2 clusters, and there is 1")
    resampled = strengths.resampled[~np.isnan(strengths.resampled).any(axis=1)]
    n_undefined = len(strengths.resampled) - len(resampled)
    if n_undefined > MOST_UNDEFINED * len(strengths.resampled):
        n = len(strengths.resampled)
        return RankRanges(reason=f"strengths are undefined in {n_undefined:,} of {n:,} resamples")
    widen = 1.0
    if bootstrap.correction == "t":
        widen = float(stats.norm.ppf(expanded_tail(bootstrap.n_clusters)) / stats.norm.ppf(TAIL))
    better = better_pairs(strengths.fitted, resampled, widen)
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


def better_pairs(fitted: FloatArray, resampled: FloatArray, widen: float = 1.0) -> BoolArray:
    """Whether system i is better than system j, (n, n), at 95% for all pairs together.

    The strengths are (n,) and, without NaN, (b, n); `widen` lengthens the intervals.
    """
    first, second = np.triu_indices(len(fitted), 1)
    difference = fitted[first] - fitted[second]
    deviations = resampled[:, first] - resampled[:, second] - difference
    error = deviations.std(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        largest = np.nan_to_num(np.abs(deviations / error)).max(axis=1, initial=0.0)
    margin = widen * np.quantile(largest, LEVEL) * error + EQUAL
    better = np.zeros((len(fitted), len(fitted)), dtype=np.bool_)
    better[first, second] = difference > margin
    better[second, first] = -difference > margin
    return better


def cluster_numbers(better: BoolArray, order: Sequence[int]) -> dict[int, int]:
    """The cluster of each system, counted from 1, given the systems best first."""
    number, clusters = 1, {}
    for place, system in enumerate(order):
        if place and better[np.ix_(order[:place], order[place:])].all():
            number += 1
        clusters[system] = number
    return clusters
