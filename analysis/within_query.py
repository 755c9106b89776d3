"""The rank correlation of a metric with people within queries, averaged over the queries.

Pooling the sets of all queries asks, too, whether a metric knows which queries are easy. Within a
query only the choice between its sets counts (the grouped level of Deutsch et al. 2021). A group
is a query with two or more different sets; a set's human score is the mean over those who judged
it. Groups in which all scores or all values are equal have no correlation and do not count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hsfiq.analysis.arrays import BoolArray, FloatArray
from hsfiq.analysis.data.ids import looked_up
from hsfiq.analysis.data.metrics import MetricValues
from hsfiq.analysis.data.release import Release
from hsfiq.analysis.json_values import UNDEFINED, JsonRecord
from hsfiq.analysis.resampling.bootstrap import Bootstrap
from hsfiq.analysis.resampling.estimate import Estimate
from hsfiq.analysis.resampling.permutation import GroupedTest, Swaps, grouped_test
from hsfiq.analysis.resampling.ranks import value_numbers
from hsfiq.analysis.resampling.spread import CORRELATION
from hsfiq.analysis.statistics.difference import (
    Difference,
    adjusted,
    swapped_units,
    tested_difference,
    undefined_difference,
)

NO_GROUP = "no query has two different sets with values"
NO_CORRELATION = "in every query the scores or the values are all equal"
MOST_CELLS = 20_000
"""More sets are not exchanged one by one: 9,999 times that many take too long."""


@dataclass(frozen=True)
class WithinQueryCorrelation(JsonRecord):
    """The mean correlations of a metric; their n is the number of groups that have one.

    Attributes:
        n_groups: the queries with two or more different sets that have values.
        mean_sets: the mean number of sets of these queries.
    """

    spearman: Estimate
    kendall: Estimate
    n_groups: int
    mean_sets: float
    reason: str | None = None


@dataclass(frozen=True)
class WithinQueryDifference(JsonRecord):
    """The mean of Spearman's rho of a metric less that of another, on the same groups.

    Attributes:
        spearman: tested as all comparisons of metrics are; its n is the number of groups.
        cells: the test that exchanges single sets (PERM-BOTH); undefined if the groups differ in
            size or are too many.
    """

    metric: str
    other: str
    spearman: Difference
    cells: GroupedTest


@dataclass(frozen=True)
class WithinQuery(JsonRecord):
    """All metrics, and every two of them; `unit` is what is resampled and exchanged."""

    metrics: Mapping[str, WithinQueryCorrelation] = field(default_factory=dict)
    differences: Sequence[WithinQueryDifference] = ()
    unit: str = "participant"


@dataclass(frozen=True, eq=False)
class Groups:
    """The different sets of each query, which are one group.

    Attributes:
        query: (n_sets,) the number of each set's query, from 0.
        score: (n_sets,) its mean human score.
        values: (n_sets,) each metric, NaN where it has none.
        rows: (n_queries, ...) `query_id` and `participant_id` of each query.
        most_judges: the largest number of people who judged a query.
    """

    query: NDArray[np.intp]
    score: FloatArray
    values: Mapping[str, FloatArray]
    rows: pd.DataFrame
    most_judges: int
    cache: dict[tuple[str, bytes], tuple[FloatArray, FloatArray]] = field(default_factory=dict)

    @classmethod
    def of_release(cls, release: Release, values: MetricValues) -> Groups:
        sets = release.sets
        query = pd.factorize(sets["query_id"])[0]
        person = pd.factorize(sets["participant_id"])[0]
        shown = value_numbers(release.units.to_numpy())
        item = pd.factorize(query * (shown.max(initial=0) + 1) + shown)[0]
        judges = np.unique(query * (person.max(initial=0) + 1) + person)
        n_judges = np.bincount(judges // (person.max(initial=0) + 1))
        return cls(
            query=query[_firsts(item)],
            score=np.bincount(item, sets["score"]) / np.bincount(item),
            values={
                name: _first_defined(item, looked_up(sets["set_id"], own).to_numpy(np.float64))
                for name, own in values.items()
            },
            rows=sets[["query_id", "participant_id"]].iloc[_firsts(query)].reset_index(drop=True),
            most_judges=int(n_judges.max(initial=0)),
        )

    def sizes(self, *metrics: str) -> NDArray[np.intp]:
        """How many sets of each query have values of all these metrics, (n_queries,)."""
        return np.bincount(self.query[self._present(*metrics)], minlength=len(self.rows))

    def correlations(self, metric: str, *others: str) -> tuple[FloatArray, FloatArray]:
        """Spearman's rho and Kendall's tau-b of each query, (n_queries,), NaN where undefined.

        Over the sets that have values of the other metrics too.
        """
        present = self._present(metric, *others)
        key = (metric, present.tobytes())
        if key not in self.cache:
            query = self.query[present]
            score, value = (each[present] for each in (self.score, self.values[metric]))
            self.cache[key] = (
                _correlated(query, _ranks(query, score), _ranks(query, value), len(self.rows)),
                _kendall(query, score, value, len(self.rows)),
            )
        return self.cache[key]

    def _present(self, *metrics: str) -> BoolArray:
        return ~np.isnan(sum(self.values[name] for name in metrics))


def within_query(
    release: Release, values: MetricValues, bootstrap: Bootstrap, swaps: Swaps | None = None
) -> WithinQuery:
    """Correlate every metric with people within queries, and compare every two.

    `bootstrap` is resampled if one participant judged all sets of each query; else a query belongs
    to no participant, and whole triplets are. By default there are 9,999 permutations, with the
    seed of `bootstrap`.
    """
    groups = Groups.of_release(release, values)
    swaps = swaps or Swaps(seed=bootstrap.seed)
    if groups.most_judges > 1:
        bootstrap = bootstrap.for_release(release, unit="triplet")
    pairs = list(combinations(values, 2))
    tests = adjusted([_difference(groups, *pair, bootstrap, swaps) for pair in pairs])
    return WithinQuery(
        {metric: _correlation(groups, metric, bootstrap) for metric in values},
        [
            WithinQueryDifference(*pair, test, _exchange_cells(groups, *pair, swaps))
            for pair, test in zip(pairs, tests, strict=True)
        ],
        bootstrap.unit,
    )


def _firsts(numbers: NDArray[np.intp]) -> NDArray[np.intp]:
    """Where each number from 0 occurs first."""
    return np.unique(numbers, return_index=True)[1]


def _first_defined(item: NDArray[np.intp], values: FloatArray) -> FloatArray:
    """The first value of each item that is not NaN; NaN if there is none."""
    first = np.full(int(item.max(initial=-1)) + 1, np.nan)
    defined = np.flatnonzero(~np.isnan(values))[::-1]
    first[item[defined]] = values[defined]
    return first


def _ranks(query: NDArray[np.intp], values: FloatArray) -> FloatArray:
    """The mid-rank of each value within its query less their mean."""
    ranks = pd.Series(values).groupby(query).rank().to_numpy(np.float64)
    return np.asarray(ranks - (np.bincount(query)[query] + 1) / 2)


def _kendall(
    query: NDArray[np.intp], score: FloatArray, value: FloatArray, n_queries: int
) -> FloatArray:
    """From the signs of all pairs of sets of a query."""
    order = np.argsort(query, kind="stable")
    query, score, value = query[order], score[order], value[order]
    signs: list[tuple[NDArray[np.intp], FloatArray, FloatArray]] = []
    for distance in range(1, int(np.bincount(query).max(initial=0))):
        same = query[distance:] == query[:-distance]
        x, y = (np.sign(each[distance:] - each[:-distance])[same] for each in (score, value))
        signs.append((query[distance:][same], x, y))
    if not signs:
        return np.full(n_queries, np.nan)
    of_pairs, x, y = (np.concatenate(each) for each in zip(*signs, strict=True))
    return _correlated(of_pairs, x, y, n_queries)


def _correlated(
    query: NDArray[np.intp], x: FloatArray, y: FloatArray, n_queries: int
) -> FloatArray:
    """The sum of x y of each query over the root of those of x^2 and y^2; NaN if one is 0."""
    xy, xx, yy = (np.bincount(query, each, n_queries) for each in (x * y, x * x, y * y))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(xx * yy > 0, xy / np.sqrt(xx * yy), np.nan)


def _correlation(groups: Groups, metric: str, bootstrap: Bootstrap) -> WithinQueryCorrelation:
    spearman, kendall = groups.correlations(metric)
    sizes = groups.sizes(metric)
    sizes = sizes[sizes >= 2]
    return WithinQueryCorrelation(
        _mean(groups, spearman, len(sizes), bootstrap),
        _mean(groups, kendall, len(sizes), bootstrap),
        len(sizes),
        float(sizes.mean()) if len(sizes) else UNDEFINED,
        None if len(sizes) else NO_GROUP,
    )


def _mean(groups: Groups, by_query: FloatArray, n_groups: int, bootstrap: Bootstrap) -> Estimate:
    defined = ~np.isnan(by_query)
    if not defined.any():
        return Estimate(UNDEFINED, 0, None, NO_CORRELATION if n_groups else NO_GROUP)
    rows, values = groups.rows[defined], by_query[defined][:, None]
    resampled = bootstrap.ratios(rows, values, np.ones_like(values))[:, 0]
    return Estimate(
        float(values.mean()), len(values), bootstrap.interval(resampled, rows, bounds=CORRELATION)
    )


def _difference(
    groups: Groups, metric: str, other: str, bootstrap: Bootstrap, swaps: Swaps
) -> Difference:
    gaps = groups.correlations(metric, other)[0] - groups.correlations(other, metric)[0]
    defined = ~np.isnan(gaps)
    rows, values = groups.rows[defined], gaps[defined]
    if not defined.any():
        has_group = (groups.sizes(metric, other) >= 2).any()
        reason = NO_CORRELATION if has_group else NO_GROUP
        return undefined_difference(bootstrap, rows, reason)

    def permuted() -> FloatArray:
        sums = np.bincount(swapped_units(bootstrap, rows), values) / len(values)
        blocks = swaps.masks(len(sums))
        return np.concatenate(
            [sums.sum() - 2 * (block.astype(np.float64) @ sums) for block in blocks]
        )

    resampled = bootstrap.ratios(rows, values[:, None], np.ones((len(values), 1)))[:, 0]
    return tested_difference(bootstrap, rows, resampled, permuted, swaps)


def _exchange_cells(groups: Groups, metric: str, other: str, swaps: Swaps) -> GroupedTest:
    sizes = groups.sizes(metric, other)
    undefined = GroupedTest(UNDEFINED, UNDEFINED, 0, swaps.n, swaps.seed)
    width = int(sizes.max(initial=0))
    if width < 2:
        return replace(undefined, reason=NO_GROUP)
    if len(np.unique(sizes[sizes >= 2])) > 1:
        return replace(undefined, reason="the queries have different numbers of sets")
    if width * (sizes >= 2).sum() > MOST_CELLS:
        return replace(undefined, reason=f"more than {MOST_CELLS:,} sets")
    first, second = groups.values[metric], groups.values[other]
    (kept,) = np.nonzero(~np.isnan(first + second) & (sizes >= 2)[groups.query])
    by_query = kept[np.argsort(groups.query[kept], kind="stable")].reshape(-1, width)
    return grouped_test(groups.score[by_query], first[by_query], second[by_query], swaps)
