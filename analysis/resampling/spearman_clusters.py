"""Spearman's rho of many resamples of few clusters: a quadratic form in how often each is drawn.

Twice the centred mid-rank of a row is the weight below it less the weight above it. So the sum of
the ranks of x over a group, the rows of one cluster with one value of y, is a sum over clusters,
each one's part counted once beforehand, and a resample costs as much for a million rows as for a
thousand.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from hsfiq.analysis.resampling.spearman import Pair, centred_ranks, indicators, spread

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from hsfiq.analysis.resampling.draws import Draws

FEW_CELLS = 0.25
"""So few different pairs of values per row are worth counting instead of the rows."""
WORTH = 32
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
        codes = clusters.of(rows)
        n_groups = len(np.unique(codes * len(steps) + level))
        if n_groups * clusters.size <= WORTH * len(rows):
            form = ClusterPair.of(run, level, codes, clusters.size)
            return np.concatenate([form.rho(counts) for counts in draws.counts(form.width)])
    pair = Pair.of(run, level)
    by_run = rows.iloc[pair.order]
    return np.concatenate([pair.rho(weights) for weights in draws.weights(by_run)])


@dataclass(frozen=True, eq=False)
class ClusterPair:
    """Two variables of the same rows, counted by cluster.

    Attributes:
        above: (groups, clusters): over the rows of the group and all rows of the cluster, how often
            x is above less how often it is below.
        cluster: (groups,) the cluster of each group.
        level: (groups,) its value of y, by number.
        levels: (clusters, levels), sparse: how many rows have each value of y.
        shared: (runs, clusters), sparse: how many rows have each value of x that several clusters
            have.
        cubes: (clusters,) the sum, over its other values of x, of the cube of how many have each.
    """

    above: NDArray[np.float64]
    cluster: NDArray[np.intp]
    level: NDArray[np.intp]
    levels: sparse.csr_array
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
            y: (n,), finite, of few values in each cluster.
            codes: (n,) the cluster of each row.
            n_clusters: how many clusters there are, those without rows too.
        """
        values, run = np.unique(x, return_inverse=True)
        steps, level = np.unique(y, return_inverse=True)
        n_levels = max(1, len(steps))
        groups, group = np.unique(codes * n_levels + level, return_inverse=True)
        one = np.ones(len(x))
        runs = sparse.coo_array((one, (run, codes)), shape=(len(values), n_clusters)).tocsr()
        levels = sparse.coo_array((one, (codes, level)), shape=(n_clusters, n_levels)).tocsr()
        several = np.diff(runs.indptr) > 1
        alone = runs[~several]
        cubes = np.zeros(n_clusters)
        np.add.at(cubes, alone.indices, alone.data**3)
        return cls(
            above=_above(run, codes, n_clusters, group, len(groups)),
            cluster=groups // n_levels,
            level=groups % n_levels,
            levels=levels,
            shared=runs[several],
            cubes=cubes,
        )

    @property
    def width(self) -> int:
        """How many numbers a resample needs."""
        return int(max(len(self.above), *self.levels.shape, *self.shared.shape))

    def rho(self, counts: NDArray[np.float64]) -> NDArray[np.float64]:
        """Correlate the two in each resample.

        Args:
            counts: (b, clusters) how often each is drawn.

        Returns:
            (b,); NaN where a variable has one value only among the rows that are drawn.
        """
        levels = counts @ self.levels
        ranks_y = centred_ranks(levels).take(self.level, axis=1)
        ranks_y *= counts.take(self.cluster, axis=1)
        product = np.einsum("bg,bg->b", counts @ self.above.T, ranks_y) / 2
        shared = self.shared @ counts.T
        cubes = counts**3 @ self.cubes + np.einsum("ib,ib,ib->b", shared, shared, shared)
        spread_x = (levels.sum(axis=1) ** 3 - cubes) / 12
        with np.errstate(invalid="ignore", divide="ignore"):
            found: NDArray[np.float64] = product / np.sqrt(spread_x * spread(levels))
        return found


def _above(
    run: NDArray[np.intp],
    codes: NDArray[np.intp],
    n_clusters: int,
    group: NDArray[np.intp],
    n_groups: int,
) -> NDArray[np.float64]:
    """See `ClusterPair.above`.

    Args:
        run: (n,) the number of each row's value of x, among the rising ones.
        codes: (n,) the cluster of each row.
        n_clusters: how many clusters there are.
        group: (n,) the group of each row.
        n_groups: how many groups there are.
    """
    order = np.argsort(run, kind="stable")
    clusters, groups = codes[order].tolist(), group[order].tolist()
    ends = np.flatnonzero(np.diff(run[order], append=-1)) + 1
    total = np.zeros((n_groups, n_clusters))
    sums = list(total)  # to pick one of these costs less than to pick a row of an array
    # Of each cluster, its rows below the run less those above it: a run changes few of them, so
    # that one addition per row is all that goes over the clusters.
    balance = -np.bincount(codes, minlength=n_clusters).astype(np.float64)
    start = 0
    for end in ends.tolist():
        own = clusters[start:end]
        for cluster in own:
            balance[cluster] += 1
        for place in groups[start:end]:
            np.add(sums[place], balance, sums[place])
        for cluster in own:
            balance[cluster] += 1
        start = end
    return total
