"""The number of participants needed to compare two systems, tested once or sequentially."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from math import ceil, comb, inf, sqrt

import numpy as np
import pandas as pd
from scipy import stats

from hsfiq.analysis.data.columns import looked_up
from hsfiq.analysis.data.release import Release
from hsfiq.analysis.json_results import BoolArray, FloatArray, JsonRecord
from hsfiq.analysis.resampling.intervals import LEVEL, one_way_spread, two_way_spread
from hsfiq.analysis.sensitivity import SENSITIVE_STATISTICS, Statistic
from hsfiq.analysis.sequential import EQUAL, looks_until_excluded
from hsfiq.analysis.statistics import preference
from hsfiq.analysis.statistics.correlation import spearman, with_values
from hsfiq.analysis.statistics.preference import preference_rates
from hsfiq.analysis.systems.systems import compared_systems
from hsfiq.answer_rules import error_of_study
from hsfiq.errors import UnreadableInput

# The population that simulated studies are drawn from: the variance components of impressions.
#
# An impression is a normal variable of variance 1, the sum of independent parts: the participant's
# leniency, what all sets of a query have in common, what all who judge a set have in common, what
# the metric measures, and the rest. A score is the impression cut at the shares of the scores; the
# preferred set is the one with the larger impression. Participants also differ in how closely they
# follow the metric, which makes fifty answers by one of them worth less than fifty by fifty.

FEW_VALUES = 20
"""A metric with at most this many values is simulated with their shares, and so with ties."""
ASSUMED_BETWEEN = 0.5
"""The correlation of two metrics if only one is known."""
ASSUMED_SHARED = 0.2
"""The agreement of people beyond a metric, if too few judged the same sets to measure it."""
NO_RELEASE = "leave out --from"
MIN_SHARED = 30  # sets judged by several people


@dataclass(frozen=True)
class Population(JsonRecord):
    """The population from which a simulated study is drawn.

    Attributes:
        rho: Spearman's rho of each metric with the scores, all sets pooled.
        tie_half: the share of pairs whose higher set is preferred, metric ties counted half.
        participant: the share of an impression's variance that is leniency.
        query: the share that the sets of one query have in common, measured by a metric or not.
        shared: the share, beyond that and the metric, on which all who judge a set agree; relevant
            only if several people judge the same questions.
        slope_spread: the standard deviation, over participants, of the slope of their impressions
            on a metric of variance 1.
        metric_query: the correlation of a metric's values of the two sets of one query.
        between_metrics: the correlation of the two compared metrics.
        scores: the shares of the scores, lowest first; they sum to 1.
        values: the shares of the metric's values, lowest first; empty for a metric without ties.
        source: the origin of these values, in words.

    Raises:
        UnreadableInput: a share is outside [0, 1], or the shares add up to 1 or more.
    """

    rho: float
    tie_half: float
    participant: float
    query: float
    shared: float
    slope_spread: float
    metric_query: float
    between_metrics: float
    scores: tuple[float, ...]
    values: tuple[float, ...]
    source: str

    def __post_init__(self) -> None:
        parts = (self.participant, self.query, self.shared, self.metric_query)
        if not all(0 <= part <= 1 for part in parts) or sum(parts[:3]) >= 1:
            raise UnreadableInput("population", f"impossible shares of variance: {parts}")
        if not (
            abs(self.rho) < 1
            and 0 < self.tie_half < 1
            and 0 <= self.between_metrics < 1
            and self.slope_spread >= 0
        ):
            raise UnreadableInput("population", "impossible correlations")


PUBLISHED = Population(
    rho=0.42,
    tie_half=0.75,
    participant=0.1061,
    query=0.0741,
    shared=ASSUMED_SHARED,
    slope_spread=0.0567,
    metric_query=0.3599,
    between_metrics=ASSUMED_BETWEEN,
    scores=(0.0535, 0.16225, 0.254, 0.32175, 0.2085),
    values=(),
    source=(
        "rho and tie_half: CIRQRS Tables 2 and 3; participant, query, slope_spread, metric_query "
        "and scores: users 1 to 40 of the published HP-FashionIQ with recall@5; shared and "
        "between_metrics: assumed"
    ),
)
"""The default."""


def estimate_population(
    release: Release, values: pd.Series[float], other: pd.Series[float] | None = None
) -> Population:
    """Estimate a population from a release, by the method of moments on the scores as numbers.

    Participants: one-way analysis of variance. Queries: the covariance of a question's two scores
    within participants. Shared: the covariance of different people's scores of the same set, if
    there are enough. Slopes: the variance of the participants' own least-squares slopes less their
    sampling variance. Negative estimates are 0.

    Args:
        values: a metric, indexed by set_id; sets with NaN are excluded.
        other: a second one, for `between_metrics`.

    Raises:
        UnreadableInput: the release is too small, or its scores or the metric are all the same.
    """
    correlation = spearman(release.sets, values)
    if correlation.reason is not None or correlation.n_clusters < 2:
        reason = correlation.reason or "all scores are from one participant"
        raise UnreadableInput(
            release.folder, f"does not determine the variances ({reason})", NO_RELEASE
        )
    rate = preference_rates(release.preferences, values).tie_half
    if rate.reason is not None:
        raise UnreadableInput(
            release.folder, f"does not determine the accuracy ({rate.reason})", NO_RELEASE
        )
    table = with_values(release.sets, values).sort_values("question_id", kind="stable")
    table["unit"] = looked_up(table["set_id"], release.units)
    for name in ("score", "value"):
        column = table[name].astype("float64")
        table[name] = (column - column.mean()) / column.std(ddof=0)
    participant = between_share(table)
    own = table.groupby("participant_id")["score"]
    table["deviation"] = table["score"] - own.transform("mean")
    # A deviation from a mean of n scores is too small by the error of the mean.
    n_own = own.transform("size")
    error = float((table["deviation"] ** 2 / (n_own - 1).clip(lower=1)).mean())
    metric_query = max(0.0, _mean_product(table, "question_id", "value"))
    explained = float((table["score"] * table["value"]).mean()) ** 2
    query = max(0.0, _mean_product(table, "question_id", "deviation") + error)
    n_judges = table.groupby("unit")["participant_id"].transform("nunique")
    by_others = table[n_judges > 1].drop_duplicates(["unit", "participant_id"])
    between = float("nan") if other is None else values.corr(other, method="spearman")
    between = ASSUMED_BETWEEN if np.isnan(between) else float(np.clip(between, 0.0, 0.99))
    shared = ASSUMED_SHARED
    if by_others["unit"].nunique() >= MIN_SHARED:
        shared = max(0.0, _mean_product(by_others, "unit", "deviation") - query - explained)
    return Population(
        rho=correlation.rho,
        tie_half=rate.rate,
        participant=participant,
        query=query,
        shared=shared,
        slope_spread=slope_spread(table),
        metric_query=min(1.0, metric_query),
        between_metrics=ASSUMED_BETWEEN
        if np.isnan(between)
        else float(np.clip(between, 0.0, 0.99)),
        scores=_shares(release.sets["score"].to_numpy(), len(release.sets)),
        values=_shares(table["value"].to_numpy(), FEW_VALUES),
        source=f"release {release.name} {release.version}",
    )


def between_share(table: pd.DataFrame) -> float:
    """The share of the variance of `score` between participants: one-way analysis of variance."""
    groups = table.groupby("participant_id")["score"]
    sizes = groups.size().to_numpy(np.float64)
    n, n_groups = sizes.sum(), len(sizes)
    within = float(((table["score"] - groups.transform("mean")) ** 2).sum()) / max(1, n - n_groups)
    between = float((sizes * groups.mean() ** 2).sum()) / (n_groups - 1)
    typical = (n - (sizes**2).sum() / n) / (n_groups - 1)
    return float(np.clip((between - within) / typical, 0.0, 1.0))


def slope_spread(table: pd.DataFrame) -> float:
    """The sd over participants of the slope of `score` on `value`, both of variance 1."""
    people = table["participant_id"]
    centred = table[["value", "score"]] - table.groupby(people)[["value", "score"]].transform(
        "mean"
    )
    x, y = centred["value"], centred["score"]
    sums = pd.DataFrame({"xx": x**2, "xy": x * y, "yy": y**2}).groupby(people).sum()
    sums["n"] = people.value_counts()
    sums = sums[(sums["xx"] > 0) & (sums["n"] > 3)]
    if len(sums) < 2:
        return 0.0
    slopes = sums["xy"] / sums["xx"]
    residual = (sums["yy"] - sums["xy"] * slopes) / (sums["n"] - 2)
    sampling = float((residual / sums["xx"]).mean())
    return float(np.sqrt(max(0.0, float(slopes.var()) - sampling)))


def _mean_product(table: pd.DataFrame, group: str, column: str) -> float:
    """The mean product of two different rows of one group, over all such pairs."""
    groups = table.groupby(group)[column]
    sums, squares = groups.sum(), table[column].pow(2).groupby(table[group]).sum()
    sizes = groups.size()
    pairs = float((sizes * (sizes - 1)).sum())
    return float((sums**2 - squares).sum()) / pairs if pairs else 0.0


def _shares(values: FloatArray, max_values: int) -> tuple[float, ...]:
    counts = np.unique(values, return_counts=True)[1]
    return tuple((counts / counts.sum()).tolist()) if len(counts) <= max_values else ()


# Studies drawn from a population, and what is measured in each of them.


@dataclass(frozen=True)
class Slopes:
    """How impressions follow each of two metrics of variance 1; a metric is a sum of two parts.

    Attributes:
        query_part: the share of a metric's variance that the sets of one query have in common,
            before the metric is cut into levels.
        query: the slope of impressions on that part.
        within: the slope on the rest, by which the sets of one query differ.
    """

    query_part: float
    query: float
    within: float


@dataclass(frozen=True, eq=False)
class SimulatedStudy:
    """A study with two metrics that agree equally well with people.

    Attributes:
        scores: (participants, questions, 2) levels from 0.
        metrics: (2, participants, questions, 2).
        first: (participants, questions) whether set 1 is preferred.
    """

    scores: FloatArray
    metrics: FloatArray
    first: BoolArray

    def part(self, participants: int, questions: int) -> SimulatedStudy:
        """The study of the first participants and questions."""
        return SimulatedStudy(
            self.scores[:participants, :questions],
            self.metrics[:, :participants, :questions],
            self.first[:participants, :questions],
        )

    def rhos(self) -> FloatArray:
        """Spearman's rho of each metric with the scores, over all sets: (2,)."""
        scores = _centred_ranks(self.scores)
        ranks = np.stack([_centred_ranks(metric) for metric in self.metrics])
        with np.errstate(invalid="ignore"):
            rhos: FloatArray = (ranks @ scores) / np.sqrt(
                (ranks**2).sum(axis=1) * (scores**2).sum()
            )
        return rhos

    def tie_halves(self) -> FloatArray:
        """The pairwise accuracy of each metric, its ties counted half: (2,)."""
        difference = self.metrics[..., 0] - self.metrics[..., 1]
        first = np.broadcast_to(self.first, difference.shape)
        return np.asarray(preference.tie_half(difference, first).hits.mean(axis=(1, 2)))

    def contributions(self) -> FloatArray:
        """What each question adds, to first order, to the statistics of the first metric.

        (statistics, participants, questions), of mean 0; ranks are taken as fixed.
        """
        x, y = (_centred_ranks(each) for each in (self.metrics[0], self.scores))
        x, y = x / (x.std() or 1.0), y / (y.std() or 1.0)
        of_rho = x * y - (x @ y) / len(x) * (x**2 + y**2) / 2
        difference = self.metrics[0, ..., 0] - self.metrics[0, ..., 1]
        hits = preference.tie_half(difference, self.first).hits
        return np.stack([of_rho.reshape(self.scores.shape).sum(axis=2), hits - hits.mean()])

    def same_query(self) -> float:
        """The correlation of a metric's values of the two sets of one query."""
        first, second = self.metrics[0, ..., 0].ravel(), self.metrics[0, ..., 1].ravel()
        return float(np.corrcoef(first, second)[0, 1])


