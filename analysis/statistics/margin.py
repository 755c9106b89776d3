"""Accuracy by margin: is a metric correct more often if its two values differ more?

A metric whose large differences are no more reliable than its small ones does not measure
relevance, however good its preference rate. The same is measured by people's scores: the further
apart their two scores, the clearer the pair, and the worse an error of the metric.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from hsfiq.analysis.arrays import BoolArray, FloatArray
from hsfiq.analysis.data.answers import metric_difference
from hsfiq.analysis.json_values import UNDEFINED, JsonRecord
from hsfiq.analysis.resampling.bootstrap import Bootstrap
from hsfiq.analysis.resampling.interval import ConfidenceInterval
from hsfiq.analysis.resampling.spread import CORRELATION, RATE
from hsfiq.analysis.statistics import preference

BINS = 5


@dataclass(frozen=True)
class MarginBin(JsonRecord):
    """The pairs with a margin in [low, high], and the share whose higher set is preferred."""

    low: float
    high: float
    accuracy: float
    ci: ConfidenceInterval
    n: int


@dataclass(frozen=True)
class Trend(JsonRecord):
    """Spearman's rho of margin and correctness, by pair: above 0 if accuracy rises with the margin.

    In the interval the ranks among all pairs are held fixed.
    """

    rho: float
    ci: ConfidenceInterval
    reason: str | None = None


@dataclass(frozen=True)
class AccuracyByMargin(JsonRecord):
    """Accuracy in bins of increasing margin, over n pairs with a preference and different values.

    The trend is over all pairs, not over the bins.
    """

    bins: tuple[MarginBin, ...]
    trend: Trend
    n: int
    reason: str | None = None


@dataclass(frozen=True)
class Margins(JsonRecord):
    """Accuracy by the difference between the two sets, for the metric and for people.

    Attributes:
        by_metric: in 5 bins of equal size of |m(set 1) - m(set 2)|; equal margins share a bin, so
            some may be empty.
        by_score: at each |score 1 - score 2|.
    """

    by_metric: AccuracyByMargin
    by_score: AccuracyByMargin


def margins(preferences: pd.DataFrame, values: pd.Series[float], bootstrap: Bootstrap) -> Margins:
    """Measure a metric's accuracy by margin, over the pairs of the symmetric rate."""
    pairs, set_1, (difference,) = preference.usable_pairs(
        preferences, metric_difference(preferences, values)
    )
    terms = preference.symmetric(difference, set_1)
    rows, right = pairs[terms.counted], terms.hits[terms.counted] == 1
    metric_margin = np.abs(difference[terms.counted])
    score_margin = (rows["score_1"] - rows["score_2"]).abs().to_numpy(dtype=np.float64)
    score_bins = score_margin.astype(np.int64)
    return Margins(
        by_metric=_accuracies(rows, metric_margin, equal_bins(metric_margin), right, bootstrap),
        by_score=_accuracies(rows, score_margin, score_bins, right, bootstrap),
    )


def equal_bins(margin: FloatArray) -> NDArray[np.int64]:
    """Assign each margin to one of 5 bins by its mid-rank, so that equal margins share a bin."""
    doubled = np.rint(2 * stats.rankdata(margin)).astype(np.int64)  # mid-ranks may be halves
    return np.asarray((doubled - 1) * BINS // max(1, 2 * len(margin)), dtype=np.int64)


def _accuracies(
    rows: pd.DataFrame,
    margin: FloatArray,
    bin_numbers: NDArray[np.int64],
    right: BoolArray,
    bootstrap: Bootstrap,
) -> AccuracyByMargin:
    if len(rows) == 0:
        reason = "no pair has a preference and two different values"
        trend = Trend(UNDEFINED, bootstrap.undefined_interval(rows), reason)
        return AccuracyByMargin((), trend, 0, reason)
    inside = bin_numbers[:, None] == np.unique(bin_numbers)
    resampled = bootstrap.ratios(rows, inside & right[:, None], inside)
    bins = tuple(
        MarginBin(
            low=float(margin[chosen].min()),
            high=float(margin[chosen].max()),
            accuracy=float(right[chosen].mean()),
            ci=bootstrap.interval(accuracies, rows, chosen, RATE),
            n=int(chosen.sum()),
        )
        for chosen, accuracies in zip(inside.T, resampled.T, strict=True)
    )
    return AccuracyByMargin(bins, _trend(rows, margin, right, bootstrap), len(rows))


def _trend(rows: pd.DataFrame, margin: FloatArray, right: BoolArray, bootstrap: Bootstrap) -> Trend:
    reason = None
    if margin.min() == margin.max():
        reason = "all margins are equal"
    elif right.all() or not right.any():
        reason = f"the metric is {'correct' if right.all() else 'wrong'} on every pair"
    if reason is not None:
        return Trend(UNDEFINED, bootstrap.undefined_interval(rows), reason)
    ranks = stats.rankdata(margin) - (len(margin) + 1) / 2
    columns = np.stack([np.ones(len(ranks)), ranks, right, ranks**2, ranks * right], axis=1)
    ci = bootstrap.interval(
        _correlations(bootstrap.totals(rows, columns)), rows, bounds=CORRELATION
    )
    return Trend(float(_correlations(columns.sum(axis=0)[None])[0]), ci)


def _correlations(sums: FloatArray) -> FloatArray:
    """Correlate ranks r with c, 1 if right and 0 if not, given sums (b, 5) of 1, r, c, r^2, rc."""
    n, r, c, squares, product = sums.T
    spread = (n * squares - r**2) * (n * c - c**2)
    root = np.sqrt(np.where(spread > 0, spread, np.nan))
    return np.asarray((n * product - r * c) / root)
