"""Spearman's rank correlation of a metric with the human scores: pooled, and within participants.

Pooled over all sets, as in CIRQRS section 5.2, a rho mixes two effects: one person's higher
scores go with higher values, and generous people may have seen better sets. Within participants
only the first remains.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import combinations
from math import atanh, isnan, sqrt, tanh

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse, stats

from hsfiq.analysis.data.columns import looked_up
from hsfiq.analysis.data.metrics import MetricValues
from hsfiq.analysis.data.release import Release
from hsfiq.analysis.json_results import (
    UNDEFINED,
    BoolArray,
    FloatArray,
    JsonRecord,
    json_number,
    with_reason,
)
from hsfiq.analysis.resampling import intervals
from hsfiq.analysis.resampling.bootstrap import (
    Bootstrap,
    Estimate,
    errors_of_mean,
    indicator_matrix,
    ratio,
)
from hsfiq.analysis.resampling.permutation import (
    Difference,
    GroupedTest,
    Swaps,
    adjusted,
    grouped_test,
    swapped_units,
    tested_difference,
    undefined_difference,
)
from hsfiq.analysis.resampling.ranks import rank_correlation, value_numbers
from hsfiq.analysis.resampling.spearman import resampled_spearman

MIN_SETS = 3  # the p-value has n - 2 degrees of freedom


@dataclass(frozen=True)
class Correlation(JsonRecord):
    """Spearman's rho, all sets pooled.

    Attributes:
        p: two-sided, from Student's t, as if the sets were independent.
        p_clustered: the same with the variance by which the clustered interval is computed; NaN
            without a bootstrap, for one cluster, or if all resamples give the same rho.
        n: the number of sets with both a score and a value of the metric.
        n_clusters: the number of participants that they come from.
        ci: the clustered interval; None without a bootstrap.
        independent_ci: for contrast, the analytic interval as if the sets were independent.
    """

    rho: float
    p: float
    n: int
    n_clusters: int
    reason: str | None = None
    ci: intervals.ConfidenceInterval | None = None
    independent_ci: tuple[float, float] = (UNDEFINED, UNDEFINED)
    p_clustered: float = UNDEFINED

    def to_json(self) -> dict[str, object]:
        fields = super().to_json()
        if "reason" not in fields and self.ci is not None and isnan(self.p_clustered):
            fields["reason"] = intervals.NO_SPREAD
        return fields


def spearman(
    sets: pd.DataFrame, values: pd.Series[float], bootstrap: Bootstrap | None = None
) -> Correlation:
    """Correlate a metric, indexed by set_id, with the human scores over all sets without NaN.

    The sets have `set_id`, `score`, `participant_id` and, for the bootstrap, `query_id`. rho and p
    are NaN, with a reason, for fewer than 3 sets or if a variable is constant.
    """
    table = with_values(sets, values)
    n, n_clusters = len(table), int(table["participant_id"].nunique())
    x, y = _variables(table)
    reason = why_undefined(x, y)
    ci, p_clustered = None, UNDEFINED
    if bootstrap is not None:
        resampled = resampled_spearman(bootstrap, table, x, y)
        ci = bootstrap.interval(resampled, table, bounds=intervals.CORRELATION)
        p_clustered = bootstrap.p(resampled, table)
    if reason is not None:
        return Correlation(UNDEFINED, UNDEFINED, n, n_clusters, reason, ci)
    rho = rank_correlation(value_numbers(x), value_numbers(y))
    p = independent_p(rho, n)
    return Correlation(rho, p, n, n_clusters, None, ci, bonett_wright(rho, n), p_clustered)


def with_values(sets: pd.DataFrame, values: pd.Series[float]) -> pd.DataFrame:
    """The sets that have a value of the metric, with it as column `value`."""
    of_sets = looked_up(sets["set_id"], values)
    is_known = of_sets.notna().to_numpy()
    table = sets.assign(value=of_sets)
    return table if is_known.all() else table[is_known]


def _variables(table: pd.DataFrame) -> tuple[FloatArray, FloatArray]:
    return table["value"].to_numpy(dtype=np.float64), table["score"].to_numpy(dtype=np.float64)


def why_undefined(values: FloatArray, scores: FloatArray) -> str | None:
    """Explain why two variables (n,) have no correlation; None if they have one."""
    if len(values) < MIN_SETS:
        return f"n = {len(values)}: the correlation needs {MIN_SETS} sets"
    if np.ptp(values) == 0:
        return "the metric has the same value for every set"
    if np.ptp(scores) == 0:
        return "every set has the same human score"
    return None


def independent_p(rho: float, n: int) -> float:
    """Two-sided, of rho = 0 for n >= 3 independent rows: Student's t with n - 2 degrees of freedom.

    As scipy's `spearmanr` computes it.
    """
    if abs(rho) >= 1:
        return 0.0
    return float(2 * stats.t.sf(abs(rho) * sqrt((n - 2) / (1 - rho**2)), n - 2))


def bonett_wright(rho: float, n: int) -> tuple[float, float]:
    """The interval of Spearman's rho of n >= 3 independent rows (Bonett and Wright 2000).

    atanh(rho) -+ z sqrt((1 + rho^2 / 2) / (n - 3)); for n = 3 it is all of [-1, 1].
    """
    if n <= MIN_SETS:
        return (-1.0, 1.0)
    if abs(rho) >= 1:
        return (rho, rho)
    half = float(stats.norm.ppf((1 + intervals.LEVEL) / 2)) * sqrt((1 + rho**2 / 2) / (n - 3))
    return (tanh(atanh(rho) - half), tanh(atanh(rho) + half))


@dataclass(frozen=True)
class WithinParticipant(JsonRecord):
    """Spearman's rho within participants, computed in two ways.

    Attributes:
        mean: the mean of the participants' own rhos, over those who have one.
        n_participants: the number of participants who have one.
        mean_ci: its interval, always by resampling participants; None without a bootstrap.
        centred: rho of the metric and the human scores less their participant's mean, pooled.
        n: the number of sets that it comes from.
        centred_ci: its interval, with the means held fixed; None without a bootstrap.
    """

    mean: float
    n_participants: int
    mean_ci: intervals.ConfidenceInterval | None
    mean_reason: str | None
    centred: float
    n: int
    centred_ci: intervals.ConfidenceInterval | None
    centred_reason: str | None

    def to_json(self) -> dict[str, object]:
        mean = {"rho": json_number(self.mean), "n_participants": self.n_participants}
        centred = {"rho": json_number(self.centred), "n": self.n}
        return {
            "mean": intervals.with_interval(mean, self.mean_ci, self.mean_reason),
            "centred": intervals.with_interval(centred, self.centred_ci, self.centred_reason),
        }


def within_participant(
    sets: pd.DataFrame, values: pd.Series[float], bootstrap: Bootstrap | None = None
) -> WithinParticipant:
    """Correlate a metric with the human scores within participants; arguments as for `spearman`.

    Returns:
        Both coefficients; NaN, with a reason, if no participant has a rho of their own (3 sets,
        neither variable constant), or if the pooled one is undefined.
    """
    table = with_values(sets, values)
    rhos = participant_rhos(table)
    scores = table["score"] - table.groupby("participant_id")["score"].transform("mean")
    centred = table.assign(score=scores)
    x, y = _variables(centred)
    reason = why_undefined(x, y)
    mean_ci = centred_ci = None
    if bootstrap is not None:
        mean_ci = _mean_interval(rhos, sets, bootstrap)
        centred_ci = bootstrap.interval(
            resampled_spearman(bootstrap, centred, x, y), centred, bounds=intervals.CORRELATION
        )
    no_rhos = f"no participant has {MIN_SETS} sets with neither side constant"
    return WithinParticipant(
        mean=float(rhos.mean()) if len(rhos) else UNDEFINED,
        n_participants=len(rhos),
        mean_ci=mean_ci,
        mean_reason=None if len(rhos) else no_rhos,
        centred=UNDEFINED if reason else rank_correlation(value_numbers(x), value_numbers(y)),
        n=len(table),
        centred_ci=centred_ci,
        centred_reason=reason,
    )


def participant_rhos(table: pd.DataFrame) -> pd.Series[float]:
    """Each participant's own Spearman's rho of `value` and `score`, indexed by participant_id.

    Only of those with 3 sets and neither variable constant.
    """
    people = table["participant_id"]
    ranks = table.groupby("participant_id")[["value", "score"]].rank()
    ranks -= ranks.groupby(people).transform("mean")
    x, y = ranks["value"], ranks["score"]
    products = pd.DataFrame({"xy": x * y, "xx": x**2, "yy": y**2}).groupby(people)
    sums = products.sum()[products.size() >= MIN_SETS]
    sums = sums[(sums["xx"] > 0) & (sums["yy"] > 0)]
    return sums["xy"] / np.sqrt(sums["xx"] * sums["yy"])


def _mean_interval(
    rhos: pd.Series[float], sets: pd.DataFrame, bootstrap: Bootstrap
) -> intervals.ConfidenceInterval:
    if bootstrap.unit != "participant":
        bootstrap = Bootstrap.of_rows(
            sets,
            unit="participant",
            n_resamples=bootstrap.n_resamples,
            seed=bootstrap.seed,
        )
    rows = pd.DataFrame({"participant_id": rhos.index})
    errors = errors_of_mean(np.asarray(rhos, dtype=np.float64), np.ones(len(rhos)))
    return bootstrap.mean_interval(float(rhos.mean()), rows, errors, bounds=intervals.CORRELATION)


# Normality of one variable: Shapiro-Wilk, as in the papers, and a second test for large N.
#
# Scores with a few levels are never normal; the test is reported because the papers report it, and
# correlation is by ranks whatever its result.

SHAPIRO_MAX = 5_000
"""Beyond this N scipy's p of Shapiro-Wilk (Royston 1995, AS R94) is an extrapolation."""

