"""Resampling of whole clusters: what belongs together is drawn together.

Fifty answers by one person are not fifty independent ones, so the bootstrap draws people (or
triplets, or both), not rows. A resample is a vector of whole numbers: how often each row counts.
All statistics of a release use the same draws, so that their differences are paired.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from hsfiq.analysis.errors import AnalysisError
from hsfiq.analysis.resampling.clusters import Clusters, clustered
from hsfiq.analysis.resampling.interval import percentile_interval
from hsfiq.analysis.resampling.spearman import indicators

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pandas as pd
    from numpy.typing import NDArray
    from scipy import sparse

    from hsfiq.analysis.data.release import Release
    from hsfiq.analysis.resampling.interval import Interval

Unit = Literal["participant", "triplet", "participant-triplet", "row"]
Correction = Literal["none", "t"]

UNITS: tuple[Unit, ...] = get_args(Unit)
CORRECTIONS: tuple[Correction, ...] = get_args(Correction)
DEFAULT_RESAMPLES = 2000
AT_ONCE = 1_000_000  # numbers held in memory together: 8 MB

COLUMNS: dict[Unit, tuple[str, ...]] = {
    "participant": ("participant_id",),
    "triplet": ("query_id",),
    "participant-triplet": ("participant_id", "query_id"),
    "row": (),
}
NAMES: dict[Unit, str] = {
    "participant": "participant",
    "triplet": "triplet",
    "participant-triplet": "participant x triplet",
    "row": "row",
}


@dataclass(frozen=True, eq=False)
class Draws:
    """How often each cluster is drawn in each resample, the same for every statistic.

    Attributes:
        unit: what is drawn: participants, triplets, both at once, or the single rows of a table, as
            if they were independent. Both at once, weights multiply (Owen 2007, "The pigeonhole
            bootstrap"); what is neither the person's nor the triplet's then counts up to three
            times, so the interval is rather too long than too short.
        n_resamples: how many resamples there are.
        seed: of the draws.
        correction: "t" widens the intervals for few clusters (see `interval.expanded_tail`).
        clusters: of each column that is drawn by; none for rows.
        n_clusters: how many clusters there are; drawn both ways, the fewer.
    """

    unit: Unit
    n_resamples: int
    seed: int
    correction: Correction
    clusters: tuple[Clusters, ...]
    n_clusters: int

    @classmethod
    def of(
        cls,
        release: Release,
        *,
        unit: Unit = "participant",
        n_resamples: int = DEFAULT_RESAMPLES,
        seed: int = 0,
        correction: Correction = "none",
    ) -> Draws:
        """Draw from the clusters of a release; its order of rows changes nothing.

        Queries of one triplet are one cluster, where the release says which triplets they have.
        """
        triplets: pd.Series[str] | None = None
        if "triplet_id" in release.queries:
            triplets = release.queries.set_index("query_id")["triplet_id"]
        return cls.of_rows(
            release.preferences,
            triplets,
            unit=unit,
            n_resamples=n_resamples,
            seed=seed,
            correction=correction,
        )

    @classmethod
    def of_rows(
        cls,
        rows: pd.DataFrame,
        triplets: pd.Series[str] | None = None,
        *,
        unit: Unit = "participant",
        n_resamples: int = DEFAULT_RESAMPLES,
        seed: int = 0,
        correction: Correction = "none",
    ) -> Draws:
        """Draw from the clusters of a table with `participant_id` and `query_id`.

        Args:
            rows: (n, ...).
            triplets: query_id -> triplet; None where each query is a cluster of its own.
            unit, n_resamples, seed, correction: see the class.

        Raises:
            AnalysisError: there would be no resample, or the unit or the correction is unknown.
        """
        if n_resamples < 1:
            raise AnalysisError("resamples", f"{n_resamples} is too few", "ask for 1 or more")
        if unit not in UNITS:
            raise AnalysisError("unit", f"no such unit: {unit}", f"known are {', '.join(UNITS)}")
        if correction not in CORRECTIONS:
            known = ", ".join(CORRECTIONS)
            raise AnalysisError("correction", f"unknown: {correction}", f"known are {known}")
        clusters = tuple(
            clustered(rows, column, triplets if column == "query_id" else None)
            for column in COLUMNS[unit]
        )
        n_clusters = min((each.size for each in clusters), default=len(rows))
        return cls(unit, n_resamples, seed, correction, clusters, n_clusters)

    def n_clusters_of(self, rows: pd.DataFrame) -> int:
        """How many clusters some rows come from; drawn both ways, the fewer."""
        found = (len(np.unique(clusters.of(rows))) for clusters in self.clusters)
        return min(found, default=len(rows))

    def weights(self, rows: pd.DataFrame) -> Iterator[NDArray[np.float64]]:
        """Yield how often each row counts in each resample, some resamples at a time.

        Args:
            rows: (n, ...) with `participant_id` and `query_id`, all of the release drawn from.

        Yields:
            (b, n) of whole numbers, in all `n_resamples` rows, the same at every call; b is such
            that a block stays small.

        Raises:
            AnalysisError: a row is of a participant or a query that was not drawn from.
        """
        codes = [clusters.of(rows) for clusters in self.clusters]
        sizes = [clusters.size for clusters in self.clusters]
        if self.unit == "row":
            codes, sizes = [np.arange(len(rows))], [len(rows)]
        for drawn in self._drawn(sizes, len(rows)):
            block = drawn[0].take(codes[0], axis=1)
            for counts, code in zip(drawn[1:], codes[1:], strict=True):
                block *= counts.take(code, axis=1)
            yield block

    def counts(self, width: int = 1) -> Iterator[NDArray[np.float64]]:
        """Yield how often each cluster is drawn, where one column is drawn by; as `weights` does.

        Args:
            width: how many numbers are made of a resample, if more than there are clusters.

        Yields:
            (b, n_clusters) of whole numbers.
        """
        yield from (counts for (counts,) in self._drawn([self.n_clusters], width))

    def sums(
        self, rows: pd.DataFrame, columns: NDArray[np.float64] | sparse.csr_array
    ) -> Iterator[NDArray[np.float64]]:
        """Yield sums of columns over the rows of each resample: `weights @ columns`, but faster.

        Args:
            rows: as for `weights`.
            columns: (n, m), finite.

        Yields:
            (b, m), as `weights` does.

        Raises:
            AnalysisError: a row is of a participant or a query that was not drawn from.
        """
        if len(self.clusters) == 1:
            table = indicators(self.clusters[0].of(rows), self.n_clusters).T @ columns
            yield from (counts @ table for counts in self.counts(columns.shape[1]))
        else:
            yield from (block @ columns for block in self.weights(rows))

    def totals(
        self, rows: pd.DataFrame, columns: NDArray[np.float64] | sparse.csr_array
    ) -> NDArray[np.float64]:
        """The sums of `sums` in one array, (n_resamples, m): for few columns."""
        return np.concatenate(list(self.sums(rows, columns)))

    def interval(
        self, statistics: NDArray[np.float64], rows: pd.DataFrame | None = None
    ) -> Interval:
        """Take the percentiles of a statistic over the resamples.

        Args:
            statistics: (n_resamples,), NaN where the statistic is undefined.
            rows: what it was computed from, whose clusters are counted; None for all.

        Returns:
            The interval; NaN, with a reason, with fewer than two clusters or where too many
            resamples are undefined.
        """
        return percentile_interval(
            statistics,
            unit=NAMES[self.unit],
            n_clusters=self.n_clusters if rows is None else self.n_clusters_of(rows),
            seed=self.seed,
            expand=self.correction == "t",
        )

    def _drawn(self, sizes: Sequence[int], width: int) -> Iterator[list[NDArray[np.float64]]]:
        """Yield blocks of how often each cluster is drawn, (b, size) for each of the sizes.

        Each has a stream of random numbers of its own, read in order, so that neither the other
        nor the size of a block, which the width of what is made of it bounds, changes a draw.
        """
        streams = [np.random.default_rng((self.seed, place)) for place in range(len(sizes))]
        at_once = max(1, AT_ONCE // max(1, width, *sizes))
        for start in range(0, self.n_resamples, at_once):
            n = min(at_once, self.n_resamples - start)
            yield [_draw(rng, n, size) for rng, size in zip(streams, sizes, strict=True)]


def _draw(rng: np.random.Generator, n: int, size: int) -> NDArray[np.float64]:
    """Draw `size` of `size` clusters with replacement, n times; (n, size) of how often each."""
    if size == 0:
        return np.zeros((n, 0))
    drawn = rng.integers(size, size=(n, size))
    drawn += np.arange(n)[:, None] * size
    counts = np.bincount(drawn.ravel(), minlength=n * size)
    return counts.reshape(n, size).astype(np.float64)
