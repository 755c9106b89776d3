"""Ranks of metrics, rank ranges of systems, and win rates of all pairs of systems."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from math import isnan, sqrt

import numpy as np
import pandas as pd
from scipy import stats

from hsfiq.analysis.json_results import BoolArray, JsonRecord, json_value, with_reason
from hsfiq.analysis.resampling.bootstrap import Bootstrap, Estimate, errors_of_mean
from hsfiq.analysis.resampling.intervals import LEVEL, MOST_UNDEFINED, RATE, TAIL, Spread
from hsfiq.analysis.resampling.permutation import Difference
from hsfiq.analysis.statistics.comparison import Comparison
from hsfiq.analysis.systems.strengths import EQUAL, Strengths

# Ranks of metrics from their paired comparisons, as in the tables of the WMT metrics task.
#
# Metrics are put in order of their value. Going down, a new rank begins at the first metric that is
# significantly worse than any metric of the current rank. Nothing is computed anew: the p are those
# of `compare_all`, adjusted for all comparisons.

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


# Rank ranges and significance clusters of systems, from the resampled strengths.
#
# System i is better than j if the interval of s_i - s_j lies above 0. The intervals of all pairs
# hold together: they are as wide as the 95% quantile, over the resamples, of the largest
# standardized deviation of any pair (Mogstad, Romano, Shaikh and Wilhelm 2024, "Inference for
# Ranks"), expanded for few clusters by the ratio of Student's quantile to the normal one. A
# system's rank is then from 1 + the number of systems that are better to n - the number that are
# worse, for all systems at once. A cluster ends where every system above is better than every one
# below, as in the tables of the Conference on Machine Translation (WMT).


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
        return RankRanges(reason="rank ranges need 2 clusters; there is 1")
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
        standardized = np.nan_to_num(np.abs(deviations / deviations.std(axis=0)))
    critical = np.quantile(standardized.max(axis=1, initial=0.0), LEVEL)
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


@dataclass(frozen=True)
class Duel(JsonRecord):
    """The questions that compare two systems directly.

    Attributes:
        wins, losses: of `system`; ties count as neither.
        rate: the share in which `system` was preferred, ties counted half; NaN, with a reason, if
            no question compares the two.
    """

    system: str
    other: str
    wins: int
    ties: int
    losses: int
    rate: Estimate


def win_matrix(rows: pd.DataFrame, names: Sequence[str], bootstrap: Bootstrap) -> list[Duel]:
    """All ordered pairs of systems, from questions with `first`, `second` and `preferred`."""
    first, second = rows["first"].to_numpy(np.intp), rows["second"].to_numpy(np.intp)
    preferred = rows["preferred"].to_numpy()
    share = np.choose(preferred, (0.5, 1.0, 0.0))
    duels = []
    for i, system in enumerate(names):
        for j, other in enumerate(names):
            if i == j:
                continue
            is_first, is_second = (first == i) & (second == j), (first == j) & (second == i)
            between = is_first | is_second
            ties = int((between & (preferred == 0)).sum())
            wins = int(((is_first & (preferred == 1)) | (is_second & (preferred == 2))).sum())
            n = int(between.sum())
            won = np.where(is_first, share, 1 - share)[between]
            rate = Estimate(float("nan"), 0, None, "no question compares the two systems")
            if n:
                errors = errors_of_mean(won, np.ones(n))
                ci = bootstrap.mean_interval(float(won.mean()), rows[between], errors, bounds=RATE)
                rate = Estimate((wins + ties / 2) / n, n, ci)
            duels.append(Duel(system, other, wins, ties, n - wins - ties, rate))
    return duels