@dataclass(frozen=True, eq=False)
class Draws:
    """The standard normal numbers of a study, which do not depend on its slopes.

    Attributes:
        of_query, of_set: (2, participants, questions, 1 or 2) the two metrics' parts, correlated.
        own: (2, participants, 1, 1) how each participant's slopes differ.
        people: (participants, 1, 1); shared_query, shared_set: impressions that everybody has.
        rest: (participants, questions, 2).
    """

    of_query: FloatArray
    of_set: FloatArray
    own: FloatArray
    people: FloatArray
    shared_query: FloatArray
    shared_set: FloatArray
    rest: FloatArray


def draw_study(
    population: Population,
    slopes: Slopes,
    size: tuple[int, int],
    overlap: int,
    rng: np.random.Generator,
) -> SimulatedStudy:
    """Draw a study of (participants, questions of each), with slopes from `calibrate`.

    Each group of `overlap` consecutive participants answers the same questions.
    """
    return study_of(population, slopes, draw_numbers(population, size, overlap, rng))


def draw_numbers(
    population: Population, size: tuple[int, int], overlap: int, rng: np.random.Generator
) -> Draws:
    """Draw the random numbers from which `study_of` makes a study; see `draw_study`."""
    people, questions = size
    common = population.between_metrics
    group = np.arange(people) // overlap  # each answers the same questions

    def shared(sets: int) -> FloatArray:
        return rng.standard_normal((group[-1] + 1, questions, sets))[group]

    def two_metrics(sets: int) -> FloatArray:
        both = shared(sets)
        return np.stack([sqrt(common) * both + sqrt(1 - common) * shared(sets) for _ in range(2)])

    return Draws(  # in this order, which decides what a seed draws
        of_query=two_metrics(1),
        of_set=two_metrics(2),
        own=rng.standard_normal((2, people, 1, 1)),
        people=rng.standard_normal((people, 1, 1)),
        shared_query=shared(1),
        shared_set=shared(2),
        rest=rng.standard_normal((people, questions, 2)),
    )


