"""Confidence intervals: their ends and method, the same record for every statistic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import log, sqrt

import numpy as np
from scipy import stats
from scipy.special import expit

from hsfiq.analysis.json_results import UNDEFINED, FloatArray, JsonRecord, json_number, with_reason
from hsfiq.text import count_text

# The variance of a statistic from its resamples, and Student's interval and test with it.

LEVEL = 0.95
TAIL = (1 - LEVEL) / 2
ROUNDING = 1e-12

Bounds = tuple[float, float]
RATE: Bounds = (0.0, 1.0)
CORRELATION: Bounds = (-1.0, 1.0)
SATISFACTION: Bounds = (1.0, 5.0)


@dataclass(frozen=True)
class Spread:
    """The variance of a statistic and its degrees of freedom; both NaN if it is undefined."""

    variance: float
    df: float


def one_way_spread(resampled_variance: float, n_clusters: int) -> Spread:
    """The spread from the variance over resamples of clusters; undefined for fewer than two.

    Over resamples, the variance of a mean has n and not n - 1 in its denominator.
    """
    if n_clusters < 2:
        return Spread(UNDEFINED, UNDEFINED)
    return Spread(resampled_variance * n_clusters / (n_clusters - 1), n_clusters - 1)


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


# Confidence intervals: their ends and method, the same record for every statistic.
#
# In JSON a statistic has `"ci": [low, high]` beside `"ci_method": {"level", "method", "unit",
# "n_clusters", "n_resamples", "n_undefined", "seed"}`; if both ends are null, "reason" says why.

NO_SPREAD = "all resamples give the same value, so the spread is unknown"
FEW_CLUSTERS = 30
FEW_CLUSTERS_NOTE = (
    "{n} clusters are few: the interval holds only if they are typical of all others"
)
MOST_UNDEFINED = 0.05
"""The share of resamples that may be undefined: with more, the tails themselves are unknown."""


@dataclass(frozen=True)
class ConfidenceInterval(JsonRecord):
    """A confidence interval by resampling.

    Attributes:
        low, high: its ends; NaN if it is undefined.
        n_clusters: the number of resampled units; the smaller number of two columns.
        n_resamples: the number of resamples of each column.
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
    statistics: FloatArray, *, unit: str, n_clusters: int, seed: int, expand: bool = False
) -> ConfidenceInterval:
    """Take the percentiles of a statistic over resamples, (n_resamples,), NaN where undefined.

    `expand` widens the interval for few clusters (see `expanded_tail`). The ends are NaN, with a
    reason, for fewer than two clusters or if too many resamples are undefined.
    """
    method = "expanded percentile bootstrap" if expand else "percentile bootstrap"
    interval = _undefined(statistics, method, unit, n_clusters, seed)
    if interval.reason is not None:
        return interval
    low, high = percentiles(statistics, expanded_tail(n_clusters) if expand else TAIL)
    return _with_ends(interval, low, high)


def student_interval(
    estimate: float,
    statistics: FloatArray,
    spread: Spread,
    *,
    method: str,
    unit: str,
    n_clusters: int,
    seed: int,
    bounds: Bounds | None = None,
) -> ConfidenceInterval:
    """Student's interval of an estimate with the spread of its resamples (see `student_ends`).

    The ends are NaN, with a reason, for fewer than two clusters or if too many resamples are
    undefined.
    """
    interval = _undefined(statistics, method, unit, n_clusters, seed)
    if interval.reason is not None:
        return interval
    low, high = student_ends(estimate, spread, bounds)
    return _with_ends(replace(interval, df=spread.df), low, high)


def _undefined(
    statistics: FloatArray, method: str, unit: str, n_clusters: int, seed: int
) -> ConfidenceInterval:
    """An interval without ends, with a reason if it cannot have any."""
    n_undefined = int(np.isnan(statistics).sum())
    reason = None
    if n_clusters < 2:
        reason = f"an interval needs 2 clusters (unit: {unit}), and there are {n_clusters}"
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
    note = None
    if low == high:
        note = NO_SPREAD
    elif interval.n_clusters < FEW_CLUSTERS:
        note = FEW_CLUSTERS_NOTE.format(n=interval.n_clusters)
    return replace(interval, low=low, high=high, note=note)


def percentiles(statistics: FloatArray, tail: float = TAIL) -> tuple[float, float]:
    """The quantiles that leave `tail` of the resamples on either side; NaN values are excluded."""
    low, high = np.nanquantile(statistics, [tail, 1 - tail])
    return float(low), float(high)


def expanded_tail(n_clusters: int) -> float:
    """The tail that gives the percentile interval the length of Student's, for 2 or more clusters.

    The expanded percentile interval of Hesterberg (2015, "What Teachers Should Know About the
    Bootstrap"): Phi(-sqrt(n / (n - 1)) t), with t the quantile of Student's t with n - 1 degrees
    of freedom.
    """
    quantile = stats.t.ppf((1 + LEVEL) / 2, n_clusters - 1)
    return float(stats.norm.cdf(-sqrt(n_clusters / (n_clusters - 1)) * quantile))
