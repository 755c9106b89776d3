"""The variance of a statistic from its resamples, and Student's interval and test with it."""

from __future__ import annotations

from dataclasses import dataclass
from math import log, sqrt

import numpy as np
from scipy import stats
from scipy.special import expit

from hsfiq.analysis.arrays import FloatArray
from hsfiq.analysis.json_values import UNDEFINED

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