def study_of(population: Population, slopes: Slopes, draws: Draws) -> SimulatedStudy:
    """The study with these random numbers and slopes."""
    common = population.between_metrics
    of_query = sqrt(slopes.query_part) * draws.of_query
    of_set = sqrt(1 - slopes.query_part) * draws.of_set
    metrics = of_query + of_set
    # A slope on one metric is also a slope, times `common`, on the other.
    spread = population.slope_spread / sqrt(1 + common**2)
    followed = slopes.query * of_query + slopes.within * of_set
    # The variance of an impression that the two metrics explain, by query and within queries.
    by_query = 2 / (1 + common) * slopes.query_part * slopes.query**2
    by_set = 2 / (1 + common) * (1 - slopes.query_part) * slopes.within**2
    rest = 1 - population.participant - population.query - population.shared - by_set
    impressions = (followed / (1 + common) + spread * draws.own * metrics).sum(axis=0)
    impressions += sqrt(population.participant) * draws.people
    impressions += sqrt(max(0.0, population.query - by_query)) * draws.shared_query
    impressions += sqrt(population.shared) * draws.shared_set
    impressions += sqrt(max(0.0, rest)) * draws.rest
    return SimulatedStudy(
        scores=_cut(impressions / sqrt(1 + 2 * spread**2), population.scores),
        metrics=_cut(metrics, population.values) if population.values else metrics,
        first=impressions[..., 0] > impressions[..., 1],
    )


