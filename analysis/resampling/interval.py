"""Intervals: a figure's ends beside how they were found, the same for every statistic.

In JSON a statistic has `"ci": [low, high]` beside `"ci_method": {"level", "method", "unit",
"n_clusters", "n_resamples", "n_undefined", "seed"}`; where both ends are null, "reason" says why.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

from hsfiq.analysis.figures import UNDEFINED, figure, with_reason

if TYPE_CHECKING:
    from numpy.typing import NDArray

LEVEL = 0.95
FEW_CLUSTERS = 30
MOST_UNDEFINED = 0.05
"""The share of resamples that may be undefined: with more, the tails themselves are unknown."""


@dataclass(frozen=True)
class Interval:
    """A confidence interval.

    Attributes:
        low: its lower end; NaN where the interval is undefined.
        high: its upper end, likewise.
        level: the share of studies whose interval is meant to hold the truth.
        method: how the ends were found.
        unit: what was resampled.
        n_clusters: how many of these there are.
        n_resamples: how many resamples the ends come from.
        seed: of the draws.
        n_undefined: in how many resamples the statistic was undefined; they were left out.
        note: what to keep in mind where the ends are defined but not to be trusted blindly.
        reason: why the ends are NaN, where they are.
    """

    low: float
    high: float
    level: float
    method: str
    unit: str
    n_clusters: int
    n_resamples: int
    seed: int
    n_undefined: int = 0
    note: str | None = None
    reason: str | None = None

    def to_json(self) -> dict[str, object]:
        """Return {"ci": [low, high], "ci_method": all the rest}."""
        method: dict[str, object] = {
            "level": self.level,
            "method": self.method,
            "unit": self.unit,
            "n_clusters": self.n_clusters,
            "n_resamples": self.n_resamples,
            "n_undefined": self.n_undefined,
            "seed": self.seed,
        }
        if self.note is not None:
            method["note"] = self.note
        return {
            "ci": [figure(self.low), figure(self.high)],
            "ci_method": with_reason(method, self.reason),
        }


def with_interval(
    figures: dict[str, object], interval: Interval | None, reason: str | None
) -> dict[str, object]:
    """Put the interval of a statistic beside its figures.

    Args:
        figures: one JSON object.
        interval: its "ci" and "ci_method"; None where none was asked for.
        reason: why some of the figures are null; None where all are defined.

    Returns:
        The object, with the key "reason" where a figure or the interval is undefined.
    """
    if interval is None:
        return with_reason(figures, reason)
    return with_reason({**figures, **interval.to_json()}, reason or interval.reason)


def percentile_interval(
    statistics: NDArray[np.float64], *, unit: str, n_clusters: int, seed: int, expand: bool = False
) -> Interval:
    """Take the percentiles of a statistic over resamples.

    Args:
        statistics: (n_resamples,), NaN where the statistic is undefined.
        unit: what was resampled.
        n_clusters: how many of these there are.
        seed: of the draws.
        expand: widen the interval for few clusters (see `expanded_tail`).

    Returns:
        The interval; NaN, with a reason, with fewer than two clusters or where too many resamples
        are undefined.
    """
    n_undefined = int(np.isnan(statistics).sum())
    low = high = UNDEFINED
    reason = note = None
    if n_clusters < 2:
        reason = f"an interval needs 2 clusters (unit: {unit}), and there are {n_clusters}"
    elif n_undefined > MOST_UNDEFINED * len(statistics):
        reason = f"undefined in {n_undefined:,} of {len(statistics):,} resamples"
    else:
        tail = expanded_tail(n_clusters) if expand else (1 - LEVEL) / 2
        low, high = (float(end) for end in np.nanquantile(statistics, [tail, 1 - tail]))
        if low == high:
            note = "all resamples give the same value, so nothing is learnt of the spread"
        elif n_clusters < FEW_CLUSTERS and not expand:
            note = f"{n_clusters} clusters are few: such an interval tends to be too short"
    return Interval(
        low=low,
        high=high,
        level=LEVEL,
        method="expanded percentile bootstrap" if expand else "percentile bootstrap",
        unit=unit,
        n_clusters=n_clusters,
        n_resamples=len(statistics),
        seed=seed,
        n_undefined=n_undefined,
        note=note,
        reason=reason,
    )


def expanded_tail(n_clusters: int) -> float:
    """The tail that gives the percentile interval the length of Student's, for few clusters.

    The expanded percentile interval of Hesterberg (2015, "What Teachers Should Know About the
    Bootstrap"): Phi(-sqrt(n / (n - 1)) t), t being the quantile of Student's with n - 1 degrees.

    Args:
        n_clusters: 2 or more.
    """
    quantile = stats.t.ppf((1 + LEVEL) / 2, n_clusters - 1)
    return float(stats.norm.cdf(-sqrt(n_clusters / (n_clusters - 1)) * quantile))
