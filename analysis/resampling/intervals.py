"""Confidence intervals: their ends and method, the same record for every statistic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import log, sqrt

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.special import expit

from hsfiq.analysis.json_results import UNDEFINED, FloatArray, JsonRecord, json_number, with_reason
from hsfiq.text import count_text

IntArray = NDArray[np.int64]

# The variance of a statistic from its resamples, and Student's interval and test with it.

LEVEL = 0.95
TAIL = (1 - LEVEL) / 2
ROUNDING = 1e-12
FEWEST_DF = 1.0
"""Degrees of freedom of a spread; with fewer, an interval would be useless."""

Bounds = tuple[float, float]
RATE: Bounds = (0.0, 1.0)
CORRELATION: Bounds = (-1.0, 1.0)
SATISFACTION: Bounds = (1.0, 5.0)


@dataclass(frozen=True)
class Spread:
    """The variance of a statistic and its degrees of freedom; both NaN if it is undefined."""

    variance: float
    df: float


def effective_number(sizes: IntArray) -> float:
    """The equivalent number of clusters of equal size: sum(n)^2 / sum(n^2) (Kish 1965)."""
    return float(sizes.sum() ** 2 / (sizes.astype(np.float64) ** 2).sum()) if len(sizes) else 0.0


def one_way_spread(resampled_variance: float, sizes: IntArray) -> Spread:
    """The spread from the variance over resamples of clusters, (n_clusters,) their sizes in rows.

    Over resamples, the variance of a mean has n and not n - 1 in its denominator.
    """
    return _of_clusters(resampled_variance * len(sizes) / max(1, len(sizes) - 1), sizes)


def mean_spread(errors: FloatArray, sizes: IntArray) -> Spread:
    """The spread of a mean from the sum of the rows' errors in each cluster, (n_clusters,) each.

    A large cluster pulls the mean towards itself, which makes its own error smaller by the share of
    the rows that it does not have. Dividing by that share is the correction CR2 (Bell and McCaffrey
    2002) of a mean.
    """
    share = sizes / max(1, sizes.sum())
    return _of_clusters(float((errors**2 / np.maximum(1 - share, ROUNDING)).sum()), sizes)


def _of_clusters(variance: float, sizes: IntArray) -> Spread:
    """The spread of a statistic with this variance; undefined for fewer than two clusters.

    The degrees of freedom are those of the effective number of clusters, since a variance that a
    few large clusters determine is as uncertain as one from so few clusters (Carter, Schnepel and
    Steigerwald 2017).
    """
    if len(sizes) < 2:
        return Spread(UNDEFINED, UNDEFINED)
    return Spread(variance, max(FEWEST_DF, effective_number(sizes) - 1))


def two_way_spread(participants: Spread, triplets: Spread, pairs: float) -> Spread:
    """The spread of a statistic whose rows depend on each other in two ways.

    The degrees of freedom are Satterthwaite's (1946), and not fewer than those of the column with
    fewer clusters.
    """
    first, second = participants.variance, triplets.variance
    variance = float(combined_variance(first, second, pairs))
    squares = first**2 / participants.df + second**2 / triplets.df
    fewest = min(participants.df, triplets.df)
    return Spread(variance, max(fewest, variance**2 / squares) if squares > 0 else fewest)


def combined_variance(
    participants: float | FloatArray, triplets: float | FloatArray, pairs: float | FloatArray
) -> FloatArray:
    """The variance of statistics whose rows depend on each other in two ways.

    V(participants) + V(triplets) - V(answers that share both) (Cameron, Gelbach and Miller 2011,
    "Robust Inference With Multiway Clustering"), and not less than either of the first two; NaN if
    one is. Chosen, with the degrees of freedom, by simulation (`python -m benchmarks coverage`).
    """
    either = np.maximum(participants, triplets)
    return np.asarray(np.maximum(np.add(participants, triplets) - pairs, either))


def student_p(difference: float, spread: Spread) -> float:
    """The two-sided p of a difference from the null hypothesis; NaN if the spread is 0 or NaN."""
    if not spread.variance > 0:
        return UNDEFINED
    return float(2 * stats.t.sf(abs(difference) / sqrt(spread.variance), spread.df))


def student_ends(
    estimate: float, spread: Spread, bounds: Bounds | None = None
) -> tuple[float, float]:
    """The ends of Student's interval.

    Between bounds it is computed on the scale log((x - low) / (high - x)): the logit of a rate,
    twice Fisher's z of a correlation. If the estimate is itself a bound, the interval ends there.
    """
    half = float(stats.t.ppf(1 - TAIL, spread.df)) * sqrt(spread.variance)
    if bounds is None:
        return estimate - half, estimate + half
    low, high = bounds
    below, above = estimate - low, high - estimate
    if min(below, above) <= ROUNDING:
        return max(low, estimate - half), min(high, estimate + half)
    centre, half = log(below / above), half * (high - low) / (below * above)
    ends = low + (high - low) * expit(np.array([centre - half, centre + half]))
    return float(ends[0]), float(ends[1])


def rate_of_clusters(won: Sequence[float], sizes: Sequence[int]) -> tuple[float, float]:
    """A rate and half the length of its interval, from each cluster's wins and comparisons.

    Unknown values are NaN: both without clusters, the half length with one cluster.
    """
    numbers, counts = np.array(won, dtype=np.float64), np.array(sizes, dtype=np.int64)
    if not counts.sum():
        return UNDEFINED, UNDEFINED
    share = float(numbers.sum() / counts.sum())
    spread = mean_spread((numbers - share * counts) / counts.sum(), counts)
    low, high = student_ends(share, spread, RATE)
    return share, (high - low) / 2


# Confidence intervals: their ends and method, the same record for every statistic.
#
# In JSON a statistic has `"ci": [low, high]` beside `"ci_method": {"level", "method", "unit",
# "n_clusters", "n_resamples", "n_undefined", "seed"}`; if both ends are null, "reason" says why.

NO_SPREAD = "no cluster changes the value, so its spread is unknown"
FEW_CLUSTERS = 30
FEW_CLUSTERS_NOTE = "only {n}: the interval is valid only if they are representative"
MOST_UNDEFINED = 0.05
"""The share of resamples that may be undefined: with more, the tails themselves are unknown."""


@dataclass(frozen=True)
class ConfidenceInterval(JsonRecord):
    """A confidence interval of a statistic of clustered rows.

    Attributes:
        low, high: its ends; NaN if it is undefined.
        n_clusters: the number of resampled units; the smaller number of two columns.
        n_effective: the effective number of these, which is smaller if their sizes differ.
        n_resamples: the number of resamples of each column; 0 if nothing is resampled.
        n_undefined: the number of excluded resamples, in which the statistic is undefined.
        df: the degrees of freedom, if the interval is Student's.
        note: a caution about ends that are defined.
    """

    low: float
    high: float
    level: float
    method: str
    unit: str
    n_clusters: int
    n_resamples: int
    n_undefined: int
    seed: int
    note: str | None = None
    reason: str | None = None
    df: float | None = None
    n_effective: float | None = None

    def to_json(self) -> dict[str, object]:
        """Return {"ci": [low, high], "ci_method": all the rest}."""
        method = dict(vars(self))
        ends = [json_number(method.pop(end)) for end in ("low", "high")]
        return {
            "ci": ends,
            "ci_method": {name: value for name, value in method.items() if value is not None},
        }


def with_interval(
    fields: Mapping[str, object], interval: ConfidenceInterval | None, reason: str | None
) -> dict[str, object]:
    """Add "ci" and "ci_method" to the JSON object of a statistic, if it has an interval.

    The key "reason" is added if a field or the interval is undefined.
    """
    if interval is None:
        return with_reason(fields, reason)
    return with_reason({**fields, **interval.to_json()}, reason or interval.reason)


def percentile_interval(
    statistics: FloatArray, *, unit: str, n_clusters: int, seed: int
) -> ConfidenceInterval:
    """Take the percentiles of a statistic over resamples, (n_resamples,), NaN where undefined.

    The ends are NaN, with a reason, for fewer than two clusters, if all resamples give the same
    value, or if too many are undefined.
    """
    interval = _undefined(statistics, "percentile bootstrap", unit, n_clusters, seed)
    if interval.reason is not None:
        return interval
    return _with_ends(interval, *percentiles(statistics))


def student_interval(
    estimate: float,
    statistics: FloatArray,
    spread: Spread,
    *,
    method: str,
    unit: str,
    n_clusters: int,
    n_effective: float,
    seed: int,
    bounds: Bounds | None = None,
) -> ConfidenceInterval:
    """Student's interval of an estimate with the spread of its resamples (see `student_ends`).

    The ends are NaN, with a reason, for fewer than two clusters, if all resamples give the same
    value, or if too many are undefined.
    """
    interval = _undefined(statistics, method, unit, n_clusters, seed)
    if interval.reason is not None:
        return interval
    low, high = student_ends(estimate, spread, bounds)
    return _with_ends(replace(interval, df=spread.df, n_effective=n_effective), low, high)


def _undefined(
    statistics: FloatArray, method: str, unit: str, n_clusters: int, seed: int
) -> ConfidenceInterval:
    """An interval without ends, with the reason if it is undefined."""
    n_undefined = int(np.isnan(statistics).sum())
    reason = None
    if n_clusters < 2:
        reason = f"an interval needs 2 clusters (unit: {unit}); there are {n_clusters}"
    elif n_undefined > MOST_UNDEFINED * len(statistics):
        reason = f"undefined in {n_undefined:,} of {count_text(len(statistics), 'resample')}"
    return ConfidenceInterval(
        low=UNDEFINED,
        high=UNDEFINED,
        level=LEVEL,
        method=method,
        unit=unit,
        n_clusters=n_clusters,
        n_resamples=len(statistics),
        seed=seed,
        n_undefined=n_undefined,
        reason=reason,
    )


def _with_ends(interval: ConfidenceInterval, low: float, high: float) -> ConfidenceInterval:
    if low == high:
        return replace(interval, reason=NO_SPREAD)
    note = None
    if (interval.n_effective or interval.n_clusters) < FEW_CLUSTERS:
        note = FEW_CLUSTERS_NOTE.format(n=clusters_text(interval.n_clusters, interval.n_effective))
    return replace(interval, low=low, high=high, note=note)


def clusters_text(n: int, n_effective: float | None) -> str:
    """The number of clusters, with the effective number if that is smaller."""
    if n_effective is None or n - n_effective < SAME_NUMBER * n:
        return count_text(n, "cluster")
    return f"{count_text(n, 'cluster')} of unequal size (effectively {n_effective:.1f})"


SAME_NUMBER = 0.05
"""An effective number of clusters that is smaller by less than this share is not reported."""


def percentiles(statistics: FloatArray) -> tuple[float, float]:
    """The quantiles that leave `TAIL` of the resamples on either side; NaN values are excluded."""
    low, high = np.nanquantile(statistics, [TAIL, 1 - TAIL])
    return float(low), float(high)