def _cut(values: FloatArray, shares: tuple[float, ...]) -> FloatArray:
    """Turn standard normal values into levels from 0 that have these shares."""
    edges = stats.norm.ppf(np.cumsum(shares)[:-1])
    return np.searchsorted(edges, values).astype(np.float64)


def _centred_ranks(values: FloatArray) -> FloatArray:
    """The mid-ranks of all values less the mean rank, (...) -> (n,)."""
    return np.asarray(stats.rankdata(values.ravel()) - (values.size + 1) / 2)


# Calibration: the slopes that give simulated studies a population's rho and accuracy.
#
# Cutting impressions and metrics into levels weakens their association, so each slope is found by
# bisection on one large simulated study, always with the same random numbers.

SIZE = (4000, 10)  # participants and questions of the large study
BISECTIONS = 14


@lru_cache(maxsize=16)
def calibrate(population: Population, seed: int) -> Slopes:
    """Find the slopes for a population.

    The slope within queries follows from the pairwise accuracy, the slope between queries from rho.
    A metric cannot explain more than the sets of a query have in common: if both targets cannot be
    met, rho takes precedence over the accuracy.

    Raises:
        UnreadableInput: the other shares of variance leave too little for such a rho.
    """
    draws = draw_numbers(population, SIZE, 1, np.random.default_rng((seed, 1)))

    def study(slopes: Slopes) -> SimulatedStudy:
        return study_of(population, slopes, draws)

    def rho(slopes: Slopes) -> float:
        return float(study(slopes).rhos().mean())

    def tie_half(slopes: Slopes) -> float:
        return float(study(slopes).tie_halves().mean())

    part = _solve(lambda share: study(Slopes(share, 0, 0)).same_query(), population.metric_query)
    both = (1 + population.between_metrics) / 2
    remaining = 1 - population.participant - population.query - population.shared
    max_within = sqrt(remaining * both / max(1 - part, 1e-9))
    max_query = sqrt(population.query * both / part) if part > 0 else 0.0
    within = _solve(
        lambda slope: tie_half(Slopes(part, 0.0, slope)), population.tie_half, max_within
    )
    query = _solve(lambda slope: rho(Slopes(part, slope, within)), population.rho, max_query)
    slopes = Slopes(part, query, within)
    if abs(query) == max_query:
        within = _solve(lambda slope: rho(Slopes(part, query, slope)), population.rho, max_within)
        slopes = Slopes(part, query, within)
        if abs(within) == max_within:
            raise UnreadableInput(
                "population",
                f"rho = {population.rho:.3f} cannot be reached with these shares of variance",
                f"the largest possible value is {rho(slopes):.3f}",
            )
    return slopes


def _solve(statistic: Callable[[float], float], target: float, limit: float | None = None) -> float:
    """Find where a statistic increasing over [-limit, limit] equals `target`, or the nearer end.

    Without a limit, the interval is [0, 1].
    """
    low, high = (0.0, 1.0) if limit is None else (-limit, limit)
    if target <= statistic(low):
        return low
    if target >= statistic(high):
        return high
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if statistic(middle) < target else (low, middle)
    return (low + high) / 2


# Power: how precise a study of a given size would be, by simulating participants and queries.
#
# Many studies are drawn from one population. Over these, a statistic has a standard deviation sd: a
# valid 95% interval is 2 x t(0.975) sd wide, with clustering accounted for, and a difference
# between two metrics is detected with a power of 80% if it is (t(0.975) + t(0.8)) x the standard
# deviation of their difference (paired: on the same sets). These are Student's t with as many
# degrees of freedom as the intervals of an analysis have. Since sd shrinks with the square root of
# the number of participants, the required numbers follow.