SHAPIRO_MIN = 3
ROUNDING = 1e-13  # relative to the largest value: smaller differences are rounding errors
MIN_RANGE = 1e-19  # AS R94 treats any narrower range as zero


@dataclass(frozen=True)
class SecondTest:
    """D'Agostino and Pearson's K2 (1973), made for large N."""

    statistic: float
    p: float
    test: str = "D'Agostino-Pearson K2"


@dataclass(frozen=True)
class Normality(JsonRecord):
    """Shapiro-Wilk (1965); p is approximate beyond 5,000 values, which get the second test too."""

    w: float
    p: float
    n: int
    second: SecondTest | None = None
    reason: str | None = None

    @property
    def approximate(self) -> bool:
        return self.second is not None

    def to_json(self) -> dict[str, object]:
        fields: dict[str, object] = {
            "W": json_number(self.w),
            "p": json_number(self.p),
            "n": self.n,
        }
        if self.second is not None:
            fields["approximate"] = True
            fields["note"] = f"p of Shapiro-Wilk is approximate beyond N = {SHAPIRO_MAX:,}"
            fields["second"] = {
                "test": self.second.test,
                "statistic": self.second.statistic,
                "p": self.second.p,
            }
        return with_reason(fields, self.reason)


def normality(values: pd.Series[float]) -> Normality:
    """Test whether the values of a variable are normal; NaN is excluded.

    W and p are NaN, with a reason, for fewer than 3 values or a constant.
    """
    present = values.dropna().astype("float64")
    n = len(present)
    reason = _why_undefined(present)
    if reason is not None:
        return Normality(UNDEFINED, UNDEFINED, n, reason=reason)
    with warnings.catch_warnings():
        # The result reports this as `approximate`.
        warnings.filterwarnings("ignore", r"scipy\.stats\.shapiro: For N > 5000", UserWarning)
        w, p = _statistic_and_p(present, "shapiro")
    second = SecondTest(*_statistic_and_p(present, "normaltest")) if n > SHAPIRO_MAX else None
    return Normality(w, p, n, second)


