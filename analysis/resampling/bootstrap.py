"""The cluster bootstrap: rows that belong together are resampled together.

Fifty answers by one person are not fifty independent answers, so the bootstrap draws participants
(or triplets, or both) instead of rows. A resample is a vector of weights: how often each row
counts. All statistics of a release use the same resamples, so differences between them are
paired. The variance of a mean needs no resamples: it follows from the clusters' errors.

A statistic is an array: the first value is that of the original rows; the resamples follow.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

from hsfiq.analysis.data.columns import looked_up
from hsfiq.analysis.data.provenance import SharedTriplets, triplets_of
from hsfiq.analysis.data.release import Release
from hsfiq.analysis.json_results import UNDEFINED, BoolArray, FloatArray, JsonRecord
from hsfiq.analysis.resampling import intervals
from hsfiq.errors import UnreadableInput

# Clusters of rows: the answers of a participant, those about a triplet, or those of both.


class LastCodes:
    """Caches the codes of the most recent rows, which several figures use."""

    def __init__(self) -> None:
        self._rows: weakref.ref[pd.DataFrame] | None = None
        self._codes: NDArray[np.intp] = np.zeros(0, dtype=np.intp)

    def of(
        self, rows: pd.DataFrame, compute: Callable[[pd.DataFrame], NDArray[np.intp]]
    ) -> NDArray[np.intp]:
        if self._rows is None or self._rows() is not rows:
            self._codes = compute(rows)
            self._rows = weakref.ref(rows)
        return self._codes


@dataclass(frozen=True, eq=False)
class Clusters:
    """The clusters that the ids of one column belong to: `numbers` has the number of each id."""

    column: str
    numbers: pd.Series[int]
    size: int
    _last: LastCodes = field(default_factory=LastCodes, repr=False)

    @classmethod
    def of_column(
        cls, rows: pd.DataFrame, column: str, cluster_of: pd.Series[str] | None = None
    ) -> Clusters:
        """Find the clusters of a column; the order of the rows does not matter.

        An id absent from `cluster_of` is a separate cluster, and so is every id if it is None.
        """
        ids = rows[column].drop_duplicates()
        names = ids if cluster_of is None else triplets_of(ids, cluster_of)
        codes, distinct = pd.factorize(names, sort=True)
        return cls(column, pd.Series(codes, index=pd.Index(ids)), len(distinct))

    @property
    def n(self) -> int:
        """The number of clusters; `size` is the number of resampled units."""
        return self.size

    def codes_of(self, rows: pd.DataFrame) -> NDArray[np.intp]:
        """The cluster number of each row; UnreadableInput if an id belongs to no cluster."""
        return self._last.of(rows, self._codes_of)

    def _codes_of(self, rows: pd.DataFrame) -> NDArray[np.intp]:
        numbers = looked_up(rows[self.column], self.numbers)
        if numbers.isna().any():
            unknown = rows[self.column].iloc[int(numbers.isna().to_numpy().argmax())]
            raise UnreadableInput(
                self.column,
                f"{unknown} belongs to no cluster",
                "make the bootstrap from this release",
            )
        return numbers.to_numpy(dtype=np.intp)

    def sizes_of(self, rows: pd.DataFrame, chosen: BoolArray | None = None) -> intervals.IntArray:
        """The number of rows in each of their clusters; `chosen` selects some of the rows."""
        return sizes_in(self.codes_of(rows), chosen)


@dataclass(frozen=True, eq=False)
class Pairs:
    """Clusters of one participant and one triplet: the answers that share both.

    Attributes:
        known: the sorted numbers of the pairs that occur: participant x n_triplets + triplet.
    """

    participants: Clusters
    triplets: Clusters
    known: NDArray[np.intp]
    _last: LastCodes = field(default_factory=LastCodes, repr=False)

    @classmethod
    def of_rows(cls, rows: pd.DataFrame, participants: Clusters, triplets: Clusters) -> Pairs:
        pairs = cls(participants, triplets, np.zeros(0, dtype=np.intp))
        return cls(participants, triplets, np.unique(pairs._numbers(rows)))

    @property
    def n(self) -> int:
        return len(self.known)

    @property
    def size(self) -> int:
        return len(self.known)

    def codes_of(self, rows: pd.DataFrame) -> NDArray[np.intp]:
        """The number of each row's pair."""
        return self._last.of(rows, lambda rows: np.searchsorted(self.known, self._numbers(rows)))

    def sizes_of(self, rows: pd.DataFrame, chosen: BoolArray | None = None) -> intervals.IntArray:
        return sizes_in(self.codes_of(rows), chosen)

    def _numbers(self, rows: pd.DataFrame) -> NDArray[np.intp]:
        return self.participants.codes_of(rows) * self.triplets.size + self.triplets.codes_of(rows)