POWER = 0.8
STUDIES = 200
PARTICIPANTS = (10, 20, 40, 60, 80, 120)
QUESTIONS = (25, 50)


def width_in_sd(df: float) -> float:
    """The width of an interval, in standard deviations."""
    return 2 * float(stats.t.ppf((1 + LEVEL) / 2, df))


def detectable_in_sd(df: float) -> float:
    """The smallest difference that is detected, in standard deviations."""
    return float(stats.t.ppf((1 + LEVEL) / 2, df) + stats.t.ppf(POWER, df))


Counts = dict[Statistic, int]


@dataclass(frozen=True)
class Precision(JsonRecord):
    """The precision of a statistic in studies of one size.

    Attributes:
        mean: over the simulated studies.
        width: of a valid 95% interval.
        difference: the smallest difference of two metrics detected with a power of 80%.
        df: the degrees of freedom of both.
    """

    mean: float
    width: float
    difference: float
    df: float


@dataclass(frozen=True)
class Size(JsonRecord):
    """The size of a study and its precision; `questions` are those of each participant."""

    participants: int
    questions: int
    precision: Mapping[Statistic, Precision]

    def to_json(self) -> dict[str, object]:
        fields = super().to_json()
        del fields["precision"]
        return fields | {name: each.to_json() for name, each in self.precision.items()}


@dataclass(frozen=True)
class Needed(JsonRecord):
    """The numbers of participants that reach the target width and the target difference."""

    questions: int
    for_width: Mapping[Statistic, int]
    for_difference: Mapping[Statistic, int]


@dataclass(frozen=True)
class Power(JsonRecord):
    """The precision of studies of several sizes.

    Attributes:
        overlap: how many participants answer each question.
        width, difference: the targets.
        n_studies: the number of simulated studies; the relative standard error of a width is
            1 / sqrt(2 n_studies - 2).
    """

    population: Population
    overlap: int
    level: float
    power: float
    width: float
    difference: float
    n_studies: int
    seed: int
    sizes: tuple[Size, ...]
    needed: tuple[Needed, ...]


def power(
    population: Population,
    *,
    participants: Sequence[int] = PARTICIPANTS,
    questions: Sequence[int] = QUESTIONS,
    overlap: int = 1,
    width: float = 0.05,
    difference: float = 0.05,
    n_studies: int = STUDIES,
    seed: int = 0,
) -> Power:
    """Simulate studies with these numbers of participants, and of questions of each of them.

    A smaller study is part of the larger ones; `overlap` participants answer each question. The
    targets are the `width` of the interval and the `difference` of two metrics. UnreadableInput: a
    number is too small, or the population's rho is out of reach.
    """
    require_possible(participants, questions, overlap, width, difference, n_studies)
    sizes = sorted({(n, q) for n in participants for q in questions}, key=lambda size: size[::-1])
    measured: dict[tuple[int, int], list[FloatArray]] = {size: [] for size in sizes}
    squares = {size: np.zeros((3, len(SENSITIVE_STATISTICS))) for size in sizes}
    slopes, largest = calibrate(population, seed), (max(participants), max(questions))
    for number in range(n_studies):  # one at a time, to save memory
        rng = np.random.default_rng((seed, 2, number))
        drawn = draw_study(population, slopes, largest, overlap, rng)
        for size in sizes:
            part = drawn.part(*size)
            measured[size].append(np.stack([part.rhos(), part.tie_halves()]))
            squares[size] += _squares(part.contributions(), overlap)
    of_size = {size: np.stack(parts, axis=2) for size, parts in measured.items()}
    df = {size: _degrees(squares[size], size, overlap) for size in sizes}
    return Power(
        population=population,
        overlap=overlap,
        level=LEVEL,
        power=POWER,
        width=width,
        difference=difference,
        n_studies=n_studies,
        seed=seed,
        sizes=tuple(Size(*size, _precision(each, df[size])) for size, each in of_size.items()),
        needed=tuple(
            _needed(q, {n: (of_size[n, q], df[n, q]) for n in participants}, width, difference)
            for q in sorted(set(questions))
        ),
    )


def require_possible(
    participants: Sequence[int],
    questions: Sequence[int],
    overlap: int,
    width: float,
    difference: float,
    n_studies: int = STUDIES,
) -> None:
    """Raise UnreadableInput if `power` cannot simulate this, before any long computation."""
    for name, numbers, least in (
        ("participants", participants, 2),
        ("questions", questions, 2),
        ("overlap", (overlap,), 1),
        ("studies", (n_studies,), 2),
    ):
        if not numbers or min(numbers) < least:
            raise UnreadableInput(name, f"{list(numbers)} is too few", f"use {least} or more")
    for name, target in (("width", width), ("difference", difference)):
        if not 0 < target < 1:
            raise UnreadableInput(name, f"{target} is not between 0 and 1", "try 0.05")