def _why_undefined(present: pd.Series[float]) -> str | None:
    if len(present) < SHAPIRO_MIN:
        return f"n = {len(present)}: Shapiro-Wilk needs {SHAPIRO_MIN} values"
    spread = float(present.max()) - float(present.min())
    if spread <= max(ROUNDING * float(present.abs().max()), MIN_RANGE):
        return "all values are equal"
    return None


def _statistic_and_p(present: pd.Series[float], method: str) -> tuple[float, float]:
    import pingouin  # noqa: PLC0415

    table = pingouin.normality(present, method=method)
    return float(table["W"].iloc[0]), float(table["pval"].iloc[0])


# The rank correlation of a metric with people within queries, averaged over the queries.
#
# Pooling the sets of all queries asks, too, whether a metric knows which queries are easy. Within a
# query only the choice between its sets counts (the grouped level of Deutsch et al. 2021). A group
# is a query with two or more different sets; a set's human score is the mean over those who judged
# it. Groups in which all scores or all values are equal have no correlation and do not count.

NO_GROUP = "no query has two different sets with values"
NO_CORRELATION = "in every query the scores or the values are all equal"
MOST_CELLS = 20_000
"""More sets are not exchanged one by one, because 9,999 permutations take too long."""


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
    """All metrics, and every pair of metrics; `unit` is resampled and exchanged."""

    metrics: Mapping[str, WithinQueryCorrelation] = field(default_factory=dict)
    differences: Sequence[WithinQueryDifference] = ()
    unit: str = "participant"


