"""Spearman's rho of many resamples of many rows, with one variable in bins.

The other variable has few values. A resample's weight in each cell (of bin and value) is a product
of two matrices, which costs the same for any number of rows. The order within a bin is lost. What
that changes in the rho of the rows as they are is computed exactly and added to every resample;
what remains are random errors of about 1 / (number of bins x sqrt(rows)), as small as `TOLERANCE`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, sqrt

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from hsfiq.analysis.arrays import FloatArray
from hsfiq.analysis.resampling.ranks import (
    centred_ranks,
    correlation,
    mid_ranks,
    squared_ranks,
)

TOLERANCE = 5e-6
MAX_CELLS = 64
"""With more clusters x cells per row, `CumulativeRanks` is faster."""


def bins_for(n_rows: int) -> int:
    return ceil(1 / (TOLERANCE * sqrt(n_rows)))


def is_worth_binning(n_rows: int, n_levels: int, n_clusters: int) -> bool:
    return bins_for(n_rows) * n_levels * n_clusters <= MAX_CELLS * n_rows


@dataclass(frozen=True, eq=False)
class BinnedPair:
    """How many rows of each cluster are in each cell of a bin of x and a value of y.

    Attributes:
        cells: (clusters, bins * levels), single precision, which holds every count exactly.
        shift: the rho of the rows less that of their bins.
    """

    cells: NDArray[np.float32]
    n_levels: int
    shift: float

    @classmethod
    def of(
        cls,
        run: NDArray[np.intp],
        level: NDArray[np.intp],
        codes: NDArray[np.intp],
        n_clusters: int,
        exact: float,
    ) -> BinnedPair:
        """Count rows (n,), n > 0, given the numbers of their values of x and y, and clusters.

        `exact` is their rho. Equal values of x are in the same bin.
        """
        n_bins, n_levels = bins_for(len(run)), int(level.max()) + 1
        place = ((mid_ranks(run) - 0.5) * (n_bins / len(run))).astype(np.intp)
        ones = np.ones(len(run), dtype=np.float32)
        cells = sparse.csr_array(
            (ones, (codes, place * n_levels + level)), shape=(n_clusters, n_bins * n_levels)
        ).toarray()
        pair = cls(cells, n_levels, 0.0)
        once = np.ones((1, n_clusters))
        return cls(cells, n_levels, exact - float(pair.rho(once)[0]))

    @property
    def width(self) -> int:
        """How many numbers a resample needs."""
        return int(self.cells.shape[1])

    def rho(self, counts: FloatArray) -> FloatArray:
        """Correlate the two in each resample, (b,), from how often each cluster is drawn."""
        cells = counts.astype(np.float32) @ self.cells
        table = cells.astype(np.float64).reshape(len(cells), -1, self.n_levels)
        bins, levels = table.sum(axis=2), table.sum(axis=1)
        ranks_x, ranks_y = centred_ranks(bins), centred_ranks(levels)
        product = np.einsum("bkl,bk,bl->b", table, ranks_x, ranks_y, optimize=True)
        return self.shift + correlation(product, squared_ranks(bins), squared_ranks(levels))
