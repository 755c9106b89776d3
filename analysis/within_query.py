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

from hsfiq.analysis.data.ids import looked_up
from hsfiq.analysis.data.metrics import MetricValues
from hsfiq.analysis.data.release import Release
from hsfiq.analysis.json_values import UNDEFINED, JsonRecord
from hsfiq.analysis.resampling.bootstrap import Bootstrap
from hsfiq.analysis.resampling.estimate import Estimate
from hsfiq.analysis.resampling.permutation import GroupedTest, Swaps, grouped_test, holm, p_value
from hsfiq.analysis.statistics.agreement import set_units

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
        p: by exchanging the metrics for whole clusters, as intervals resample them.
        cells: the test that exchanges single sets (PERM-BOTH); undefined if the groups differ in
            size or are too many.
        reason: why p is NaN.
    """

    metric: str
    other: str
    difference: Estimate
    p: float
    p_holm: float
    cells: GroupedTest
    reason: str | None = None


@dataclass(frozen=True)
class WithinQuery(JsonRecord):
    """All metrics, and every two of them; `unit` is what is resampled and exchanged."""

    metrics: Mapping[str, WithinQueryCorrelation] = field(default_factory=dict)
    differences: Sequence[WithinQueryDifference] = ()
    unit: str = "participant"


def within_query(
    release: Release, values: MetricValues, bootstrap: Bootstrap, swaps: Swaps | None = None
) -> WithinQuery:
    """Correlate every metric with people within queries, and compare every two.

    If one participant judged all sets of each query, intervals resample what `bootstrap` does and
    participants are exchanged; else both are done with whole triplets. By default there are 9,999
    permutations, with the seed of `bootstrap`.
    """
    items = different_sets(release, values)
    swaps = swaps or Swaps(seed=bootstrap.seed)
    if (items["n_judges"] > 1).any():
        bootstrap = bootstrap.for_release(release, unit="triplet")
        items["cluster"] = looked_up(items["query_id"], release.triplets)
    else:
        items["cluster"] = items["participant_id"]
    differences = [
        _difference(items, metric, other, bootstrap, swaps)
        for metric, other in combinations(values, 2)
    ]
    adjusted = holm(np.array([each.p for each in differences], dtype=np.float64))
    return WithinQuery(
        {metric: _correlation(items, metric, bootstrap) for metric in values},
        [replace(each, p_holm=float(p)) for each, p in zip(differences, adjusted, strict=True)],
        bootstrap.unit,
    )


def different_sets(release: Release, values: MetricValues) -> pd.DataFrame:
    """The different sets of each query: mean score, `n_judges` of the query, metrics by name."""
    sets = release.sets
    table = sets[["query_id", "participant_id", "score"]].assign(
        unit=set_units(sets, release.triplets).to_numpy(),
        **{name: looked_up(sets["set_id"], own).astype("float64") for name, own in values.items()},
    )
    by_set = table.groupby(["query_id", "unit"], sort=False)
    items = by_set.agg(
        {"participant_id": "first", "score": "mean", **dict.fromkeys(values, "first")}
    ).reset_index()
    judges = table.groupby("query_id")["participant_id"].nunique()
    return items.assign(n_judges=looked_up(items["query_id"], judges))


def correlations(items: pd.DataFrame, metric: str) -> tuple[pd.Series[float], pd.Series[float]]:
    """Spearman's rho and Kendall's tau-b of each query with two or more sets, NaN if undefined.

    Both are indexed by query_id; sets without a value are left out.
    """
    present = items[items[metric].notna()]
    sizes = present.groupby("query_id")["unit"].transform("size")
    present = present[sizes >= 2]
    queries = present["query_id"]
    scores, values = (present.groupby("query_id")[name].rank() for name in ("score", metric))
    return _pearson(queries, scores, values), _kendall(queries, scores, values)


def _pearson(
    queries: pd.Series[str], scores: pd.Series[float], values: pd.Series[float]
) -> pd.Series[float]:
    x = scores - scores.groupby(queries).transform("mean")
    y = values - values.groupby(queries).transform("mean")
    return _ratio(queries, x, y)


def _kendall(
    queries: pd.Series[str], scores: pd.Series[float], values: pd.Series[float]
) -> pd.Series[float]:
    """From the signs of all ordered pairs of sets of a query."""
    table = pd.DataFrame({"query": queries, "x": scores, "y": values})
    pairs = table.merge(table, on="query")
    x, y = ((pairs[f"{name}_x"] - pairs[f"{name}_y"]).apply(np.sign) for name in ("x", "y"))
    return _ratio(pairs["query"], x, y)


def _ratio(queries: pd.Series[str], x: pd.Series[float], y: pd.Series[float]) -> pd.Series[float]:
    """The sum of x y of each query over the root of those of x^2 and y^2; NaN if one is 0."""
    products = pd.DataFrame({"xy": x * y, "xx": x * x, "yy": y * y})
    sums = products.groupby(queries, sort=False).sum()
    spread = sums["xx"] * sums["yy"]
    return sums["xy"] / spread.where(spread > 0).pow(0.5)


def _correlation(items: pd.DataFrame, metric: str, bootstrap: Bootstrap) -> WithinQueryCorrelation:
    spearman, kendall = correlations(items, metric)
    sizes = items[items[metric].notna()].groupby("query_id").size()
    sizes = sizes[sizes >= 2]
    return WithinQueryCorrelation(
        _mean(items, spearman, bootstrap),
        _mean(items, kendall, bootstrap),
        len(sizes),
        float(sizes.mean()) if len(sizes) else UNDEFINED,
        None if len(sizes) else NO_GROUP,
    )


def _mean(items: pd.DataFrame, by_query: pd.Series[float], bootstrap: Bootstrap) -> Estimate:
    defined = by_query.dropna()
    if defined.empty:
        return Estimate(UNDEFINED, 0, None, NO_CORRELATION if len(by_query) else NO_GROUP)
    rows = _first_rows(items, defined)
    values = np.asarray(defined, dtype=np.float64)[:, None]
    resampled = bootstrap.ratios(rows, values, np.ones_like(values))[:, 0]
    return Estimate(float(values.mean()), len(values), bootstrap.interval(resampled, rows))


def _first_rows(items: pd.DataFrame, by_query: pd.Series[float]) -> pd.DataFrame:
    """One row of each of these queries, in their order."""
    firsts = items.drop_duplicates("query_id").set_index("query_id", drop=False)
    return firsts.loc[by_query.index].reset_index(drop=True)


def _difference(
    items: pd.DataFrame, metric: str, other: str, bootstrap: Bootstrap, swaps: Swaps
) -> WithinQueryDifference:
    both = items[items[metric].notna() & items[other].notna()]
    gaps = correlations(both, metric)[0] - correlations(both, other)[0]
    p, defined = UNDEFINED, gaps.dropna()
    difference = _mean(items, gaps, bootstrap)
    reason = difference.reason
    if len(defined):
        clusters = pd.factorize(_first_rows(items, defined)["cluster"])[0]
        sums = np.bincount(clusters, weights=defined.to_numpy()) / len(defined)
        if len(sums) > 1:
            permuted = [
                sums.sum() - 2 * (block.astype(np.float64) @ sums)
                for block in swaps.masks(len(sums))
            ]
            p = p_value(float(sums.sum()), np.concatenate(permuted))
        else:
            reason = "one cluster alone gives no test"
    return WithinQueryDifference(
        metric, other, difference, p, p, _exchange_cells(both, metric, other, swaps), reason
    )


def _exchange_cells(items: pd.DataFrame, metric: str, other: str, swaps: Swaps) -> GroupedTest:
    sizes = items.groupby("query_id", sort=False)["unit"].transform("size")
    present = items[sizes >= 2].sort_values("query_id", kind="stable")
    undefined = GroupedTest(UNDEFINED, UNDEFINED, 0, swaps.n, swaps.seed)
    if present.empty:
        return replace(undefined, reason=NO_GROUP)
    if sizes[sizes >= 2].nunique() > 1:
        return replace(undefined, reason="the queries have different numbers of sets")
    if len(present) > MOST_CELLS:
        return replace(undefined, reason=f"more than {MOST_CELLS:,} sets")
    width = int(sizes.max())
    scores, first, second = (
        present[name].to_numpy(np.float64).reshape(-1, width) for name in ("score", metric, other)
    )
    return grouped_test(scores, first, second, swaps)