@dataclass(frozen=True, eq=False)
class Groups:
    """The different sets of each query, which are one group.

    Attributes:
        answers: (n_answers, ...) the judged sets in the release.
        item: (n_answers,) the number of each one's different set, from 0.
        query: (n_sets,) the number of each set's query, from 0.
        values: (n_sets,) each metric, NaN where it has none.
        pairs: (2, n_pairs) every two sets of a query.
        rows: (n_queries, ...) `query_id` and `participant_id` of each query.
        most_judges: the largest number of people who judged a query.
    """

    answers: pd.DataFrame
    item: NDArray[np.intp]
    query: NDArray[np.intp]
    values: Mapping[str, FloatArray]
    pairs: NDArray[np.intp]
    rows: pd.DataFrame
    most_judges: int

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
            answers=sets,
            item=item,
            query=query[_firsts(item)],
            values={
                name: _first_defined(item, looked_up(sets["set_id"], own).to_numpy(np.float64))
                for name, own in values.items()
            },
            pairs=_pairs_within(query[_firsts(item)]),
            rows=sets[["query_id", "participant_id"]].iloc[_firsts(query)].reset_index(drop=True),
            most_judges=int(n_judges.max(initial=0)),
        )

    @property
    def score(self) -> FloatArray:
        """The mean human score of each set, (1, n_sets)."""
        return np.asarray(np.bincount(self.item, self.answers["score"]) / np.bincount(self.item))[
            None
        ]

    def sizes(self, *metrics: str) -> NDArray[np.intp]:
        """How many sets of each query have values of all these metrics, (n_queries,)."""
        return np.bincount(self.query[self._present(*metrics)], minlength=len(self.rows))

    def spearman(self, score: FloatArray, metric: str, *others: str) -> FloatArray:
        """Spearman's rho of each query, (b, n_queries), NaN where undefined.

        Of scores (b, n_sets), over the sets that have one and values of the other metrics too. A
        set's rank less the mean rank is half the sum of the signs of its differences.
        """
        of_pairs, n = self._signs(score, metric, *others), len(self.query)
        first, second = (indicator_matrix(side, n) for side in self.pairs)
        return self._correlated(self.query, *(each @ (first - second) for each in of_pairs))

    def kendall(self, score: FloatArray, metric: str) -> FloatArray:
        """Kendall's tau-b of each query; arguments and result as for `spearman`."""
        return self._correlated(self.query[self.pairs[0]], *self._signs(score, metric))

    def _signs(self, score: FloatArray, *metrics: str) -> tuple[FloatArray, FloatArray]:
        """Which set of each pair is higher by the first metric and by scores: (b, n_pairs) each."""
        first, second = self.pairs
        value = np.where(self._present(*metrics), self.values[metrics[0]], np.nan)
        x, y = np.sign(value[first] - value[second]), np.sign(score[:, first] - score[:, second])
        defined = ~np.isnan(x + y)
        return np.where(defined, x, 0.0), np.where(defined, y, 0.0)

    def _correlated(self, query: NDArray[np.intp], x: FloatArray, y: FloatArray) -> FloatArray:
        """The sum of x y of each query over the root of those of x^2 and y^2; NaN if one is 0."""
        of_query = indicator_matrix(query, len(self.rows))
        xy, xx, yy = (each @ of_query for each in (x * y, x * x, y * y))
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(xx * yy > 0, xy / np.sqrt(xx * yy), np.nan)

    def _present(self, *metrics: str) -> BoolArray:
        return ~np.isnan(sum(self.values[name] for name in metrics))

    def is_linear(self, bootstrap: Bootstrap) -> bool:
        """Whether resamples change only how often a query counts, not the scores of its sets."""
        by_people = bootstrap.unit in ("participant", "participant-triplet")
        return self.most_judges <= 1 or not by_people

    def rows_of(self, queries: BoolArray, bootstrap: Bootstrap) -> pd.DataFrame:
        """The resampled units of some queries, (n_queries,): the queries or their answers."""
        if self.is_linear(bootstrap):
            return self.rows[queries]
        return self.answers[queries[self.query[self.item]]]

    def resampled(
        self, bootstrap: Bootstrap, by_query: Callable[[FloatArray], FloatArray]
    ) -> FloatArray:
        """The mean of a statistic over the queries, original and in each resample: (length,).

        `by_query` computes it, (b, n_queries), from the scores of the sets, (b, n_sets).
        """
        if self.is_linear(bootstrap):
            values = by_query(self.score).T
            defined = ~np.isnan(values)
            return bootstrap.ratios(self.rows, np.where(defined, values, 0.0), defined)[:, 0]
        of_items = indicator_matrix(self.item, len(self.query))
        scores = sparse.diags_array(self.answers["score"].to_numpy(np.float64)) @ of_items
        of_query = indicator_matrix(self.query, len(self.rows))
        n_answers = np.bincount(self.item) @ of_query
        means = []
        for block in bootstrap.sums(self.answers, sparse.hstack([scores, of_items], format="csr")):
            totals, counts = np.hsplit(block, 2)
            values = by_query(ratio(totals, counts))
            # A query counts by the share of its answers that are drawn.
            weights = np.where(np.isnan(values), 0.0, counts @ of_query / n_answers)
            means.append(ratio((np.nan_to_num(values) * weights).sum(1), weights.sum(1)))
        return np.concatenate(means)


