"""The reliability of the scores and of each participant, and agreement on the same sets.

Reliability is the share of the scores' variance that is due to what was scored. Raters differ from
set to set, so the model is the one-way random one: ICC(1) of a single rating
and ICC(1,n) of the mean of n raters (Shrout and Fleiss 1979). Sets themselves explain no more of
the variance than this share, so no metric of sets correlates with the scores more than its square
root: the attenuation bound (Spearman 1904).

The interval is that of `two_way_interval` on ln(MSB / MSW).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from math import exp, isnan, sqrt

import numpy as np
import pandas as pd
from scipy import stats

from hsfiq.analysis.data.columns import looked_up
from hsfiq.analysis.data.metrics import MetricValues
from hsfiq.analysis.data.release import Release
from hsfiq.analysis.json_results import UNDEFINED, FloatArray, JsonRecord, json_value
from hsfiq.analysis.people.agreement import (
    MIN_UNITS,
    Agreement,
    agreement,
    at_ends,
    few_units,
    has_identical_sets,
    kappa,
    preference_ratings,
    score_ratings,
    shared_ratings,
    two_way_interval,
)
from hsfiq.analysis.resampling.bootstrap import Bootstrap, Estimate
from hsfiq.analysis.resampling.intervals import LEVEL, ConfidenceInterval
from hsfiq.analysis.statistics.correlation import (
    Correlation,
    participant_rhos,
    spearman,
    with_values,
)
from hsfiq.analysis.statistics.preference import Rate, preference_rates

N_RATERS = (1, 2, 3, 4, 5)
NO_VARIANCE = "all scores are the same"


@dataclass(frozen=True)
class MeanOfRaters(JsonRecord):
    """The mean score of several raters.

    Attributes:
        reliability: ICC(1,n), by Spearman and Brown from ICC(1).
        bound: its square root, the highest possible correlation of a metric with the mean.
    """

    n_raters: int
    reliability: Estimate
    bound: Estimate


@dataclass(frozen=True)
class Reliability(JsonRecord):
    """The reliability of scores; n counts the ratings of units that two or more people judged.

    Attributes:
        means: for 1 to 5 raters; the first is ICC(1) of a single rating.
        rho_bound: the highest possible rho of a metric with the scores of single raters: the square
            root of ICC(1) of the mid-ranks, which rho is computed from.
    """

    means: tuple[MeanOfRaters, ...]
    rho_bound: Estimate

    @property
    def single(self) -> Estimate:
        return self.means[0].reliability


def reliability(ratings: pd.DataFrame) -> Reliability:
    """Measure the reliability of ratings, arranged as for `agreement`.

    All figures are NaN, with a reason, with fewer than `MIN_UNITS` units that two people judged, or
    if all ratings are the same.
    """
    table = shared_ratings(ratings)
    n_units = table["unit"].nunique()
    if n_units < MIN_UNITS:
        single = Estimate(UNDEFINED, len(table), None, few_units(n_units))
    else:
        single = icc1(table)
    means = []
    for n in N_RATERS:
        of_mean = mapped(single, partial(spearman_brown, n_raters=n))
        means.append(MeanOfRaters(n, of_mean, mapped(of_mean, attenuation_bound)))
    by_ranks = single if isnan(single.value) else icc1(table.assign(value=table["value"].rank()))
    return Reliability(tuple(means), mapped(by_ranks, attenuation_bound))


def icc1(table: pd.DataFrame) -> Estimate:
    """ICC(1) by one-way analysis of variance, for units with any numbers of raters from two.

    r = (MSB - MSW) / (MSB + (k - 1) MSW), with k = (N - sum k_i^2 / N) / (units - 1).
    The rows of `table` are as for `agreement`, one for each rater of a unit.
    """
    terms = unit_terms(table)
    k, between, within = mean_squares(terms.sum(axis=0)[None])[:, 0]
    spread = between + (k - 1) * within
    if not spread > 1e-12:
        return Estimate(UNDEFINED, len(table), None, NO_VARIANCE)
    return Estimate(float((between - within) / spread), len(table), _interval(table, terms))


def mean_squares(sums: FloatArray) -> FloatArray:
    """The k, MSB and MSW of several samples, (3, n), from (n, 6) sums of their units.

    The sums are the numbers of units and ratings, the sums of k_i^2, of the values, of their
    squares, and of (sum of a unit's values)^2 / k_i.
    """
    units, n, squared_sizes, total, squares, by_unit = sums.T
    with np.errstate(invalid="ignore", divide="ignore"):
        k = (n - squared_sizes / n) / (units - 1)
        between = (by_unit - total**2 / n) / (units - 1)
        within = np.maximum(squares - by_unit, 0.0) / (n - units)
    return np.stack([k, between, within])


def spearman_brown(single: float, n_raters: int) -> float:
    """The reliability of the mean of n raters: n r / (1 + (n - 1) r); as r if r is not positive."""
    return n_raters * single / (1 + (n_raters - 1) * single) if single > 0 else single


def attenuation_bound(reliability: float) -> float:
    """The square root; 0 for a negative reliability."""
    return sqrt(max(reliability, 0.0))


def mapped(estimate: Estimate, function: Callable[[float], float]) -> Estimate:
    """An increasing function of an estimate, and of the ends of its interval."""
    ci = estimate.ci if estimate.ci is None else at_ends(estimate.ci, function)
    value = estimate.value if isnan(estimate.value) else function(estimate.value)
    return replace(estimate, value=value, ci=ci)


def unit_terms(table: pd.DataFrame) -> FloatArray:
    """What each unit adds to the sums of `mean_squares`, (n_units, 6); values are standardized."""
    values = table["value"].to_numpy(np.float64)
    values = (values - values.mean()) / (values.std() or 1.0)
    unit = pd.factorize(table["unit"])[0]
    sizes = np.bincount(unit).astype(np.float64)
    sums, squares = np.bincount(unit, values), np.bincount(unit, values**2)
    return np.stack([np.ones_like(sizes), sizes, sizes**2, sums, squares, sums**2 / sizes], axis=1)


def _interval(table: pd.DataFrame, terms: FloatArray) -> ConfidenceInterval:
    total = terms.sum(axis=0)
    (log_ratio,) = log_mean_squares(total[None])
    interval = two_way_interval(table, float(log_ratio), log_mean_squares(total - terms))
    k = mean_squares(total[None])[0, 0]
    return at_ends(interval, lambda end: (exp(end) - 1) / (exp(end) + k - 1))


def log_mean_squares(sums: FloatArray) -> FloatArray:
    """ln(MSB / MSW) of each sample, (n, 6) -> (n,)."""
    _, between, within = mean_squares(sums)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.log(between) - np.log(within))


# Sets that several people judged: how far people agree, and what a metric could reach at most.
#
# The score of one other annotator of the same set is compared with each person's own answers as if
# it were a metric. That is no upper bound: the mean of several annotators predicts better, and so
# may a metric. The bound is the square root of the reliability (see `reliability`).

MORE_THAN_TWO = 3
"""From this number of annotators of a set on, the mean of the others differs from one other."""


@dataclass(frozen=True)
class Prediction(JsonRecord):
    """The agreement of a predictor with answers about sets that several people judged."""

    spearman: Correlation
    tie_half: Rate


@dataclass(frozen=True)
class Overlap(JsonRecord):
    """Agreement of people about sets that several of them judged, and metrics on the same sets.

    Attributes:
        n_sets: the number of judged sets that another person judged, too.
        other_annotator: the score by one other annotator, as a predictor.
        other_annotators: the mean score of all others; None if no set has more than two annotators.
        metrics: by name, each metric on the same sets and pairs.
        scores, preferences: Krippendorff's alpha, ordinal and nominal.
        kappa: of "scores", with quadratic weights, and of "preferences".
        n_identical: how many questions with two identical sets the alpha of preferences leaves out.
        reliability: of the scores.
    """

    n_sets: int
    n_participants: int
    other_annotator: Prediction
    other_annotators: Prediction | None
    metrics: Mapping[str, Prediction]
    scores: Agreement
    preferences: Agreement
    kappa: Mapping[str, Estimate]
    n_identical: int
    reliability: Reliability

    @property
    def predictors(self) -> dict[str, Prediction]:
        """The other annotators, then the metrics, by their names in reports."""
        everybody = self.other_annotators
        people = {} if everybody is None else {"mean of all other annotators": everybody}
        return {"one other annotator": self.other_annotator, **people, **self.metrics}

    def to_json(self) -> dict[str, object]:
        everybody = self.other_annotators
        return {
            "n_sets": self.n_sets,
            "n_participants": self.n_participants,
            "other_annotator": self.other_annotator.to_json(),
            **({} if everybody is None else {"other_annotators": everybody.to_json()}),
            "metrics": json_value(self.metrics),
            "alpha": {
                "scores": self.scores.to_json(),
                "preferences": self.preferences.to_json(),
                "n_identical": self.n_identical,
            },
            "kappa": json_value(self.kappa),
            "reliability": self.reliability.to_json(),
        }


def overlap(release: Release, values: MetricValues, bootstrap: Bootstrap) -> Overlap:
    """Compare people with each other.

    Figures are NaN, with a reason, with fewer than `MIN_UNITS` sets, or for rates pairs of sets,
    that two people judged.
    """
    units, triplets = release.units, release.triplets
    next_person, everybody = one_other(release.sets, units), others_mean(release.sets, units)
    is_shared = everybody.notna()
    shared = release.sets[is_shared.to_numpy()]
    metrics = {
        name: own.where(looked_up(own.index.to_series(), is_shared)) for name, own in values.items()
    }
    ratings = score_ratings(release.sets, units, triplets)
    preferred = preference_ratings(release.preferences, units, triplets)
    scores = agreement(ratings, "ordinal")
    n_units, n_pairs = scores.n_units, _shared_pairs(release.preferences, units, is_shared)

    def predict(values: pd.Series[float]) -> Prediction:
        return _prediction(release, values, bootstrap, n_units, n_pairs)

    n_annotators = ratings.groupby("unit")["rater"].nunique()
    return Overlap(
        n_sets=len(shared),
        n_participants=int(shared["participant_id"].nunique()),
        other_annotator=predict(next_person),
        other_annotators=predict(everybody) if (n_annotators >= MORE_THAN_TWO).any() else None,
        metrics={name: predict(own) for name, own in metrics.items()},
        scores=scores,
        preferences=agreement(preferred, "nominal"),
        kappa={"scores": kappa(ratings, "ordinal"), "preferences": kappa(preferred, "nominal")},
        n_identical=int(has_identical_sets(release.preferences, units).sum()),
        reliability=reliability(ratings),
    )


def others_mean(sets: pd.DataFrame, units: pd.Series[int]) -> pd.Series[float]:
    """The mean of the other participants' scores of the same unit (see `set_units`), (n,).

    Indexed by set_id; NaN if nobody else judged the set.
    """
    table = sets.assign(unit=units.to_numpy(), score=sets["score"].astype("float64"))
    total = table.groupby("unit")["score"]
    own = table.groupby(["unit", "participant_id"])["score"]
    n_others = total.transform("size") - own.transform("size")
    sum_of_others = total.transform("sum") - own.transform("sum")
    means = (sum_of_others / n_others.where(n_others > 0)).to_numpy(dtype=np.float64)
    return pd.Series(means, index=pd.Index(sets["set_id"]))


def one_other(sets: pd.DataFrame, units: pd.Series[int]) -> pd.Series[float]:
    """The score that the next participant gave to the same unit (see `set_units`), (n,).

    The next by id, after the last the first, so that each participant predicts one other. Of a
    participant who judged a unit twice, the first score counts. Indexed by set_id; NaN if nobody
    else judged the set.
    """
    keys = ["unit", "participant_id"]
    table = sets.assign(unit=units.to_numpy(), score=sets["score"].astype("float64"))
    people = table.drop_duplicates(keys).sort_values(keys)
    by_unit = people.groupby("unit")
    following = by_unit["score"].shift(-1).fillna(by_unit["score"].transform("first"))
    following = following.where(by_unit["score"].transform("size") > 1)
    scores = pd.Series(following.to_numpy(), index=pd.MultiIndex.from_frame(people[keys]))
    return pd.Series(
        scores.reindex(pd.MultiIndex.from_frame(table[keys])).to_numpy(),
        index=pd.Index(sets["set_id"]),
    )


def _shared_pairs(
    preferences: pd.DataFrame, units: pd.Series[int], is_shared: pd.Series[bool]
) -> int:
    """The number of distinct pairs whose two sets another person judged, too."""
    shared = units[is_shared.to_numpy()]
    first, second = (looked_up(preferences[side], shared) for side in ("set_1", "set_2"))
    pairs = pd.DataFrame({"low": np.minimum(first, second), "high": np.maximum(first, second)})
    return len(pairs.dropna().drop_duplicates())


def _prediction(
    release: Release, values: pd.Series[float], bootstrap: Bootstrap, n_units: int, n_pairs: int
) -> Prediction:
    if n_units < MIN_UNITS:
        rho = spearman(release.sets, values)
        reason = few_units(n_units)
        correlation = Correlation(UNDEFINED, UNDEFINED, rho.n, rho.n_clusters, reason)
    else:
        correlation = spearman(release.sets, values, bootstrap)
    if n_pairs < MIN_UNITS:
        rate = preference_rates(release.preferences, values).tie_half
        undefined = Rate(
            UNDEFINED, rate.n, rate.coverage, few_units(n_pairs, "pair of sets", "pairs of sets")
        )
        return Prediction(correlation, undefined)
    return Prediction(
        correlation, preference_rates(release.preferences, values, bootstrap).tie_half
    )


# How reliable each participant is, judged by the other annotators of the same sets.
#
# A participant's own figure is Spearman's rho between their scores and the mean of the others'.
# Over few sets it varies by chance, so it is also shrunk towards the mean of all participants:
# empirical Bayes for normal means (Morris 1983, "Parametric Empirical Bayes Inference"), on z =
# atanh(rho) of variance v = (1 + rho^2 / 2) / (n - 3) (Bonett and Wright 2000, at the mean rho):
#
#     shrunk = z + B (mean - z), with B = (m - 3) / (m - 1) v / (v + A) for m participants,
#     variance = v (1 - (m - 1) / m B) + 2 / (m - 3) B^2 (z - mean)^2,
#
# where the variance A between participants is that of DerSimonian and Laird (1986).

MIN_PEOPLE = 5
"""The formula needs more than three participants; with fewer than five it is uninformative."""
LARGEST_RHO = 0.999  # atanh(1) is infinite
COLUMNS = ("n_shared", "with_others", "reliability", "reliability_low", "reliability_high")


def participant_reliability(sets: pd.DataFrame, units: pd.Series[int]) -> pd.DataFrame:
    """Each participant's agreement with the others, raw and shrunk, indexed by participant.

    Columns: `n_shared`, the sets that others judged too; `with_others`, rho on them, NaN with fewer
    than `MIN_UNITS`; `reliability` and the ends of its 95 % interval, NaN also with fewer than
    `MIN_PEOPLE` participants. The units are what `set_units` returned.
    """
    shared = with_values(sets, others_mean(sets, units))
    shared = shared.assign(unit=looked_up(shared["set_id"], units))
    shared = shared.drop_duplicates(["participant_id", "unit"])
    people = pd.Index(sorted(sets["participant_id"].unique()))
    n = shared.groupby("participant_id").size().reindex(people, fill_value=0)
    rhos = participant_rhos(shared).reindex(people).astype("float64").where(n >= MIN_UNITS)
    table = pd.DataFrame({"n_shared": n, "with_others": rhos}).reindex(columns=[*COLUMNS])
    known = rhos.notna()
    if known.sum() >= MIN_PEOPLE:
        own, sizes = (np.asarray(column[known], dtype=np.float64) for column in (rhos, n))
        table.loc[known, list(COLUMNS[2:])] = shrunk(own, sizes)
    return table.astype("float64")


def shrunk(rhos: FloatArray, n: FloatArray) -> FloatArray:
    """Shrink correlations of n > 3 rows each towards their mean.

    Returns (m, 3): the shrunk correlation and the ends of its interval, for m > 3 correlations.
    """
    m = len(rhos)
    z = np.arctanh(np.clip(rhos, -LARGEST_RHO, LARGEST_RHO))
    v = (1 + float(np.mean(rhos)) ** 2 / 2) / (n - 3)
    between = variance_between(z, v)
    weights = 1 / (v + between)
    mean = (weights * z).sum() / weights.sum()
    share = (m - 3) / (m - 1) * v / (v + between)
    centre = z + share * (mean - z)
    variance = v * (1 - (m - 1) / m * share) + 2 / (m - 3) * share**2 * (z - mean) ** 2
    half = float(stats.norm.ppf((1 + LEVEL) / 2)) * np.sqrt(variance)
    return np.asarray(np.tanh(np.stack([centre, centre - half, centre + half], axis=1)))


def variance_between(values: FloatArray, variances: FloatArray) -> float:
    """The variance of m true values, given estimates with known variances; never negative."""
    weights = 1 / variances
    mean = (weights * values).sum() / weights.sum()
    q = (weights * (values - mean) ** 2).sum()
    scale = weights.sum() - (weights**2).sum() / weights.sum()
    return float(max(0.0, (q - (len(values) - 1)) / scale))