@dataclass(frozen=True, eq=False)
class Groups:
    """Random groups of clusters, which are resampled instead of the clusters.

    Attributes:
        size: the number of groups.
        group: (clusters.size,) the group of each cluster.
    """

    clusters: Clusters | Pairs
    size: int
    group: NDArray[np.intp] = field(repr=False)

    @classmethod
    def of_clusters(cls, clusters: Clusters | Pairs, seed: int, most: int) -> Groups:
        """At most `most` groups, with sizes that differ by at most one cluster."""
        size = min(most, clusters.size)
        order = np.random.default_rng(seed).permutation(clusters.size)
        return cls(clusters, size, order % max(1, size))

    @property
    def n(self) -> int:
        return self.clusters.n

    def codes_of(self, rows: pd.DataFrame) -> NDArray[np.intp]:
        """The group number of each row."""
        return self.group[self.clusters.codes_of(rows)]

    def sizes_of(self, rows: pd.DataFrame, chosen: BoolArray | None = None) -> intervals.IntArray:
        return self.clusters.sizes_of(rows, chosen)


def sizes_in(codes: NDArray[np.intp], chosen: BoolArray | None) -> intervals.IntArray:
    """The count of each code that occurs among the chosen ones; `codes` are (n,), from 0."""
    numbers = np.bincount(codes[slice(None) if chosen is None else chosen])
    return numbers[numbers > 0]


Unit = Literal["participant", "triplet", "participant-triplet", "row"]

UNITS: tuple[Unit, ...] = get_args(Unit)
DEFAULT_RESAMPLES = 2000
BLOCK_SIZE = 1_000_000  # numbers held in memory at once: 8 MB
LEAST_AT_ONCE = 12  # resamples: fewer read the numbers of all clusters too often
MOST_KEPT = 20_000_000  # draws that are kept for the next statistic: 40 MB
MANY = 0.1
"""A sparse matrix with a larger share of entries is multiplied faster as a dense one."""
MOST_ALONE, MOST_GROUPS = 10_000, 1000
"""If there are more clusters, this number of random groups is resampled.

The groups are independent, like the clusters, and the time and memory of a resample are bounded.
The second is for triplets and answers of the two-way bootstrap.
"""


