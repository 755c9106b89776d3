"""Spearman's rho of many resamples at once: sorted once, then only sums.

A resample counts each row a whole number of times. Its mid-ranks follow from how much weight lies
below, so no resample is sorted or even made: rho is what the repeated rows would give.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

if TYPE_CHECKING:
    from numpy.typing import NDArray

FEW_LEVELS = 16
"""The indicators of so few values are multiplied faster in full than sparsely."""


@dataclass(frozen=True, eq=False)
class Pair:
    """Two variables of the same n rows, made ready for weights.

    Attributes:
        order: (n,) the rows by rising x. Weights come in this order.
        starts: where each run of equal x begins.
        run: (n,) the run of each sorted row.
        indicator: (n, levels) 1 where a sorted row has the value of y; sparse with many of them.
    """

    order: NDArray[np.intp]
    starts: NDArray[np.intp]
    run: NDArray[np.intp]
    indicator: NDArray[np.float64] | sparse.csr_array

    @classmethod
    def of(cls, x: NDArray[np.number], y: NDArray[np.number]) -> Pair:
        """Sort two variables.

        Args:
            x: (n,), finite.
            y: (n,), finite; a variable of few values belongs here.
        """
        order = np.argsort(x, kind="stable")
        _, starts, run = np.unique(x[order], return_index=True, return_inverse=True)
        levels, level = np.unique(y[order], return_inverse=True)
        few = len(levels) <= FEW_LEVELS
        indicator = np.eye(len(levels))[level] if few else indicators(level, len(levels))
        return cls(order, starts, run, indicator)

    def rho(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Correlate the two in each resample.

        Args:
            weights: (b, n) whole numbers from 0, rows in the order of `order`.

        Returns:
            (b,); NaN where a variable has one value only among the rows that are drawn.
        """
        runs = weights
        if len(self.starts) < len(self.run):
            runs = np.add.reduceat(weights, self.starts, axis=1)
        ranks = centred_ranks(runs)
        if len(self.starts) < len(self.run):
            ranks = ranks[:, self.run]
        ranks *= weights
        levels = weights @ self.indicator
        product = ((ranks @ self.indicator) * centred_ranks(levels)).sum(axis=1)
        with np.errstate(invalid="ignore", divide="ignore"):
            found: NDArray[np.float64] = product / np.sqrt(spread(runs) * spread(levels))
        return found


def indicators(codes: NDArray[np.intp], size: int) -> sparse.csr_array:
    """One column for each of `size` codes, 1 in the rows that bear it: (n,) -> (n, size)."""
    n = len(codes)
    return sparse.csr_array((np.ones(n), codes, np.arange(n + 1)), shape=(n, size))


def centred_ranks(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """The mid-rank of each run less the mean rank, (b, runs): half of below less above."""
    below = np.cumsum(weights, axis=1)
    total = below[:, -1:].copy()
    below -= (weights + total) / 2
    return below


def spread(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """The sum of the squared centred mid-ranks: (N^3 - sum of the runs' cubes) / 12."""
    cubes = np.einsum("bi,bi,bi->b", weights, weights, weights)
    squares: NDArray[np.float64] = (weights.sum(axis=1) ** 3 - cubes) / 12
    return squares
