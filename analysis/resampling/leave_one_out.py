"""Spearman's rho without each cluster in turn, from one pass over the rows.

Leaving a cluster out removes its rows from every other row's rank. What they contributed is counted
by cluster and value of y, so no rho is computed from the rows again.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hsfiq.analysis.arrays import FloatArray
from hsfiq.analysis.resampling.ranks import (
    centred_ranks,
    correlation,
    squared_ranks,
    value_numbers,
)


def leave_one_out_spearman(
    x: FloatArray, y: FloatArray, codes: NDArray[np.intp], n_clusters: int
) -> FloatArray:
    """Spearman's rho without the rows of each cluster, (n_clusters,).

    The variables are (n,) and finite, y with few distinct values; `codes` (n,) are the clusters.
    NaN where a variable has only one value.
    """
    if len(x) == 0:
        return np.full(n_clusters, np.nan)
    run, level = value_numbers(x), value_numbers(y)
    n_levels, n_runs = int(level.max()) + 1, int(run.max()) + 1
    cell = codes * n_levels + level
    shape = (n_clusters, n_levels)

    def by_cell(values: FloatArray) -> FloatArray:
        sums = np.bincount(cell, values, n_clusters * n_levels)
        return np.asarray(sums.reshape(shape), dtype=np.float64)

    # How many rows of each value of y have a lower x than each row, less those with a higher x.
    above = np.zeros((len(x), n_levels))
    for number in range(n_levels):
        counts = np.bincount(run[level == number], minlength=n_runs).astype(np.float64)
        above[:, number] = (2 * np.cumsum(counts) - counts - counts.sum())[run]
    of_row = above.sum(axis=1)
    totals = np.bincount(level, of_row, n_levels)
    from_others = np.stack(
        [np.bincount(codes, above[:, number], n_clusters) for number in range(n_levels)], axis=1
    )
    ranks = pd.Series(x).groupby(codes).rank().to_numpy(dtype=np.float64)
    sizes = np.bincount(codes, minlength=n_clusters)
    within = by_cell(np.asarray(2 * ranks - sizes[codes] - 1, dtype=np.float64))
    sums = totals - by_cell(of_row) + from_others + within
    levels = np.bincount(level, minlength=n_levels) - by_cell(np.ones(len(x)))
    product = (sums * centred_ranks(levels)).sum(axis=1) / 2
    return correlation(product, _squared_ranks_of_x(run, codes, sizes), squared_ranks(levels))


def _squared_ranks_of_x(
    run: NDArray[np.intp], codes: NDArray[np.intp], sizes: NDArray[np.intp]
) -> FloatArray:
    """The sum of the squared centred mid-ranks of x without each cluster, (n_clusters,)."""
    whole = np.bincount(run).astype(np.float64)
    keys, own = np.unique(run * len(sizes) + codes, return_counts=True)
    runs, clusters = np.divmod(keys, len(sizes))
    lost = np.bincount(clusters, whole[runs] ** 3 - (whole[runs] - own) ** 3, len(sizes))
    n = len(run) - sizes.astype(np.float64)
    return np.asarray((n**3 - ((whole**3).sum() - lost)) / 12)
