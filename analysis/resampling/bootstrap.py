"""The cluster bootstrap: rows that belong together are resampled together.

Fifty answers by one person are not fifty independent answers, so the bootstrap draws participants
(or triplets, or both) instead of rows. A resample is a vector of weights: how often each row
counts. All statistics of a release use the same resamples, so differences between them are paired.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

from hsfiq.analysis.arrays import BoolArray, FloatArray
from hsfiq.analysis.data.release import Release
from hsfiq.analysis.errors import AnalysisError
from hsfiq.analysis.resampling.interval import ConfidenceInterval, percentile_interval

Unit = Literal["participant", "triplet", "participant-triplet", "row"]
Correction = Literal["none", "t"]

UNITS: tuple[Unit, ...] = get_args(Unit)
CORRECTIONS: tuple[Correction, ...] = get_args(Correction)
DEFAULT_RESAMPLES = 2000
BLOCK_SIZE = 1_000_000  # numbers held in memory at once: 8 MB
MOST_KEPT = 20_000_000  # draws that are kept for the next statistic: 40 MB

CLUSTER_COLUMNS: dict[Unit, tuple[str, ...]] = {
    "participant": ("participant_id",),
    "triplet": ("query_id",),
    "participant-triplet": ("participant_id", "query_id"),
    "row": (),
}


@dataclass(frozen=True, eq=False)
class Clusters:
    """The clusters that the ids of one column belong to: `codes` has the number for each id."""

    column: str
    ids: pd.Index[str]
    codes: NDArray[np.intp]
    size: int
    _last: list[tuple[weakref.ref[pd.DataFrame], NDArray[np.intp]]] = field(
        default_factory=list, repr=False
    )

    @classmethod
    def of_column(
        cls, rows: pd.DataFrame, column: str, cluster_of: pd.Series[str] | None = None
    ) -> Clusters:
        """Find the clusters of a column; the order of the rows does not matter.

        An id that `cluster_of` lacks is a cluster of its own, and so is every id if it is None.
        """
        ids = pd.Index(rows[column].unique())
        names = list(ids) if cluster_of is None else [cluster_of.get(name, name) for name in ids]
        codes, distinct = pd.factorize(np.array(names, dtype=object), sort=True)
        return cls(column, ids, codes, len(distinct))

    def codes_of(self, rows: pd.DataFrame) -> NDArray[np.intp]:
        """The cluster number of each row; AnalysisError if an id is in none of the clusters.

        Several figures come from the same rows, so the last answer is kept while its rows are.
        """
        if self._last and self._last[0][0]() is rows:
            return self._last[0][1]
        codes = self._codes_of(rows)
        self._last[:] = [(weakref.ref(rows), codes)]
        return codes

    def _codes_of(self, rows: pd.DataFrame) -> NDArray[np.intp]:
        positions = self.ids.get_indexer(pd.Index(rows[self.column]))
        if (positions < 0).any():
            unknown = rows[self.column].iloc[int((positions < 0).argmax())]
            raise AnalysisError(
                self.column,
                f"{unknown} is in none of the clusters",
                "make the bootstrap from this release",
            )
        return self.codes[positions]


@dataclass(frozen=True, eq=False)
class Bootstrap:
    """How often each cluster is drawn in each resample, the same for every statistic.

    Attributes:
        unit: what is resampled: participants, triplets, both at once, or single rows as if they
            were independent. For both at once the weights multiply (Owen 2007, "The pigeonhole
            bootstrap"); variance that is due to neither then counts up to three times, so the
            interval is too long rather than too short.
        correction: "t" widens the intervals for few clusters (see `interval.expanded_tail`).
        clusters: those of each resampled column; empty for rows.
        n_clusters: the number of clusters; the smaller number if there are two columns.
        memo: (n_resamples,) statistics that several figures need, by what they are computed from.
    """

    unit: Unit
    n_resamples: int
    seed: int
    correction: Correction
    clusters: tuple[Clusters, ...]
    n_clusters: int
    memo: dict[bytes, FloatArray] = field(default_factory=dict, repr=False)
    _draws: dict[tuple[int, ...], list[NDArray[np.uint16]]] = field(
        default_factory=dict, repr=False
    )

    @classmethod
    def of_release(
        cls,
        release: Release,
        *,
        unit: Unit = "participant",
        n_resamples: int = DEFAULT_RESAMPLES,
        seed: int = 0,
        correction: Correction = "none",
    ) -> Bootstrap:
        """Resample the clusters of a release, whatever the order of its rows."""
        return cls.of_rows(
            release.preferences,
            release.triplets,
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
    ) -> Bootstrap:
        """Resample the clusters of a table with `participant_id` and `query_id`.

        `triplets` maps query_id to triplet; if None, each query is a cluster of its own.
        AnalysisError: there would be no resample, or the unit or the correction is unknown.
        """
        if n_resamples < 1:
            raise AnalysisError("resamples", f"{n_resamples} is too few", "use 1 or more")
        if unit not in UNITS:
            raise AnalysisError("unit", f"no such unit: {unit}", f"use one of {', '.join(UNITS)}")
        if correction not in CORRECTIONS:
            known = ", ".join(CORRECTIONS)
            raise AnalysisError("correction", f"unknown: {correction}", f"use one of {known}")
        clusters = tuple(
            Clusters.of_column(rows, column, triplets if column == "query_id" else None)
            for column in CLUSTER_COLUMNS[unit]
        )
        n_clusters = min((each.size for each in clusters), default=len(rows))
        return cls(unit, n_resamples, seed, correction, clusters, n_clusters)

    def for_release(self, release: Release, unit: Unit | None = None) -> Bootstrap:
        """The same settings for another release, such as one category, or for another unit."""
        return Bootstrap.of_release(
            release,
            unit=unit or self.unit,
            n_resamples=self.n_resamples,
            seed=self.seed,
            correction=self.correction,
        )

    def n_clusters_of(self, rows: pd.DataFrame, chosen: BoolArray | None = None) -> int:
        """The number of clusters that some rows come from; the smaller one of two columns.

        `chosen` takes only some of these rows.
        """
        everything = slice(None) if chosen is None else chosen
        sizes = (
            int(np.count_nonzero(np.bincount(clusters.codes_of(rows)[everything])))
            for clusters in self.clusters
        )
        return min(sizes, default=len(rows) if chosen is None else int(chosen.sum()))

    def weights(self, rows: pd.DataFrame) -> Iterator[FloatArray]:
        """Yield how often each row counts in each resample, in blocks (b, n) of resamples.

        Whole numbers, `n_resamples` rows in total, the same at every call. AnalysisError: a row's
        participant or query is not in the resampled release.
        """
        codes = [clusters.codes_of(rows) for clusters in self.clusters]
        sizes = [clusters.size for clusters in self.clusters]
        if self.unit == "row":
            codes, sizes = [np.arange(len(rows))], [len(rows)]
        for counts_by_column in self._blocks(sizes, len(rows)):
            block = counts_by_column[0].take(codes[0], axis=1)
            for counts, code in zip(counts_by_column[1:], codes[1:], strict=True):
                block *= counts.take(code, axis=1)
            yield block

    def counts(self, width: int = 1) -> Iterator[FloatArray]:
        """Yield how often each cluster is drawn, (b, n_clusters), if one column is resampled.

        `width`, the number of values that the caller computes per resample, bounds the size of a
        block.
        """
        yield from (counts for (counts,) in self._blocks([self.n_clusters], width))

    def sums(
        self, rows: pd.DataFrame, columns: FloatArray | sparse.csr_array
    ) -> Iterator[FloatArray]:
        """Yield `weights @ columns` of finite columns (n, m), in blocks (b, m), but faster."""
        if len(self.clusters) == 1:
            cluster_sums = (
                indicator_matrix(self.clusters[0].codes_of(rows), self.n_clusters).T @ columns
            )
            yield from (counts @ cluster_sums for counts in self.counts(columns.shape[1]))
        else:
            yield from (block @ columns for block in self.weights(rows))

    def totals_of(self, tables: Sequence[tuple[pd.DataFrame, FloatArray]]) -> list[FloatArray]:
        """The `totals` of several tables with their columns, drawing the resamples only once."""
        if len(self.clusters) != 1 or not tables:
            return [self.totals(rows, columns) for rows, columns in tables]
        by_cluster = [
            indicator_matrix(self.clusters[0].codes_of(rows), self.n_clusters).T @ columns
            for rows, columns in tables
        ]
        joined = np.concatenate(by_cluster, axis=1)
        totals = np.concatenate([counts @ joined for counts in self.counts(joined.shape[1])])
        ends = np.cumsum([columns.shape[1] for columns in by_cluster])[:-1]
        return np.split(totals, ends, axis=1)

    def totals(self, rows: pd.DataFrame, columns: FloatArray | sparse.csr_array) -> FloatArray:
        """The blocks of `sums` in one array, (n_resamples, m): for few columns."""
        return np.concatenate(list(self.sums(rows, columns)))

    def ratios(
        self,
        rows: pd.DataFrame,
        numerators: FloatArray | BoolArray,
        denominators: FloatArray | BoolArray,
    ) -> FloatArray:
        """Divide sums over the rows of each resample: rates, shares and means.

        Both arguments are (n, m): what each row adds to the numerator and denominator of each
        ratio. Returns (n_resamples, m); NaN if the denominator of a resample is 0.
        """
        columns = np.concatenate([numerators, denominators], axis=1).astype(np.float64)
        totals = self.totals(rows, columns)
        m = numerators.shape[1]
        return ratio(totals[:, :m], totals[:, m:])

    def interval(
        self,
        statistics: FloatArray,
        rows: pd.DataFrame | None = None,
        chosen: BoolArray | None = None,
    ) -> ConfidenceInterval:
        """Take the percentiles of a statistic over the resamples (see `percentile_interval`).

        Args:
            statistics: (n_resamples,), NaN where the statistic is undefined.
            rows: the rows that it was computed from, whose clusters are counted; None for all.
            chosen: which of these rows it was computed from, (n,); None for all of them.
        """
        return percentile_interval(
            statistics,
            unit=self.unit.replace("-", " x "),
            n_clusters=self.n_clusters if rows is None else self.n_clusters_of(rows, chosen),
            seed=self.seed,
            expand=self.correction == "t",
        )

    def undefined_interval(self, rows: pd.DataFrame) -> ConfidenceInterval:
        """The interval of a statistic that is undefined in every resample of these rows."""
        return self.interval(np.full(self.n_resamples, np.nan), rows)

    def _blocks(self, sizes: Sequence[int], width: int) -> Iterator[list[FloatArray]]:
        """Yield blocks of how often each cluster is drawn, (b, size) for each of the sizes.

        Each column has its own stream of random numbers, read in order, so neither the other
        column nor the size of a block changes a draw.
        """
        streams = [np.random.default_rng((self.seed, place)) for place in range(len(sizes))]
        block_length = max(1, BLOCK_SIZE // max(1, width, *sizes))
        kept = self._kept_draws(sizes)
        for start in range(0, self.n_resamples, block_length):
            n = min(block_length, self.n_resamples - start)
            if kept is not None:
                yield [each[start : start + n].astype(np.float64) for each in kept]
            else:
                yield [_draw_counts(rng, n, size) for rng, size in zip(streams, sizes, strict=True)]

    def _kept_draws(self, sizes: Sequence[int]) -> list[NDArray[np.uint16]] | None:
        """All draws, (n_resamples, size) for each of the sizes, kept for the next statistic.

        None for single rows, whose number differs, or if they would take too much memory.
        """
        n_draws, largest = self.n_resamples * sum(sizes), max(sizes, default=0)
        if self.unit == "row" or n_draws > MOST_KEPT or largest >= 2**16:
            return None
        key = tuple(sizes)
        if key not in self._draws:
            block_length = max(1, BLOCK_SIZE // max(1, *sizes))
            self._draws[key] = []
            for place, size in enumerate(sizes):
                rng = np.random.default_rng((self.seed, place))
                blocks = [
                    _draw_counts(rng, min(block_length, self.n_resamples - start), size)
                    for start in range(0, self.n_resamples, block_length)
                ]
                self._draws[key].append(np.concatenate(blocks, dtype=np.uint16, casting="unsafe"))
        return self._draws[key]


def ratio(numerator: FloatArray, denominator: FloatArray | NDArray[np.int64]) -> FloatArray:
    """Divide arrays of equal shape; NaN where the denominator is 0."""
    quotient: FloatArray = np.divide(
        numerator, denominator, out=np.full(denominator.shape, np.nan), where=denominator > 0
    )
    return quotient


def indicator_matrix(codes: NDArray[np.intp], size: int) -> sparse.csr_array:
    """One column for each of `size` codes, 1 in the rows that have it: (n,) -> (n, size)."""
    n = len(codes)
    return sparse.csr_array((np.ones(n), codes, np.arange(n + 1)), shape=(n, size))


def _draw_counts(rng: np.random.Generator, n: int, size: int) -> FloatArray:
    """Draw `size` of `size` clusters with replacement, n times; (n, size) of how often each."""
    if size == 0:
        return np.zeros((n, 0))
    drawn = rng.integers(size, size=(n, size))
    drawn += np.arange(n)[:, None] * size
    counts = np.bincount(drawn.ravel(), minlength=n * size)
    return counts.reshape(n, size).astype(np.float64)