def within_query(
    release: Release, values: MetricValues, bootstrap: Bootstrap, swaps: Swaps | None = None
) -> WithinQuery:
    """Correlate every metric with people within queries, and compare every two.

    If several participants judged a query, a resample changes the mean scores of its sets. By
    default there are 9,999 permutations, with the seed of `bootstrap`.
    """
    groups = Groups.of_release(release, values)
    swaps = swaps or Swaps(seed=bootstrap.seed)
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


def _pairs_within(query: NDArray[np.intp]) -> NDArray[np.intp]:
    """Every two places that have the same query, (2, n_pairs)."""
    order = np.argsort(query, kind="stable")
    pairs = [np.zeros((2, 0), dtype=np.intp)]
    for distance in range(1, int(np.bincount(query).max(initial=0))):
        places = np.stack([order[distance:], order[:-distance]])
        pairs.append(places[:, query[places[0]] == query[places[1]]])
    return np.concatenate(pairs, axis=1)


def _correlation(groups: Groups, metric: str, bootstrap: Bootstrap) -> WithinQueryCorrelation:
    sizes = groups.sizes(metric)
    sizes = sizes[sizes >= 2]
    spearman, kendall = (
        _mean(groups, partial(each, metric=metric), len(sizes), bootstrap)
        for each in (groups.spearman, groups.kendall)
    )
    return WithinQueryCorrelation(
        spearman,
        kendall,
        len(sizes),
        float(sizes.mean()) if len(sizes) else UNDEFINED,
        None if len(sizes) else NO_GROUP,
    )


def _mean(
    groups: Groups,
    by_query: Callable[[FloatArray], FloatArray],
    n_groups: int,
    bootstrap: Bootstrap,
) -> Estimate:
    defined = ~np.isnan(by_query(groups.score)[0])
    if not defined.any():
        return Estimate(UNDEFINED, 0, None, NO_CORRELATION if n_groups else NO_GROUP)
    resampled = groups.resampled(bootstrap, by_query)
    rows = groups.rows_of(defined, bootstrap)
    interval = bootstrap.interval(resampled, rows, bounds=intervals.CORRELATION)
    return Estimate(float(resampled[0]), int(defined.sum()), interval)


def _difference(
    groups: Groups, metric: str, other: str, bootstrap: Bootstrap, swaps: Swaps
) -> Difference:
    def gaps(score: FloatArray) -> FloatArray:
        return groups.spearman(score, metric, other) - groups.spearman(score, other, metric)

    own = gaps(groups.score)[0]
    defined = ~np.isnan(own)
    rows, values = groups.rows_of(defined, bootstrap), own[defined]
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

    test = tested_difference(
        bootstrap,
        rows,
        groups.resampled(bootstrap, gaps),
        permuted if groups.is_linear(bootstrap) else None,
        swaps,
        None,
    )
    return replace(test, n=len(values))


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
    return grouped_test(groups.score[0, by_query], first[by_query], second[by_query], swaps)
