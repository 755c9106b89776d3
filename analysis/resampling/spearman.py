"""Spearman's rho of many resamples at once.

A resample counts each row a whole number of times, so its mid-ranks follow from the weight below
and above each value: no resample is written out or sorted, and rho is what the repeated rows would
give. `SortedPair` needs one number per row and resample. `ClusteredPair` needs one per cluster, if
a table of groups of rows and clusters fits into memory: a resample then costs the same for a
million rows as for a thousand. If not, it takes `CumulativeRanks`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

from hsfiq.analysis.arrays import FloatArray
from hsfiq.analysis.resampling.binned import BinnedPair, is_worth_binning
from hsfiq.analysis.resampling.bootstrap import Bootstrap, Resamples, indicator_matrix
from hsfiq.analysis.resampling.cumulative import LANES, CumulativeRanks
from hsfiq.analysis.resampling.ranks import (
    centred_ranks,
    correlation,
    rank_correlation,
    squared_ranks,
    value_numbers,
)

FEW_CELLS = 0.25
"""Up to this many distinct pairs of values per row, the pairs are counted instead of the rows."""
LARGEST_SINGLE = 2**24
"""Single precision holds all whole numbers up to this."""
MAX_TERMS = 32
"""Above this many terms of `ClusteredPair.above` per row, `CumulativeRanks` is faster."""


def resampled_spearman(
    bootstrap: Bootstrap, rows: pd.DataFrame, x: FloatArray, y: FloatArray
) -> FloatArray:
    """Spearman's rho of the rows and of each resample, (length,), computed the fastest way.

    All ways give the same result, except for the error of `BinnedPair`: NaN if a variable has only
    one value. The variables are (n,) and finite. The bootstrap remembers the result, which several
    figures need.
    """
    digest = hashlib.sha256()
    for each in (x, y, *(part.codes(rows) for part in bootstrap.parts)):
        digest.update(np.ascontiguousarray(each).tobytes())
    key = digest.digest()
    if key not in bootstrap.memo:
        bootstrap.memo[key] = _resampled_spearman(bootstrap, rows, x, y)
    return bootstrap.memo[key]


def _resampled_spearman(
    bootstrap: Bootstrap, rows: pd.DataFrame, x: FloatArray, y: FloatArray
) -> FloatArray:
    if len(rows) == 0:
        return np.full(bootstrap.length, np.nan)
    run, level = value_numbers(x), value_numbers(y)
    if run.max() < level.max():
        run, level = level, run
    n_levels = int(level.max()) + 1
    cell = value_numbers(run * n_levels + level)
    n_cells = int(cell.max()) + 1
    if n_cells <= FEW_CELLS * len(rows):
        _, first = np.unique(cell, return_index=True)
        pair = SortedPair.of(run[first], level[first])
        by_x = np.argsort(pair.order)[cell]
        weights_of_cells = bootstrap.sums(rows, indicator_matrix(by_x, n_cells))
        return np.concatenate([pair.rho(weights) for weights in weights_of_cells])
    observed = rank_correlation(run, level)
    resampled = [
        rhos for part in bootstrap.parts for rhos in _of_part(part, rows, run, level, observed)
    ]
    return np.concatenate([np.array([observed]), *resampled])


def _of_part(
    part: Resamples,
    rows: pd.DataFrame,
    run: NDArray[np.intp],
    level: NDArray[np.intp],
    observed: float,
) -> Iterator[FloatArray]:
    """Yield the rhos of a part's resamples, in blocks."""
    if part.clusters is None:
        pair = SortedPair.of(run, level)
        yield from (pair.rho(weights) for weights in part.weights(rows.iloc[pair.order]))
        return
    codes, size, n_levels = part.codes(rows), part.size(rows), int(level.max()) + 1
    n_groups = len(np.unique(codes * n_levels + level))
    if n_groups * size <= MAX_TERMS * len(rows):
        exact = ClusteredPair.of(run, level, codes, size)
        yield from (exact.rho(counts) for counts in part.counts(size, exact.width))
    elif is_worth_binning(len(rows), n_levels, size):
        binned = BinnedPair.of(run, level, codes, size, observed)
        yield from (binned.rho(counts) for counts in part.counts(size, binned.width))
    else:
        summed = ClusteredPair.of(run, level, codes, size, is_dense=False)
        yield from (summed.rho(counts) for counts in _parts(part.counts(size), LANES))


@dataclass(frozen=True, eq=False)
class SortedPair:
    """Two variables of the same n rows, sorted once.

    Attributes:
        order: (n,) the rows by increasing x; weights come in this order.
        starts: where each run of equal x begins.
        level: (n,) the number of each sorted row's value of y, in increasing order.
    """

    order: NDArray[np.intp]
    starts: NDArray[np.intp]
    level: NDArray[np.intp]
    n_levels: int

    @classmethod
    def of(cls, x: NDArray[np.number], y: NDArray[np.number]) -> SortedPair:
        """Sort two finite variables (n,); y is the one with fewer distinct values."""
        order = np.argsort(x, kind="stable")
        _, starts = np.unique(x[order], return_index=True)
        level = value_numbers(y[order])
        return cls(order, starts, level, int(level.max(initial=-1)) + 1)

    def rho(self, weights: FloatArray) -> FloatArray:
        """Correlate the two in each resample, (b,); NaN if a variable has only one value there.

        Weights are (b, n) whole numbers from 0, for the rows in the order of `order`.
        """
        counted = [np.bincount(self.level, row, self.n_levels) for row in weights]
        levels = np.stack(counted, dtype=np.float64)  # bincount of no rows returns integers
        runs, ranks_y = weights, centred_ranks(levels).take(self.level, axis=1)
        ranks_y *= weights
        if len(self.starts) < len(self.level):
            runs, ranks_y = (
                np.add.reduceat(each, self.starts, axis=1) for each in (weights, ranks_y)
            )
        # The ranks of y are centred, so those of x need not be.
        below = np.einsum("bi,bi->b", np.cumsum(runs, axis=1), ranks_y)
        product = below - np.einsum("bi,bi->b", runs, ranks_y) / 2
        return correlation(product, squared_ranks(runs), squared_ranks(levels))


