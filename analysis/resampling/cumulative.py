"""The product of two variables' ranks in many resamples, in one pass over the rows by increasing x.

In a resample a row's mid-rank is half of twice the weight below it plus the weight of its run, the
rows of equal x. The weight below is a cumulative sum over the runs. It is taken for a block of
resamples at once, in parts of the runs that fit into the processor's cache. Everything is a whole
number, so nothing is rounded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from hsfiq.analysis.arrays import FloatArray

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
