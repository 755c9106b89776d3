"""Confidence intervals: their ends and method, the same record for every statistic.

In JSON a statistic has `"ci": [low, high]` beside `"ci_method": {"level", "method", "unit",
"n_clusters", "n_resamples", "n_undefined", "seed"}`; if both ends are null, "reason" says why.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import sqrt

import numpy as np
from scipy import stats

from hsfiq.analysis.arrays import FloatArray
from hsfiq.analysis.counts import count_text
from hsfiq.analysis.json_values import UNDEFINED, JsonRecord, json_number, with_reason
from hsfiq.analysis.resampling.spread import LEVEL, TAIL, Bounds, Spread, student_ends

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
