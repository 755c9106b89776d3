"""Clusters of rows: the answers of a participant, those about a triplet, or those of both."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hsfiq.analysis.arrays import BoolArray
from hsfiq.analysis.data.ids import looked_up
from hsfiq.analysis.data.shared_triplets import triplets_of
from hsfiq.analysis.errors import AnalysisError


class LastCodes:
    """Remembers the codes of the rows that were asked for last: several figures use the same."""

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

        An id that `cluster_of` lacks is a cluster of its own, and so is every id if it is None.
        """
        ids = rows[column].drop_duplicates()
        names = ids if cluster_of is None else triplets_of(ids, cluster_of)
        codes, distinct = pd.factorize(names, sort=True)
        return cls(column, pd.Series(codes, index=pd.Index(ids)), len(distinct))

    @property
    def n(self) -> int:
        """The number of clusters; `size` is how many units of them are resampled."""
        return self.size

    def codes_of(self, rows: pd.DataFrame) -> NDArray[np.intp]:
        """The cluster number of each row; AnalysisError if an id is in none of the clusters."""
        return self._last.of(rows, self._codes_of)

    def _codes_of(self, rows: pd.DataFrame) -> NDArray[np.intp]:
        numbers = looked_up(rows[self.column], self.numbers)
        if numbers.isna().any():
            unknown = rows[self.column].iloc[int(numbers.isna().to_numpy().argmax())]
            raise AnalysisError(
                self.column,
                f"{unknown} is in none of the clusters",
                "make the bootstrap from this release",
            )
        return numbers.to_numpy(dtype=np.intp)

    def n_of(self, rows: pd.DataFrame, chosen: BoolArray | None = None) -> int:
        """The number of clusters that some rows come from; `chosen` takes some of them."""
        return count_distinct(self.codes_of(rows), chosen)


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

    def n_of(self, rows: pd.DataFrame, chosen: BoolArray | None = None) -> int:
        return count_distinct(self.codes_of(rows), chosen)

    def _numbers(self, rows: pd.DataFrame) -> NDArray[np.intp]:
        return self.participants.codes_of(rows) * self.triplets.size + self.triplets.codes_of(rows)


@dataclass(frozen=True, eq=False)
class Groups:
    """Clusters in random groups, which are resampled in their place.

    Attributes:
        size: the number of groups.
        group: (clusters.size,) the group of each cluster.
    """

    clusters: Clusters | Pairs
    size: int
    group: NDArray[np.intp] = field(repr=False)

    @classmethod
    def of_clusters(cls, clusters: Clusters | Pairs, seed: int, most: int) -> Groups:
        """At most so many groups, with sizes that differ by at most one cluster."""
        size = min(most, clusters.size)
        order = np.random.default_rng(seed).permutation(clusters.size)
        return cls(clusters, size, order % max(1, size))

    @property
    def n(self) -> int:
        return self.clusters.n

    def codes_of(self, rows: pd.DataFrame) -> NDArray[np.intp]:
        """The group number of each row."""
        return self.group[self.clusters.codes_of(rows)]

    def n_of(self, rows: pd.DataFrame, chosen: BoolArray | None = None) -> int:
        return self.clusters.n_of(rows, chosen)


def count_distinct(codes: NDArray[np.intp], chosen: BoolArray | None) -> int:
    """How many different (n,) codes from 0 there are among those chosen."""
    everything = slice(None) if chosen is None else chosen
    return int(np.count_nonzero(np.bincount(codes[everything])))
