"""Accuracy by margin: whether a metric is right more often where it sees a larger difference.

A metric whose large differences are no surer than its small ones is no measure of relevance, even
where its preference rate is good. The same is asked of people: where their two scores are further
apart, the pair is clearer, and a metric that misses it is further from them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

from hsfiq.analysis.data.answers import metric_margin
from hsfiq.analysis.figures import UNDEFINED, figure, with_reason
from hsfiq.analysis.resampling.interval import with_interval
from hsfiq.analysis.resampling.shares import resampled_shares

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from hsfiq.analysis.resampling.draws import Draws
    from hsfiq.analysis.resampling.interval import Interval

BINS = 5


@dataclass(frozen=True)
class MarginBin:
    """The pairs whose margin lies between two values, both included.

    Attributes:
        low: the smallest margin in the bin.
        high: the largest.
        accuracy: the share of its pairs in which the set with the higher value is preferred.
        ci: the interval of accuracy.
        n: how many pairs it has.
    """

    low: float
    high: float
    accuracy: float
    ci: Interval
    n: int

    def to_json(self) -> dict[str, object]:
        """Return {"low", "high", "accuracy", "n", "ci", "ci_method"}."""
        result: dict[str, object] = {
            "low": self.low,
            "high": self.high,
            "accuracy": self.accuracy,
            "n": self.n,
        }
        return with_interval(result, self.ci, None)


@dataclass(frozen=True)
class Trend:
    """Whether accuracy rises with the margin: Spearman's rho of margin and being right, by pairs.

    Attributes:
        rho: above 0 where larger margins are surer.
        ci: the interval of rho, the ranks held as they are among all pairs.
        reason: why rho is NaN, where it is.
    """

    rho: float
    ci: Interval
    reason: str | None = None

    def to_json(self) -> dict[str, object]:
        """Return {"rho", "ci", "ci_method"} and the reason, where there is one."""
        return with_interval({"rho": figure(self.rho)}, self.ci, self.reason)


@dataclass(frozen=True)
class AccuracyByMargin:
    """Accuracy in bins of rising margin.

    Attributes:
        bins: those that have pairs, by rising margin.
        trend: over all pairs, not over the bins.
        n: how many pairs there are: with a preference, both values, and these different.
        reason: why there is no bin, where there is none.
    """

    bins: tuple[MarginBin, ...]
    trend: Trend
    n: int
    reason: str | None = None

    def to_json(self) -> dict[str, object]:
        """Return {"bins", "trend", "n"} and the reason, where there is one."""
        result: dict[str, object] = {
            "bins": [each.to_json() for each in self.bins],
            "trend": self.trend.to_json(),
            "n": self.n,
        }
        return with_reason(result, self.reason)


@dataclass(frozen=True)
class Margins:
    """Accuracy by how far apart the two sets are, for the metric and for people.

    Attributes:
        by_metric: in bins of equal size of |m(set 1) - m(set 2)|; equal margins share a bin, so
            that a metric of few values has fewer than 5.
        by_score: at each |score 1 - score 2|.
    """

    by_metric: AccuracyByMargin
    by_score: AccuracyByMargin

    def to_json(self) -> dict[str, object]:
        """Return {"by_metric", "by_score"}."""
        return {"by_metric": self.by_metric.to_json(), "by_score": self.by_score.to_json()}


def margins(preferences: pd.DataFrame, values: pd.Series[float], draws: Draws) -> Margins:
    """Measure how a metric's accuracy depends on the margin.

    Args:
        preferences: (n_questions, ...) with `set_1`, `set_2`, `participant_id`, `query_id`,
            `preferred` (1, 2, 0 = tie), `score_1` and `score_2`.
        values: the metric, indexed by set_id, NaN where a set has none.
        draws: of the release.

    Returns:
        The accuracies, over the pairs with a preference and two different values: those of the
        symmetric rate.
    """
    above = metric_margin(preferences, values)
    # NaN is not above or below 0, which leaves out the pairs that lack a value.
    used = ((above > 0) | (above < 0)) & (preferences["preferred"] != 0)
    rows, signed = preferences[used], above[used].to_numpy(dtype=np.float64)
    right = (signed > 0) == (rows["preferred"] == 1).to_numpy()
    gaps = np.abs(signed)
    apart = (rows["score_1"].astype("float64") - rows["score_2"].astype("float64")).abs()
    distances = np.asarray(apart, dtype=np.float64)
    return Margins(
        by_metric=_accuracies(rows, gaps, equal_bins(gaps), right, draws),
        by_score=_accuracies(rows, distances, distances.astype(np.int64), right, draws),
    )


def equal_bins(margin: NDArray[np.float64]) -> NDArray[np.int64]:
    """Put each margin into one of 5 bins by its mid-rank, so that equal ones share a bin.

    Args:
        margin: (n,).

    Returns:
        (n,), from 0 to 4.
    """
    doubled = np.rint(2 * stats.rankdata(margin)).astype(np.int64)  # mid-ranks may be halves
    return np.asarray((doubled - 1) * BINS // max(1, 2 * len(margin)), dtype=np.int64)


def _accuracies(
    rows: pd.DataFrame,
    margin: NDArray[np.float64],
    places: NDArray[np.int64],
    right: NDArray[np.bool_],
    draws: Draws,
) -> AccuracyByMargin:
    if len(rows) == 0:
        undefined = draws.interval(np.full(draws.n_resamples, np.nan), rows)
        reason = "no pair has a preference and two different values"
        return AccuracyByMargin((), Trend(UNDEFINED, undefined, reason), 0, reason)
    inside = places[:, None] == np.unique(places)
    hits = inside & right[:, None]
    drawn = resampled_shares(draws, rows, hits, inside)
    bins = tuple(
        MarginBin(
            low=float(margin[chosen].min()),
            high=float(margin[chosen].max()),
            accuracy=float(right[chosen].mean()),
            ci=draws.interval(found, rows[chosen]),
            n=int(chosen.sum()),
        )
        for chosen, found in zip(inside.T, drawn.T, strict=True)
    )
    return AccuracyByMargin(bins, _trend(rows, margin, right, draws), len(rows))


def _trend(
    rows: pd.DataFrame, margin: NDArray[np.float64], right: NDArray[np.bool_], draws: Draws
) -> Trend:
    reason = None
    if margin.min() == margin.max():
        reason = "all margins are equal"
    elif right.all() or not right.any():
        reason = f"the metric is {'right' if right.all() else 'wrong'} of every pair"
    if reason is not None:
        undefined = draws.interval(np.full(draws.n_resamples, np.nan), rows)
        return Trend(UNDEFINED, undefined, reason)
    ranks = stats.rankdata(margin) - (len(margin) + 1) / 2
    columns = np.stack([np.ones(len(ranks)), ranks, right, ranks**2, ranks * right], axis=1)
    drawn = draws.interval(_correlations(draws.totals(rows, columns)), rows)
    return Trend(float(_correlations(columns.sum(axis=0)[None])[0]), drawn)


def _correlations(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """Correlate ranks r and rights c, given the sums (b, 5) of 1, r, c, r^2 and rc."""
    n, r, c, squares, product = sums.T
    spread = (n * squares - r**2) * (n * c - c**2)
    root = np.sqrt(np.where(spread > 0, spread, np.nan))
    found: NDArray[np.float64] = (n * product - r * c) / root
    return found
