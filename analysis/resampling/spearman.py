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


@dataclass(frozen=True, eq=False)
class Pair:
    """Two variables of the same n rows, made ready for weights.

    Attributes:
        order: (n,) the rows by rising x. Weights come in this order.
        starts: where each run of equal x begins.
        level: (n,) the number of each sorted row's value of y, among the rising ones.
        n_levels: how many values of y there are.
    """

    order: NDArray[np.intp]
    starts: NDArray[np.intp]
    level: NDArray[np.intp]
    n_levels: int

    @classmethod
    def of(cls, x: NDArray[np.number], y: NDArray[np.number]) -> Pair:
        """Sort two variables.

        Args:
            x: (n,), finite.
            y: (n,), finite; a variable of few values belongs here.
        """
        order = np.argsort(x, kind="stable")
        _, starts = np.unique(x[order], return_index=True)
        levels, level = np.unique(y[order], return_inverse=True)
        return cls(order, starts, level, len(levels))

    def rho(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Correlate the two in each resample.

        Args:
            weights: (b, n) whole numbers from 0, rows in the order of `order`.

        Returns:
            (b,); NaN where a variable has one value only among the rows that are drawn.
        """
        counted = [np.bincount(self.level, row, self.n_levels) for row in weights]
        levels = np.stack(counted, dtype=np.float64)  # of no rows, whole numbers are counted
        runs, ranks_y = weights, centred_ranks(levels).take(self.level, axis=1)
        ranks_y *= weights
        if len(self.starts) < len(self.level):
            runs, ranks_y = (
                np.add.reduceat(each, self.starts, axis=1) for each in (weights, ranks_y)
            )
        # The ranks of y are centred, so those of x need not be.
        below = np.einsum("bi,bi->b", np.cumsum(runs, axis=1), ranks_y)
        product = below - np.einsum("bi,bi->b", runs, ranks_y) / 2
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