@dataclass(frozen=True, eq=False)
class ClusteredPair:
    """Two variables of the same rows, summed by cluster.

    Twice the centred mid-rank of a row is the weight below it less the weight above it. So the sum
    of the ranks of x over a group (the rows of one cluster with one value of y) is a sum over
    clusters, whose terms are counted once in advance: rho is a quadratic form in the counts.

    Attributes:
        above: (groups, clusters): over the rows of the group and all rows of the cluster, how often
            x is above less how often it is below; or what computes the product of the ranks.
        cluster: (groups,) the cluster of each group.
        level: (groups,) its value of y, by number.
        levels: (clusters, levels), sparse: how many rows have each value of y.
        shared: (runs, clusters), sparse: how many rows have each value of x that several clusters
            have.
        cubes: (clusters,) the sum, over its other values of x, of the cube of how many have each.
    """

    above: NDArray[np.floating[Any]] | CumulativeRanks
    cluster: NDArray[np.intp]
    level: NDArray[np.intp]
    levels: sparse.csr_array
    shared: sparse.csr_array
    cubes: FloatArray

    @classmethod
    def of(
        cls,
        x: NDArray[np.number],
        y: NDArray[np.number],
        codes: NDArray[np.intp],
        n_clusters: int,
        *,
        is_dense: bool = True,
    ) -> ClusteredPair:
        """Sum two finite variables (n,) by cluster; y has few distinct values in each cluster.

        `codes` (n,) are the clusters of the rows; `n_clusters` includes those without rows.
        `is_dense`: with the table of groups and clusters.
        """
        run, level = value_numbers(x), value_numbers(y)
        n_runs, n_levels = (int(each.max(initial=0)) + 1 for each in (run, level))
        groups, group = np.unique(codes * n_levels + level, return_inverse=True)
        ones = np.ones(len(x))
        runs = sparse.coo_array((ones, (run, codes)), shape=(n_runs, n_clusters)).tocsr()
        levels = sparse.coo_array((ones, (codes, level)), shape=(n_clusters, n_levels)).tocsr()
        in_several = np.diff(runs.indptr) > 1
        in_one = runs[~in_several]
        cubes = np.zeros(n_clusters)
        np.add.at(cubes, in_one.indices, in_one.data**3)
        return cls(
            above=_above(run, codes, n_clusters, group, len(groups))
            if is_dense
            else CumulativeRanks.of(run, level, codes, n_clusters),
            cluster=groups // n_levels,
            level=groups % n_levels,
            levels=levels,
            shared=runs[in_several],
            cubes=cubes,
        )

    @property
    def width(self) -> int:
        """How many numbers a resample needs."""
        return int(max(len(self.cluster), *self.levels.shape, *self.shared.shape))

    def rho(self, counts: FloatArray) -> FloatArray:
        """Correlate the two in each resample, (b,); NaN if a variable has only one value there.

        Counts are (b, clusters): how often each is drawn.
        """
        levels = counts @ self.levels
        ranks_y = centred_ranks(levels)
        if isinstance(self.above, CumulativeRanks):
            product = self.above.product(counts, ranks_y) / 2
        else:
            of_groups = ranks_y.take(self.level, axis=1) * counts.take(self.cluster, axis=1)
            of_groups *= counts.astype(self.above.dtype, copy=False) @ self.above.T
            product = of_groups.sum(axis=1) / 2
        shared = self.shared @ counts.T
        cubes = counts**3 @ self.cubes + np.einsum("ib,ib,ib->b", shared, shared, shared)
        squares_x = (levels.sum(axis=1) ** 3 - cubes) / 12
        return correlation(product, squares_x, squared_ranks(levels))


def _parts(blocks: Iterable[FloatArray], length: int) -> Iterator[FloatArray]:
    """Cut blocks of resamples into parts of at most this many."""
    for block in blocks:
        yield from np.array_split(block, -(-len(block) // length))


def _above(
    run: NDArray[np.intp],
    codes: NDArray[np.intp],
    n_clusters: int,
    group: NDArray[np.intp],
    n_groups: int,
) -> NDArray[np.floating[Any]]:
    """Compute `ClusteredPair.above` from each row's value of x by number, cluster and group.

    In single precision, which is faster, if that holds every product with counts exactly.
    """
    largest = n_clusters * int(np.bincount(codes).max() * np.bincount(group).max())
    kind = np.float32 if largest < LARGEST_SINGLE else np.float64
    order = np.argsort(run, kind="stable")
    clusters, groups = codes[order].tolist(), group[order].tolist()
    ends = np.flatnonzero(np.diff(run[order], append=-1)) + 1
    total = np.zeros((n_groups, n_clusters), dtype=kind)
    sums = list(total)  # picking an item of a list is faster than picking a row of an array
    # Of each cluster, its rows below the run less those above it. A run changes few clusters, so
    # only one addition per row goes over all of them.
    balance = (-np.bincount(codes, minlength=n_clusters)).astype(kind)
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
