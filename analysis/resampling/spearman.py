"""Spearman's rho of many resamples at once.

A resample counts each row a whole number of times, so its mid-ranks follow from the weight below
and above each value: no resample is written out or sorted, and rho equals that of the repeated
rows. `SortedPair` needs one number per row and resample. `ClusteredPair` needs one per cluster, if
a table of groups of rows and clusters fits into memory: a resample then costs the same for a
million rows as for a thousand. If not, it takes `CumulativeRanks`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import ceil, sqrt
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

from hsfiq.analysis.json_results import FloatArray
from hsfiq.analysis.resampling.bootstrap import Bootstrap, Resamples, indicator_matrix
from hsfiq.analysis.resampling.ranks import (
    centred_ranks,
    correlation,
    mid_ranks,
    rank_correlation,
    squared_ranks,
    value_numbers,
)

# Spearman's rho of many resamples of many rows, with one variable in bins.
#
# The other variable has few values. A resample's weight in each cell (of bin and value) is a
# product of two matrices, which costs the same for any number of rows. The order within a bin is
# lost. What that changes in the rho of the rows as they are is computed exactly and added to every
# resample; what remains are random errors of about 1 / (number of bins x sqrt(rows)), as small as
# `TOLERANCE`.

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


# The product of two variables' ranks in many resamples, in one pass over the rows by increasing x.
#
# In a resample a row's mid-rank is half of twice the weight below it plus the weight of its run,
# the rows of equal x. The weight below is a cumulative sum over the runs. It is taken for a block
# of resamples at once, in parts of the runs that fit into the processor's cache. Everything is a
# whole number, so nothing is rounded.

LANES = 32
"""How many resamples are best computed at once: their numbers lie side by side in memory."""
SEGMENTS, STEPS = 240, 20
"""The runs of a part: a segment's runs are added up step by step, for all segments at once."""

WholeNumbers = NDArray[np.signedinteger[Any]]


@dataclass(frozen=True, eq=False)
class Part:
    """Runs in the order in which they are added up: the first of each segment, then the second.

    Attributes:
        shape: steps and segments.
        codes: (rows,) the cluster of each row, run by run.
        level: (rows,) the number of its value of y.
        run: (rows,) its run; None if each run is a single row.
        rows: (runs, clusters), sparse: how many rows of each cluster are in each run.
    """

    shape: tuple[int, int]
    codes: NDArray[np.intp]
    level: NDArray[np.intp]
    run: NDArray[np.intp] | None
    rows: sparse.csr_array

    def numbers(
        self, drawn: WholeNumbers, weights: WholeNumbers, before: WholeNumbers, out: WholeNumbers
    ) -> tuple[WholeNumbers, WholeNumbers]:
        """The weight below each row less the weight above it, and `before` for the next part.

        From how often each cluster is drawn, (clusters, b), the weights of the part's rows that
        follow from it, (rows, b), and the weight before the part less that from its first row on.
        """
        runs = weights if self.run is None else self.rows @ drawn
        by_step = runs.reshape(*self.shape, -1)  # (steps, segments, b)
        below = out[: len(runs)].reshape(by_step.shape)
        below[0] = 0
        for step in range(1, len(by_step)):
            np.add(below[step - 1], by_step[step - 1], out=below[step])
        segments = below[-1] + by_step[-1]
        through = before + 2 * np.cumsum(segments, axis=0, dtype=weights.dtype)
        below += below
        below += by_step
        below += through - 2 * segments
        numbers = below.reshape(runs.shape)
        return numbers if self.run is None else numbers.take(self.run, axis=0), through[-1]


@dataclass(frozen=True, eq=False)
class CumulativeRanks:
    """The ranks of x, from which the product with the ranks of y is computed.

    Attributes:
        sizes: (clusters,) how many rows each cluster has.
    """

    parts: tuple[Part, ...]
    sizes: NDArray[np.intp]

    @classmethod
    def of(
        cls,
        run: NDArray[np.intp],
        level: NDArray[np.intp],
        codes: NDArray[np.intp],
        n_clusters: int,
    ) -> CumulativeRanks:
        """Arrange rows (n,), n > 0, given the numbers of their values of x and y, and clusters."""
        by_run, sizes = np.argsort(run, kind="stable"), np.bincount(run)
        starts = np.cumsum(sizes) - sizes
        parts = []
        for first in range(0, len(sizes), SEGMENTS * STEPS):
            runs, shape = _by_step(first, min(first + SEGMENTS * STEPS, len(sizes)))
            own = sizes[runs]
            ends = np.cumsum(own)
            rows = by_run[np.repeat(starts[runs] - (ends - own), own) + np.arange(ends[-1])]
            in_runs = sparse.csr_array(
                (np.ones(len(rows), dtype=np.int32), codes[rows], np.append(0, ends)),
                shape=(len(runs), n_clusters),
            )
            run_of_row = None if own.max() == 1 else np.repeat(np.arange(len(runs)), own)
            parts.append(Part(shape, codes[rows], level[rows], run_of_row, in_runs))
        return cls(tuple(parts), np.bincount(codes, minlength=n_clusters))

    def product(self, counts: FloatArray, ranks_y: FloatArray) -> FloatArray:
        """Sum the product of twice the centred rank of x and that of y over the drawn rows, (b,).

        Counts, (b, clusters), say how often each cluster is drawn; `ranks_y`, (b, levels), are the
        ranks of y by level. `LANES` resamples at a time are fastest.
        """
        n_drawn = counts @ self.sizes
        largest = 2 * counts.max() * n_drawn.max()  # of the products of two whole numbers
        kind: type[np.signedinteger[Any]] = np.int32 if largest < 2**31 else np.int64
        drawn, ranks = np.ascontiguousarray(counts.T, dtype=kind), np.ascontiguousarray(ranks_y.T)
        before = -n_drawn.astype(kind)
        most, width = max(len(part.codes) for part in self.parts), drawn.shape[1]
        total, products = np.zeros(width), np.empty((most, width))
        weights, below = np.empty((2, most, width), dtype=kind)  # memory for all parts
        for part in self.parts:
            n = len(part.codes)
            own = drawn.take(part.codes, axis=0, out=weights[:n], mode="clip")  # needs no copy
            numbers, before = part.numbers(drawn, own, before, below)
            own *= numbers
            ranks.take(part.level, axis=0, out=products[:n], mode="clip")
            products[:n] *= own
            total += np.einsum("rb->b", products[:n])
        return total


def _by_step(first: int, last: int) -> tuple[NDArray[np.intp], tuple[int, int]]:
    """The runs of a part in the order of `Part`, and its steps and segments.

    The last part may be shorter: one segment for as many runs as do not fill whole ones.
    """
    n = last - first
    steps = next(each for each in range(min(STEPS, n), 0, -1) if n % each == 0)
    order = np.arange(first, last).reshape(n // steps, steps).T
    return order.ravel(), (steps, n // steps)


# Spearman's rho without each cluster in turn, from one pass over the rows.
#
# Leaving a cluster out removes its rows from every other row's rank. What they contributed is
# counted by cluster and value of y, so no rho is computed from the rows again.


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
