"""Rank sums of groups of rows in many resamples, in one pass over the rows by increasing x.

In a resample a row's mid-rank is half of twice the weight below it plus the weight of its run, the
rows of equal x. From one run to the next this number rises by the weights of the two runs, so all
of them are a cumulative sum. It is taken for a block of resamples at once, in chunks of runs that
fit into the processor's cache. Everything is a whole number, so nothing is rounded.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from hsfiq.analysis.arrays import FloatArray

LANES = 16
"""How many resamples are best computed at once: their numbers lie side by side in memory."""
SEGMENTS, STEPS = 240, 40
"""The runs of a part: a segment's runs are added up step by step, for all segments at once."""
PARTS = 3
"""The parts of a chunk, which is summed by group as a whole."""


@dataclass(frozen=True, eq=False)
class Part:
    """Runs in the order in which they are added up: the first of each segment, then the second.

    Attributes:
        rises: (runs, clusters), sparse: by how much each drawn row raises the run's number over
            that of the run before.
        shape: steps and segments.
    """

    rises: sparse.csr_array
    shape: tuple[int, int]


@dataclass(frozen=True, eq=False)
class CumulativeRanks:
    """Twice the mid-ranks of x, summed over groups of rows.

    Attributes:
        chunks: parts of runs, and which runs the rows of each group are in: (groups, runs), sparse.
        n_groups: the number of groups.
    """

    chunks: tuple[tuple[tuple[Part, ...], sparse.csr_array], ...]
    n_groups: int

    @classmethod
    def of(
        cls,
        run: NDArray[np.intp],
        codes: NDArray[np.intp],
        n_clusters: int,
        group: NDArray[np.intp],
    ) -> CumulativeRanks:
        """Arrange rows (n,), n > 0, given each one's run by number, its cluster and its group."""
        n_runs, n_groups = int(run.max()) + 1, int(group.max()) + 1
        kind = _smallest_type(codes, group)
        ones = np.ones(len(run), dtype=kind)
        weights = sparse.csr_array((ones, (run, codes)), shape=(n_runs, n_clusters))
        zero = sparse.csr_array((1, n_clusters), dtype=kind)
        rises = weights + sparse.vstack([zero, weights[:-1]], format="csr")
        inside = sparse.csc_array((ones, (group, run)), shape=(n_groups, n_runs))
        chunks = []
        for start, end in _spans(0, n_runs, PARTS * SEGMENTS * STEPS):
            parts, orders = [], []
            for first, last in _spans(start, end, SEGMENTS * STEPS):
                order, shape = _by_step(first, last)
                parts.append(Part(rises[order], shape))
                orders.append(order)
            chunks.append((tuple(parts), inside[:, np.concatenate(orders)].tocsr()))
        return cls(tuple(chunks), n_groups)

    def sums(self, counts: FloatArray) -> FloatArray:
        """Sum twice the mid-ranks by group, each row once: (b, clusters) -> (b, groups).

        Counts say how often each cluster is drawn, which decides the ranks; `LANES` resamples at a
        time are fastest.
        """
        kind = self.chunks[0][1].dtype
        drawn = np.ascontiguousarray(counts.T, dtype=kind)
        width = drawn.shape[1]
        totals = np.zeros((self.n_groups, width), dtype=kind)
        carried = np.zeros(width, dtype=kind)
        longest = max(inside.shape[1] for _, inside in self.chunks)
        buffer = np.empty((longest, width), dtype=kind)
        for parts, inside in self.chunks:
            numbers, start = buffer[: inside.shape[1]], 0
            for part in parts:
                end = start + part.rises.shape[0]
                block = (part.rises @ drawn).reshape(*part.shape, width)
                for step in range(1, len(block)):
                    np.add(block[step], block[step - 1], out=block[step])
                before = np.cumsum(block[-1], axis=0, dtype=kind)
                before += carried
                carried = before[-1].copy()
                before -= block[-1]
                np.add(block, before, out=numbers[start:end].reshape(block.shape))
                start = end
            totals += inside @ numbers
        return totals.T.astype(np.float64)


def _spans(start: int, end: int, length: int) -> Iterator[tuple[int, int]]:
    for first in range(start, end, length):
        yield first, min(first + length, end)


def _by_step(first: int, last: int) -> tuple[NDArray[np.intp], tuple[int, int]]:
    """The runs of a part in the order of `Part`, and its steps and segments.

    The last part may be shorter: one segment for as many runs as do not fill whole ones.
    """
    n = last - first
    steps = next(each for each in range(min(STEPS, n), 0, -1) if n % each == 0)
    order = np.arange(first, last).reshape(n // steps, steps).T
    return order.ravel(), (steps, n // steps)


def _smallest_type(codes: NDArray[np.intp], group: NDArray[np.intp]) -> type[np.signedinteger]:
    """An integer type for a group's sum, even if only the largest cluster is drawn."""
    sizes = np.bincount(codes)
    largest = 2 * int(sizes.max()) * len(sizes) * int(np.bincount(group).max())
    return np.int32 if largest < 2**31 else np.int64