def _spreads(samples: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The sd of a metric's statistic and of two metrics' difference, (statistics, 2, studies)."""
    alone = np.sqrt(np.nanvar(samples, axis=2, ddof=1).mean(axis=1))
    return alone, np.nanstd(samples[:, 0] - samples[:, 1], axis=1, ddof=1)


def _squares(contributions: FloatArray, overlap: int) -> FloatArray:
    """The squared sums of participants, of queries and of answers, added up: (3, statistics)."""
    judges = np.arange(0, contributions.shape[1], overlap)
    parts = (
        contributions.sum(axis=2, keepdims=True),
        np.add.reduceat(contributions, judges, axis=1),
        contributions,
    )
    return np.stack([(part**2).sum(axis=(1, 2)) for part in parts])


def _degrees(squares: FloatArray, size: tuple[int, int], overlap: int) -> FloatArray:
    """The degrees of freedom that intervals of such studies have, (statistics,)."""
    people, questions = size
    if overlap == 1:
        return np.full(squares.shape[1], people - 1.0)
    n_each = np.ones(people, np.int64), np.ones(ceil(people / overlap) * questions, np.int64)
    return np.array(
        [
            two_way_spread(one_way_spread(a, n_each[0]), one_way_spread(b, n_each[1]), both).df
            for a, b, both in squares.T
        ]
    )


def _precision(samples: FloatArray, df: FloatArray) -> dict[Statistic, Precision]:
    alone, between = _spreads(samples)
    means = np.nanmean(samples, axis=(1, 2))
    return {
        name: Precision(
            mean=float(means[place]),
            width=width_in_sd(df[place]) * float(alone[place]),
            difference=detectable_in_sd(df[place]) * float(between[place]),
            df=float(df[place]),
        )
        for place, name in enumerate(SENSITIVE_STATISTICS)
    }


def people_for(in_sd: Callable[[float], float], variance: float, rate: float, target: float) -> int:
    """The least n with in_sd(rate x n - 1 degrees of freedom) x sqrt(variance / n) <= target."""
    least = max(2, ceil(in_sd(inf) ** 2 * variance / target**2))  # with a known variance
    return next(
        n for n in count(least) if in_sd(max(1.0, rate * n - 1)) * sqrt(variance / n) <= target
    )


def _needed(
    questions: int,
    measured: Mapping[int, tuple[FloatArray, FloatArray]],
    width: float,
    difference: float,
) -> Needed:
    """The required numbers, from the samples and degrees of freedom of each number of participants.

    sd^2 x participants and df + 1 per participant hardly depend on the size, so they are averaged.
    """
    variances = [np.stack(_spreads(samples)) ** 2 * n for n, (samples, _) in measured.items()]
    alone, between = np.mean(variances, axis=0)  # each (statistics,)
    rates = np.mean([(df + 1) / n for n, (_, df) in measured.items()], axis=0)

    def by_statistic(
        in_sd: Callable[[float], float], variances: FloatArray, target: float
    ) -> Counts:
        return {
            name: people_for(in_sd, variance, rate, target)
            for name, variance, rate in zip(SENSITIVE_STATISTICS, variances, rates, strict=True)
        }

    return Needed(
        questions,
        by_statistic(width_in_sd, alone, width),
        by_statistic(detectable_in_sd, between, difference),
    )


# The number of participants needed to compare two systems, tested once or sequentially.
#
# The fixed plan is tested once, at the end. The watched study stops when the confidence sequence of
# `hsfiq.analysis.sequential` excludes one half. Each participant's own rate is drawn from a beta
# distribution, and each of their questions is about any two of the systems. There are no ties, and
# nobody shares a query.

RATES = (0.55, 0.6, 0.65, 0.7)
ASSUMED_SPREAD = 0.1
"""The standard deviation, between participants, of their own rates, if no release is given."""
ASSUMED_QUERY_SPREAD = 0.2
"""The same between queries."""
PEOPLE = range(2, 100_000)
SYSTEMS_DIFFER = 0.1
"""The difference of the win rate from one half to detect by default."""
LONGEST = 2000
"""The maximum number of participants in a simulated sequential study."""


@dataclass(frozen=True)
class Planned(JsonRecord):
    """The precision of a comparison of two systems or two metrics.

    Attributes:
        statistic: "win_rate", the rate at which one system is preferred, or that of the metrics.
        half_width: half the expected length of the interval (1 - alpha) of the rate, or of the
            difference between metrics; NaN with fewer than two participants or queries.
        detectable: the least difference of the rate from one half, or between metrics, that is
            detected with this power.
        difference: the one that is to be detected.
        needed: the participants that detect it with this power; None if there are too few queries.
    """

    statistic: str
    participants: int
    questions: int
    alpha: float
    half_width: float
    detectable: float
    difference: float
    needed: int | None
    power: float = POWER


def precision_of_systems(
    participants: int,
    questions: int,
    overlap: float,
    *,
    systems: int,
    queries: int,
    difference: float,
    alpha: float,
) -> Planned:
    """Plan the comparison of two of several systems."""

    def detected(people: int, power: float = POWER) -> float:
        return detectable_rate(
            people,
            questions,
            overlap,
            systems=systems,
            queries=queries,
            alpha=alpha,
            power=power,
        )

    place = bisect_left(PEOPLE, 1, key=lambda people: detected(people) <= difference)
    needed = PEOPLE[place] if place < len(PEOPLE) else None
    half_width, detectable = detected(participants, power=0.5), detected(participants)
    sizes = participants, questions
    return Planned("win_rate", *sizes, alpha, half_width, detectable, difference, needed)


def detectable_rate(
    participants: int,
    questions: int,
    overlap: float,
    *,
    systems: int,
    queries: int,
    alpha: float,
    power: float = POWER,
) -> float:
    """The least difference of the rate from one half that is significant with this power.

    With a power of one half, it is half the expected length of the interval. From direct
    comparisons, with assumed spreads of the rate between participants and between queries:
    sqrt(var_p / P + var_q / Q + var_rest / n) x Student's t, of n comparisons by P participants
    about Q queries (crossed random effects). The three variances sum to that of an answer, 1/4.
    More participants judge more queries, at most these `queries`. NaN with fewer than two of
    either.
    """
    of_people, of_queries, pairs = ASSUMED_SPREAD**2, ASSUMED_QUERY_SPREAD**2, comb(systems, 2)
    rest = EQUAL * (1 - EQUAL) - of_people - of_queries
    answers = participants * questions / pairs
    judged = min(answers / min(overlap, participants), queries / pairs)
    df = min(participants, judged) - 1
    if df < 1:
        return float("nan")
    sd = sqrt(of_people / participants + of_queries / judged + rest / answers)
    return float(stats.t.ppf(1 - alpha / 2, df) + stats.t.ppf(power, df)) * sd


def precision_of_metrics(
    size: Size, statistic: Statistic, *, difference: float, alpha: float
) -> Planned:
    """Plan the comparison of two metrics, from simulated studies of one size."""
    precision = size.precision[statistic]
    sd = precision.difference / detectable_in_sd(precision.df)
    half_width = float(stats.t.ppf(1 - alpha / 2, precision.df)) * sd

    def detectable(df: float) -> float:
        return float(stats.t.ppf(1 - alpha / 2, df) + stats.t.ppf(POWER, df))

    per_person = (precision.df + 1) / size.participants
    needed = people_for(detectable, sd**2 * size.participants, per_person, difference)
    sizes = size.participants, size.questions
    least = detectable(precision.df) * sd
    return Planned(statistic, *sizes, alpha, half_width, least, difference, needed)


@dataclass(frozen=True)
class StoppingPlan(JsonRecord):
    """The participants needed to decide between two systems at one rate.

    Attributes:
        rate: at which people prefer the better system.
        questions: those of each participant, about all systems.
        fixed: the participants that detect it with a power of 80%, tested once at the end.
        expected: the mean number of participants until the sequence decides.
        median, nine_in_ten: the participants after which half, and 90%, of the sequential studies
            are decided; None if more than `LONGEST`, and then `expected` is a lower bound.
    """

    rate: float
    questions: int
    fixed: int
    expected: float
    median: int | None
    nine_in_ten: int | None


@dataclass(frozen=True)
class StoppingPlans(JsonRecord):
    """Plans at several rates and numbers of questions.

    Attributes:
        systems: how many are compared; the error is shared by all their pairs (Bonferroni).
        spread: the standard deviation of participants' own rates, and its origin.
    """

    systems: int
    level: float
    power: float
    spread: float
    spread_source: str
    n_studies: int
    seed: int
    plans: tuple[StoppingPlan, ...]


def stopping_plans(
    rates: Sequence[float] = RATES,
    questions: Sequence[int] = (50,),
    *,
    systems: int = 2,
    spread: float | None = None,
    source: str = "assumed",
    seed: int = 0,
) -> StoppingPlans:
    """Plan studies that compare this number of systems.

    UnreadableInput: a rate is not above 0.5 and below 1, or there are fewer than two systems.
    """
    spread = ASSUMED_SPREAD if spread is None else spread
    for rate in rates:
        if not EQUAL < rate < 1:
            raise UnreadableInput("preference", f"{rate} is not between 0.5 and 1", "try 0.6")
        if spread**2 >= rate * (1 - rate):
            raise UnreadableInput(
                "preference",
                f"{rate}: a standard deviation of {spread:g} between participants is "
                "impossible at this rate",
                "lower it",
            )
    if systems < 2:
        raise UnreadableInput("systems", f"{systems} cannot be compared", "use 2 or more")
    n_pairs = systems * (systems - 1) // 2
    return StoppingPlans(
        systems=systems,
        level=1 - (1 - LEVEL) / n_pairs,
        power=POWER,
        spread=spread,
        spread_source=source,
        n_studies=STUDIES,
        seed=seed,
        plans=tuple(
            plan(rate, number, n_pairs, spread, seed)
            for number in sorted(set(questions))
            for rate in rates
        ),
    )


def plan(rate: float, questions: int, n_pairs: int, spread: float, seed: int) -> StoppingPlan:
    """Count the participants of both plans; a participant may be asked about a pair or not."""
    level, watched = (1 - error / n_pairs for error in (1 - LEVEL, error_of_study(0)))
    needed = np.array(
        [
            until_decided(
                rate, questions, n_pairs, spread, watched, np.random.default_rng((seed, 3, number))
            )
            for number in range(STUDIES)
        ]
    )
    median, nine_in_ten = (
        int(value) if value <= LONGEST else None
        for value in np.quantile(needed, [0.5, 0.9], method="higher")
    )
    return StoppingPlan(
        rate=rate,
        questions=questions,
        fixed=fixed_plan(rate, questions, n_pairs, spread, level),
        expected=float(np.minimum(needed, LONGEST).mean()),
        median=median,
        nine_in_ten=nine_in_ten,
    )


def fixed_plan(rate: float, questions: int, n_pairs: int, spread: float, level: float) -> int:
    """The participants with which a normal test of their shares detects the rate."""
    numbers = np.arange(1, questions + 1)
    chances = stats.binom.pmf(numbers, questions, 1 / n_pairs)
    asked = float(chances.sum())
    within = rate * (1 - rate) - spread**2
    variance = spread**2 + within * float(chances @ (1 / numbers)) / asked
    detectable = float(stats.norm.ppf((1 + level) / 2) + stats.norm.ppf(POWER))
    return max(2, ceil(detectable**2 * variance / (rate - EQUAL) ** 2 / asked))


def until_decided(
    rate: float,
    questions: int,
    n_pairs: int,
    spread: float,
    level: float,
    rng: np.random.Generator,
) -> int:
    """The number of participants after which a sequential study decides; at most `LONGEST` + 1."""
    asked = rng.binomial(questions, 1 / n_pairs, LONGEST)
    own_rates = draw_rates(rate, spread, LONGEST, rng)
    won = rng.binomial(asked, own_rates)
    people = np.flatnonzero(asked)
    shares = won[people] / asked[people]
    for looks in (64, 256, LONGEST):  # most studies need not be simulated to their end
        decided = looks_until_excluded(shares[:looks], EQUAL, level)
        if decided is not None:
            return int(people[decided - 1]) + 1
    return LONGEST + 1


def draw_rates(rate: float, spread: float, n: int, rng: np.random.Generator) -> FloatArray:
    """Draw (n,) participants' own rates: beta, with this mean and standard deviation."""
    if spread == 0:
        return np.full(n, rate)
    weight = rate * (1 - rate) / spread**2 - 1
    return np.asarray(rng.beta(rate * weight, (1 - rate) * weight, n))


def estimate_spread(release: Release) -> float:
    """The spread of a release's participants, by the mean product of their answers about a pair.

    UnreadableInput: the release names no systems, or no participant compared two systems twice.
    """
    names = release.sets.get("system", pd.Series(dtype=object)).dropna().unique()
    compared = compared_systems(release.preferences, sorted(names))
    first, second = compared["first"], compared["second"]
    share = np.choose(compared["preferred"].to_numpy(), (0.5, 1.0, 0.0))
    table = pd.DataFrame(
        {
            "pair": np.minimum(first, second) * len(names) + np.maximum(first, second),
            "person": compared["participant_id"],
            "won": np.where(first < second, share, 1 - share),
        }
    )
    table["deviation"] = table["won"] - table.groupby("pair")["won"].transform("mean")
    groups = table.groupby(["pair", "person"])["deviation"]
    sums, sizes = groups.sum(), groups.size()
    squares = table["deviation"].pow(2).groupby([table["pair"], table["person"]]).sum()
    products = float((sizes * (sizes - 1)).sum())
    if products == 0:
        raise UnreadableInput(
            release.folder,
            "does not show how participants' preferences between systems differ",
            "no participant compared two named systems twice: leave out --from",
        )
    return float(np.sqrt(max(0.0, float((sums**2 - squares).sum()) / products)))