@dataclass(frozen=True, eq=False)
class Resamples:
    """How often each cluster is drawn in each of `n` resamples.

    Attributes:
        seed: of this stream of random numbers.
        clusters: None if single rows are drawn.
        sizes: (n_clusters,) the number of rows in each.
    """

    n: int
    seed: tuple[int, int]
    clusters: Clusters | Groups | None
    sizes: intervals.IntArray = field(repr=False)
    _kept: list[NDArray[np.uint16]] = field(default_factory=list, repr=False)

    def codes(self, rows: pd.DataFrame) -> NDArray[np.intp]:
        """The number of each row's cluster, (n_rows,)."""
        return np.arange(len(rows)) if self.clusters is None else self.clusters.codes_of(rows)

    def counts(self, size: int, width: int = 1) -> Iterator[FloatArray]:
        """Yield how often each of `size` clusters is drawn, (b, size), in blocks of resamples.

        Random numbers are read in order, so the size of a block changes no draw. `width`, the
        number of values that the caller computes per resample, bounds the size of a block.
        """
        block_length = max(LEAST_AT_ONCE, BLOCK_SIZE // max(1, width, size))
        starts = range(0, self.n, block_length)
        if self._is_kept(size):
            if not self._kept:
                blocks = self._drawn(size, max(LEAST_AT_ONCE, BLOCK_SIZE // max(1, size)))
                self._kept.append(np.concatenate(list(blocks), dtype=np.uint16, casting="unsafe"))
            for start in starts:
                yield self._kept[0][start : start + block_length].astype(np.float64)
        else:
            yield from self._drawn(size, block_length)

    def _is_kept(self, size: int) -> bool:
        """Whether the draws are kept: not for single rows, whose number differs, or too many."""
        return self.clusters is not None and self.n * size <= MOST_KEPT and size < 2**16

    def _drawn(self, size: int, block_length: int) -> Iterator[FloatArray]:
        stream = np.random.default_rng(self.seed)
        for start in range(0, self.n, block_length):
            yield _draw_counts(stream, min(block_length, self.n - start), size)

    def weights(self, rows: pd.DataFrame) -> Iterator[FloatArray]:
        """Yield how often each row counts in each resample, (b, n_rows)."""
        codes = self.codes(rows)
        for counts in self.counts(self.size(rows), len(rows)):
            yield counts.take(codes, axis=1)

    def sums(
        self, rows: pd.DataFrame, columns: FloatArray | sparse.csr_array
    ) -> Iterator[FloatArray]:
        """Yield `weights @ columns` of finite columns (n_rows, m), in blocks (b, m), but faster."""
        if self.clusters is None:
            yield from (block @ columns for block in self.weights(rows))
            return
        cluster_sums = indicator_matrix(self.codes(rows), self.clusters.size).T @ columns
        if sparse.issparse(cluster_sums) and cluster_sums.nnz > MANY * np.prod(cluster_sums.shape):
            cluster_sums = cluster_sums.toarray()
        for counts in self.counts(self.clusters.size, columns.shape[1]):
            yield counts @ cluster_sums

    def size(self, rows: pd.DataFrame) -> int:
        return len(rows) if self.clusters is None else self.clusters.size

    def mean_spread(
        self, rows: pd.DataFrame, errors: FloatArray, chosen: BoolArray
    ) -> intervals.Spread:
        """The spread of a mean whose rows' errors, (n,), are independent between clusters."""
        codes = np.arange(len(rows))
        if self.clusters is not None:
            each = self.clusters
            codes = (each.clusters if isinstance(each, Groups) else each).codes_of(rows)
        sizes = np.bincount(codes[chosen])
        sums = np.bincount(codes[chosen], errors[chosen]).astype(np.float64)
        return intervals.mean_spread(sums[sizes > 0], sizes[sizes > 0])

    def sizes_of(
        self, rows: pd.DataFrame | None, chosen: BoolArray | None = None
    ) -> intervals.IntArray:
        """How many of some rows each of their clusters has.

        None for all rows. `chosen` takes some of them.
        """
        if rows is None:
            return self.sizes
        if self.clusters is None:
            return np.ones(len(rows) if chosen is None else int(chosen.sum()), dtype=np.int64)
        return self.clusters.sizes_of(rows, chosen)


@dataclass(frozen=True, eq=False)
class Bootstrap:
    """The resamples that all statistics of a release share.

    Attributes:
        unit: the resampled unit: participants, triplets, both, or single rows as if they were
            independent. Both is the two-way bootstrap for answers that depend on each other through
            the person and through the triplet: `parts` are then participants, triplets, and the
            answers of one participant to one triplet, and the variances of a statistic over the
            three combine to that of Cameron, Gelbach and Miller (see `two_way_spread`).
        parts: one for each column that is resampled.
        memo: (length,) statistics that several figures need, by what they are computed from.
    """

    unit: Unit
    n_resamples: int
    seed: int
    parts: tuple[Resamples, ...]
    memo: dict[bytes, FloatArray] = field(default_factory=dict, repr=False)

    @classmethod
    def of_release(
        cls,
        release: Release,
        *,
        unit: Unit | None = None,
        n_resamples: int = DEFAULT_RESAMPLES,
        seed: int = 0,
    ) -> Bootstrap:
        """Resample the clusters of a release, whatever the order of its rows."""
        return cls.of_rows(
            release.preferences,
            release.triplets,
            unit=unit,
            n_resamples=n_resamples,
            seed=seed,
        )

    @classmethod
    def of_rows(
        cls,
        rows: pd.DataFrame,
        triplets: pd.Series[str] | None = None,
        *,
        unit: Unit | None = None,
        n_resamples: int = DEFAULT_RESAMPLES,
        seed: int = 0,
    ) -> Bootstrap:
        """Resample the clusters of a table with `participant_id` and `query_id`.

        `triplets` maps query_id to triplet; if None, each query is a separate cluster. Without a
        unit, participants and triplets are resampled if several participants judged a triplet, and
        else participants. UnreadableInput: there would be no resample, or the unit is unknown.
        """
        if n_resamples < 1:
            raise UnreadableInput("resamples", f"{n_resamples} is too few", "use 1 or more")
        if unit is None:
            unit = "participant"
            if SharedTriplets.of(rows, triplets).n_shared:
                unit = "participant-triplet"
        if unit not in UNITS:
            raise UnreadableInput("unit", f"no such unit: {unit}", f"use one of {', '.join(UNITS)}")
        clusters = _clusters(unit, rows, triplets)
        parts = tuple(
            Resamples(n_resamples, (seed, place), each, sizes_of_rows(rows, each))
            for place, each in enumerate(clusters)
        )
        return cls(unit, n_resamples, seed, parts)

    def for_release(self, release: Release, unit: Unit | None = None) -> Bootstrap:
        """The same settings for another release, such as one category, or for another unit."""
        return Bootstrap.of_release(
            release,
            unit=unit or self.unit,
            n_resamples=self.n_resamples,
            seed=self.seed,
        )

    @property
    def length(self) -> int:
        """The length of a statistic's array: its value, then those of all resamples."""
        return 1 + sum(part.n for part in self.parts)

    def n_clusters_of(self, rows: pd.DataFrame | None, chosen: BoolArray | None = None) -> int:
        """The number of clusters that some rows come from; the smaller number of two columns.

        None for all rows; `chosen` takes only some of these rows.
        """
        return min(len(part.sizes_of(rows, chosen)) for part in self.parts)

    def weights(self, rows: pd.DataFrame) -> Iterator[FloatArray]:
        """Yield how often each row counts, in blocks (b, n): once, then in each resample.

        Whole numbers, `length` rows in total, the same at every call. UnreadableInput: a row's
        participant or query is not in the resampled release.
        """
        yield np.ones((1, len(rows)))
        yield from chain.from_iterable(part.weights(rows) for part in self.parts)

    def sums(
        self, rows: pd.DataFrame, columns: FloatArray | sparse.csr_array
    ) -> Iterator[FloatArray]:
        """Yield `weights @ columns` of finite columns (n, m), in blocks (b, m), but faster."""
        yield np.ones((1, len(rows))) @ columns
        yield from chain.from_iterable(part.sums(rows, columns) for part in self.parts)

    def totals(self, rows: pd.DataFrame, columns: FloatArray | sparse.csr_array) -> FloatArray:
        """The blocks of `sums` in one array, (length, m): for few columns."""
        return np.concatenate(list(self.sums(rows, columns)))

    def ratios(
        self,
        rows: pd.DataFrame,
        numerators: FloatArray | BoolArray,
        denominators: FloatArray | BoolArray,
    ) -> FloatArray:
        """Divide sums over the rows of each resample: rates, shares and means.

        Both arguments are (n, m): what each row adds to the numerator and denominator of each
        ratio. Returns (length, m); NaN if the denominator of a resample is 0.
        """
        columns = np.concatenate([numerators, denominators], axis=1).astype(np.float64)
        totals = self.totals(rows, columns)
        m = numerators.shape[1]
        return ratio(totals[:, :m], totals[:, m:])

    def spread(
        self,
        statistics: FloatArray,
        rows: pd.DataFrame | None = None,
        chosen: BoolArray | None = None,
    ) -> intervals.Spread:
        """The spread of a statistic, (length,); the rows are as for `interval`."""
        blocks = np.split(statistics[1:], len(self.parts))
        return _combined(
            [
                intervals.one_way_spread(_variance(block), part.sizes_of(rows, chosen))
                for part, block in zip(self.parts, blocks, strict=True)
            ]
        )

    def deviations(self, statistics: FloatArray) -> FloatArray:
        """How far the resamples of m statistics, (length, m), deviate together, (n_resamples, m).

        If two columns are resampled, the deviations of both are added: they have the correlations,
        but not the size, of the sampling errors.
        """
        blocks = np.split(statistics[1:] - statistics[0], len(self.parts))
        return blocks[0] if len(blocks) == 1 else blocks[0] + blocks[1]

    def p(
        self, statistics: FloatArray, rows: pd.DataFrame | None = None, null: float = 0.0
    ) -> float:
        """The two-sided p of Student's t that a statistic, (length,), is `null`; or NaN."""
        return intervals.student_p(float(statistics[0]) - null, self.spread(statistics, rows))

    def interval(
        self,
        statistics: FloatArray,
        rows: pd.DataFrame | None = None,
        chosen: BoolArray | None = None,
        bounds: intervals.Bounds | None = None,
    ) -> intervals.ConfidenceInterval:
        """Student's interval of a statistic, with the variance of its resamples.

        Args:
            statistics: (length,), NaN where the statistic is undefined.
            rows: the rows that it was computed from, whose clusters are counted; None for all.
            chosen: which of these rows it was computed from, (n,); None for all of them.
            bounds: the range of the statistic, if it has one; the interval stays within.
        """
        spread = self.spread(statistics, rows, chosen)
        interval = self._interval(
            float(statistics[0]), spread, "bootstrap", rows, chosen, bounds, statistics[1:]
        )
        return replace(interval, n_resamples=self.n_resamples)

    def mean_spread(
        self, rows: pd.DataFrame, errors: FloatArray, chosen: BoolArray | None = None
    ) -> intervals.Spread:
        """The spread of a mean, a rate, or a difference of these, without resamples.

        Args:
            errors: (n,) what each row adds to the statistic's error, see `errors_of_mean`.
            chosen: the rows that the statistic was computed from, (n,); None for all of them.
        """
        used = np.ones(len(rows), dtype=np.bool_) if chosen is None else chosen
        return _combined([part.mean_spread(rows, errors, used) for part in self.parts])

    def mean_interval(
        self,
        mean: float,
        rows: pd.DataFrame,
        errors: FloatArray,
        chosen: BoolArray | None = None,
        bounds: intervals.Bounds | None = None,
    ) -> intervals.ConfidenceInterval:
        """Student's interval of a statistic with `mean_spread`; `bounds` as for `interval`."""
        spread = self.mean_spread(rows, errors, chosen)
        return self._interval(mean, spread, "clustered", rows, chosen, bounds, np.zeros(0))

    def _interval(
        self,
        estimate: float,
        spread: intervals.Spread,
        kind: Literal["bootstrap", "clustered"],
        rows: pd.DataFrame | None,
        chosen: BoolArray | None,
        bounds: intervals.Bounds | None,
        resampled: FloatArray,
    ) -> intervals.ConfidenceInterval:
        sizes = [part.sizes_of(rows, chosen) for part in self.parts]
        return intervals.student_interval(
            estimate,
            resampled,
            spread,
            method=f"Student's t, {'two-way ' if len(self.parts) > 1 else ''}{kind} variance",
            unit=self.unit.replace("-", " x "),
            n_clusters=min(map(len, sizes)),
            n_effective=min(map(intervals.effective_number, sizes)),
            seed=self.seed,
            bounds=bounds,
        )

    def undefined_interval(self, rows: pd.DataFrame) -> intervals.ConfidenceInterval:
        """The interval of a statistic that is undefined in every resample of these rows."""
        return self.interval(np.full(self.length, np.nan), rows)


def sizes_of_rows(rows: pd.DataFrame, clusters: Clusters | Groups | None) -> intervals.IntArray:
    """The number of rows in each cluster; rows are clusters of their own if that is None."""
    return np.ones(len(rows), dtype=np.int64) if clusters is None else clusters.sizes_of(rows)


def ratio(numerator: FloatArray, denominator: FloatArray | NDArray[np.int64]) -> FloatArray:
    """Divide arrays of equal shape; NaN where the denominator is 0."""
    quotient: FloatArray = np.divide(
        numerator, denominator, out=np.full(denominator.shape, np.nan), where=denominator > 0
    )
    return quotient


def errors_of_mean(values: FloatArray | BoolArray, counted: FloatArray | BoolArray) -> FloatArray:
    """Each row's contribution to the error of the mean of the counted values, (n,); they sum to 0.

    `values` are 0 where they are not counted. NaN if none is.
    """
    n = float(counted.sum())
    mean = float(values.sum()) / n if n else UNDEFINED
    errors = np.asarray((values - mean * counted) / (n or UNDEFINED), dtype=np.float64)
    return np.where(np.abs(errors) > intervals.ROUNDING / max(1.0, n), errors, 0.0)


def indicator_matrix(codes: NDArray[np.intp], size: int) -> sparse.csr_array:
    """One column for each of `size` codes, 1 in the rows that have it: (n,) -> (n, size)."""
    n = len(codes)
    return sparse.csr_array((np.ones(n), codes, np.arange(n + 1)), shape=(n, size))


def _clusters(
    unit: Unit, rows: pd.DataFrame, triplets: pd.Series[str] | None
) -> tuple[Clusters | Groups | None, ...]:
    """The resampled units, one for each part."""
    if unit == "row":
        return (None,)
    people = Clusters.of_column(rows, "participant_id")
    if unit == "participant":
        return (_alone(people),)
    of_triplets = Clusters.of_column(rows, "query_id", triplets)
    if unit == "triplet":
        return (_alone(of_triplets),)
    pairs = Pairs.of_rows(rows, people, of_triplets)
    return (
        people,
        Groups.of_clusters(of_triplets, 0, MOST_GROUPS),
        Groups.of_clusters(pairs, 1, MOST_GROUPS),
    )


def _alone(clusters: Clusters) -> Clusters | Groups:
    few = clusters.size <= MOST_ALONE
    return clusters if few else Groups.of_clusters(clusters, 0, MOST_ALONE)


def _combined(spreads: Sequence[intervals.Spread]) -> intervals.Spread:
    """The spread of a statistic from its spreads over the parts."""
    if len(spreads) == 1:
        return spreads[0]
    participants, triplets, pairs = spreads
    return intervals.two_way_spread(participants, triplets, pairs.variance)


def _variance(resampled: FloatArray) -> float:
    """The variance of the defined values of (n,) resamples; NaN if there is none."""
    defined = resampled[~np.isnan(resampled)]
    return float(defined.var()) if len(defined) else np.nan


def _draw_counts(rng: np.random.Generator, n: int, size: int) -> FloatArray:
    """Draw `size` of `size` clusters with replacement, n times: (n, size) counts."""
    if size == 0:
        return np.zeros((n, 0))
    drawn = rng.integers(size, size=(n, size))
    drawn += np.arange(n)[:, None] * size
    counts = np.bincount(drawn.ravel(), minlength=n * size)
    return counts.reshape(n, size).astype(np.float64)


# An estimate with its confidence interval and number of rows.


@dataclass(frozen=True)
class Estimate(JsonRecord):
    """An estimate from n rows, NaN with a reason if undefined; no `ci` if nothing is resampled."""

    value: float
    n: int
    ci: intervals.ConfidenceInterval | None = None
    reason: str | None = None


def group_means(
    rows: pd.DataFrame,
    values: FloatArray,
    groups: NDArray[Any] | pd.Series[Any],
    names: Sequence[Hashable],
    bootstrap: Bootstrap,
    bounds: intervals.Bounds | None,
) -> dict[Any, Estimate]:
    """Average (n,) finite values by the group of each row.

    `bounds` is the range of the values, None if they have none: intervals stay within it.

    The mean of a name without rows is NaN, with a reason; rows of other groups are left out.
    """
    numbers = pd.Series(range(len(names)), index=pd.Index(list(names)))
    group = looked_up(pd.Series(groups), numbers).fillna(-1).to_numpy(dtype=np.intp)
    means = {}
    for number, name in enumerate(names):
        own = group == number
        if own.any():
            mean = float(values[own].mean())
            errors = errors_of_mean(values * own, own)
            ci = bootstrap.mean_interval(mean, rows, errors, own, bounds)
            means[name] = Estimate(mean, int(own.sum()), ci)
        else:
            means[name] = Estimate(UNDEFINED, 0, None, "no value to average")
    return means
