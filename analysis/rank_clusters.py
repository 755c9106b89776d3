"""Spearman's rho of many resamples of few clusters: a quadratic form in how often each is drawn.

Twice the centred mid-rank of a row is the weight below it less the weight above it. So the sum of
the ranks of x over the rows with one value of y is a sum over pairs of clusters, each pair's part
counted once beforehand, and a resample costs as much for a million rows as for a thousand.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from analysis.rank import Pair, centred_ranks, indicators, spread

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from analysis.resampling import Draws

AT_ONCE = 2_000_000  # numbers held in memory together
FEW_CELLS = 0.25
"""So few different pairs of values per row are worth counting instead of the rows."""
WORTH = 16
"""A quadratic form may have so many terms per row before going over the rows is faster."""


def resampled_spearman(
    draws: Draws, rows: pd.DataFrame, x: NDArray[np.float64], y: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Spearman's rho of each resample, by whichever way is fastest; all give the same.

    Args:
        draws: the resamples.
        rows: (n, ...) with `participant_id` and `query_id`.
        x: (n,), finite.
        y: (n,), finite.

    Returns:
        (n_resamples,); NaN where a resample has one value only of a variable.
    """
    values, run = np.unique(x, return_inverse=True)
    steps, level = np.unique(y, return_inverse=True)
    if len(values) < len(steps):
        values, run, steps, level = steps, level, values, run
    cells, cell = np.unique(run * len(steps) + level, return_inverse=True)
    if len(cells) <= FEW_CELLS * len(rows):
        pair = Pair.of(cells // max(1, len(steps)), cells % max(1, len(steps)))
        by_x = np.argsort(pair.order)[cell]
        sums = draws.sums(rows, indicators(by_x, len(cells)))
        return np.concatenate([pair.rho(weights) for weights in sums])
    if len(draws.clusters) == 1:
        (clusters,) = draws.clusters
        if clusters.size**2 * len(steps) <= WORTH * len(rows):
            form = ClusterPair.of(run, level, clusters.of(rows), clusters.size)
            return np.concatenate([form.rho(counts) for counts in draws.counts(form.width)])
    pair = Pair.of(run, level)
    by_run = rows.iloc[pair.order]
    return np.concatenate([pair.rho(weights) for weights in draws.weights(by_run)])


@dataclass(frozen=True, eq=False)
class ClusterPair:
    """Two variables of the same rows, counted by cluster.

    Attributes:
        above: (levels, clusters, clusters): over the rows of one value of y in the first cluster
            and all rows of the second, how often x is above less how often it is below.
        levels: (clusters, levels) how many rows have each value of y.
        shared: (runs, clusters), sparse: how many rows have each value of x that several clusters
            have.
        cubes: (clusters,) the sum, over its other values of x, of the cube of how many have each.
    """

    above: NDArray[np.float64]
    levels: NDArray[np.float64]
    shared: sparse.csr_array
    cubes: NDArray[np.float64]

    @classmethod
    def of(
        cls,
        x: NDArray[np.number],
        y: NDArray[np.number],
        codes: NDArray[np.intp],
        n_clusters: int,
    ) -> ClusterPair:
        """Count two variables.

        Args:
            x: (n,), finite.
            y: (n,), finite, of few values.
            codes: (n,) the cluster of each row.
            n_clusters: how many clusters there are, those without rows too.
        """
        values, run = np.unique(x, return_inverse=True)
        steps, level = np.unique(y, return_inverse=True)
        one = np.ones(len(x))
        runs = sparse.coo_array((one, (run, codes)), shape=(len(values), n_clusters)).tocsr()
        levels = sparse.coo_array((one, (codes, level)), shape=(n_clusters, len(steps))).toarray()
        several = np.diff(runs.indptr) > 1
        alone = runs[~several]
        cubes = np.zeros(n_clusters)
        np.add.at(cubes, alone.indices, alone.data**3)
        return cls(
            above=_above(runs, run, codes * len(steps) + level, len(steps)),
            levels=levels,
            shared=runs[several],
            cubes=cubes,
        )

    @property
    def width(self) -> int:
        """How many numbers a resample needs."""
        return int(max(self.shared.shape))

    def rho(self, counts: NDArray[np.float64]) -> NDArray[np.float64]:
        """Correlate the two in each resample.

        Args:
            counts: (b, clusters) how often each is drawn.

        Returns:
            (b,); NaN where a variable has one value only among the rows that are drawn.
        """
        levels = counts @ self.levels
        ranks = np.stack([((counts @ each) * counts).sum(axis=1) for each in self.above], axis=1)
        product = (ranks / 2 * centred_ranks(levels)).sum(axis=1)
        shared = self.shared @ counts.T
        cubes = counts**3 @ self.cubes + np.einsum("ib,ib,ib->b", shared, shared, shared)
        spread_x = (levels.sum(axis=1) ** 3 - cubes) / 12
        with np.errstate(invalid="ignore", divide="ignore"):
            found: NDArray[np.float64] = product / np.sqrt(spread_x * spread(levels))
        return found


def _above(
    runs: sparse.csr_array, run: NDArray[np.intp], group: NDArray[np.intp], n_levels: int
) -> NDArray[np.float64]:
    """See `ClusterPair.above`.

    Args:
        runs: (runs, clusters) how many rows of each cluster have each value of x, rising.
        run: (n,) the run of each row.
        group: (n,) the cluster of each row x levels + its level.
        n_levels: how many levels there are.
    """
    n_runs, n_clusters = runs.shape
    sizes = runs.sum(axis=0)
    below = np.zeros(n_clusters)
    total = np.zeros((n_clusters * n_levels, n_clusters))
    order = np.argsort(run, kind="stable")
    step = max(1, AT_ONCE // n_clusters)
    for start in range(0, n_runs, step):
        some = runs[start : start + step].toarray()
        rows = order[slice(*np.searchsorted(run, [start, start + step], sorter=order))]
        less = np.cumsum(some, axis=0) + below
        # Below less above: above is what is neither below nor in the run itself.
        np.add.at(total, group[rows], (2 * less - some - sizes)[run[rows] - start])
        below = less[-1].copy()
    return total.reshape(n_clusters, n_levels, n_clusters).transpose(1, 0, 2).copy()
