"""A confidence sequence for a mean of values in [0, 1]: valid at every look, and at any stop.

To test a mean m, bet on each new value x: a share b of the capital pays x / m, the rest pays
(1 - x) / (1 - m). If m is the mean that each value has given all earlier ones, the capital is a
martingale that starts at 1, so with a probability of at most alpha it ever reaches 1 / alpha
(Ville's inequality). The sequence after n values holds every m against which it has not been
reached so far (Waudby-Smith and Ramdas 2024, "Estimating means of bounded random variables by
betting"). The capital is spread in equal parts over fixed shares b, the nodes of Chebyshev, which
is a universal portfolio (Cover 1991; Orabona and Jun 2024): it needs no guess of the variance, and
since each b is fixed, no quadrature error touches its validity.

The capital is log-convex in m, so the sequence consists of intervals. They are found on a grid and
rounded outwards.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log

import numpy as np

from hsfiq.analysis.arrays import FloatArray
from hsfiq.analysis.errors import AnalysisError
from hsfiq.analysis.resampling.spread import LEVEL

GRID = 400
"""The ends of intervals are multiples of 1 / GRID."""
NODES = 40


@dataclass(frozen=True, eq=False)
class ConfidenceSequence:
    """The intervals after 0, 1, ..., n values.

    Attributes:
        low, high: (n + 1,); an interval is within all earlier ones. Both are NaN from where no
            mean is left, which says that the mean has not stayed the same.
    """

    level: float
    low: FloatArray
    high: FloatArray


def log_capital(values: FloatArray, means: FloatArray) -> FloatArray:
    """The log of the capital after each of (n,) values, from bets against (m,) means: (m, n).

    Values are in [0, 1], means within (0, 1).
    """
    nodes = np.arange(1, NODES + 1)
    shares = (1 + np.cos((2 * nodes - 1) * np.pi / (2 * NODES))) / 2  # (b,), within (0, 1)
    up, down = values / means[:, None], (1 - values) / (1 - means[:, None])  # (m, n)
    gains = np.zeros((NODES, *up.shape))
    for gain, share in zip(gains, shares, strict=True):
        np.cumsum(np.log(share * up + (1 - share) * down), axis=1, out=gain)
    highest = gains.max(axis=0)
    return np.asarray(highest + np.log(np.exp(gains - highest).mean(axis=0)))


def confidence_sequence(values: FloatArray, level: float = LEVEL) -> ConfidenceSequence:
    """The sequence for the mean of (n,) values, in the order in which they became known.

    AnalysisError: a value is not in [0, 1].
    """
    require_shares(values)
    grid = np.arange(1, GRID) / GRID
    reached = np.maximum.accumulate(log_capital(values, grid), axis=1) >= -log(1 - level)
    low, high = np.zeros(len(values) + 1), np.ones(len(values) + 1)
    for number, rejected in enumerate(reached.T, start=1):
        kept = np.flatnonzero(~rejected)
        if len(kept) == 0:
            low[number:] = high[number:] = np.nan
            break
        # The true ends are between the outermost kept means and their rejected neighbours.
        low[number], high[number] = kept[0] / GRID, (kept[-1] + 2) / GRID
    return ConfidenceSequence(level, low, high)


def looks_until_excluded(values: FloatArray, mean: float, level: float = LEVEL) -> int | None:
    """After how many of (n,) values the sequence first excludes a mean; None if never.

    Exact, not on the grid.
    """
    require_shares(values)
    reached = log_capital(values, np.array([mean]))[0] >= -log(1 - level)
    return int(reached.argmax()) + 1 if reached.any() else None


def require_shares(values: FloatArray) -> None:
    if not ((values >= 0) & (values <= 1)).all():
        raise AnalysisError("sequence", "a value is not between 0 and 1")
