"""Agreement between people: Krippendorff's alpha, kappa, and the units that several people judge.

A unit is an object that several people may have judged: for scores, the same images in the same
order for the same triplet (`set_units`); for preferences, the same two sets, on
whichever sides they were shown (`preference_ratings`). The queries of a triplet differ only in how
its captions are joined, so they count as one. The owner's studio calls these functions too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import exp, isfinite, isnan, sqrt
from typing import Literal

import evalica
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse, stats

from hsfiq.analysis.data.columns import looked_up
from hsfiq.analysis.data.release import Release
from hsfiq.analysis.json_results import UNDEFINED, FloatArray, JsonRecord
from hsfiq.analysis.resampling.bootstrap import (
    Bootstrap,
    Estimate,
    errors_of_mean,
    indicator_matrix,
    ratio,
)
from hsfiq.analysis.resampling.intervals import CORRELATION, LEVEL, RATE, ConfidenceInterval
from hsfiq.text import count_text

# The interval of a figure of agreement, whose ratings depend on each other in two ways.
#
# What was found on two units is dependent if they share a triplet or an annotator. So the interval
# counts the influences of such units together (as Aronow, Samii and Assenova 2015 do for pairs of
# people), with Student's t.

FEWEST_CLUSTERS = 3
BLOCK_SIZE = 1000  # rows whose neighbours are held in memory at once
METHOD = "two-way cluster-robust"


def two_way_interval(
    table: pd.DataFrame, whole: float, without_each: FloatArray
) -> ConfidenceInterval:
    """The interval of a figure on a scale without bounds; NaN, with a reason, if undefined.

    Args:
        table: the ratings, one for each rater of a `unit`, with its `rater` and `cluster`.
        whole: the figure.
        without_each: (n_units,) the figure without each unit, in the order in which they occur.
    """
    n_clusters = int(min(table[name].nunique() for name in ("cluster", "rater")))
    low = high = UNDEFINED
    reason = None
    if n_clusters < FEWEST_CLUSTERS:
        reason = f"an interval needs {FEWEST_CLUSTERS} triplets and participants"
    elif not isfinite(whole):
        reason = "annotators of the same set agree completely, so the variance is unknown"
    elif not np.isfinite(without_each).all():
        reason = "annotators agree or disagree on one set only, so the variance is unknown"
    else:
        variance = two_way_variance(table, whole - without_each) * n_clusters / (n_clusters - 1)
        margin = float(stats.t.ppf((1 + LEVEL) / 2, n_clusters - 1)) * sqrt(variance)
        low, high = whole - margin, whole + margin
    return ConfidenceInterval(
        low=low,
        high=high,
        level=LEVEL,
        method=METHOD,
        unit="participant x triplet",
        n_clusters=n_clusters,
        n_resamples=0,
        n_undefined=0,
        seed=0,
        reason=reason,
    )


def at_ends(interval: ConfidenceInterval, function: Callable[[float], float]) -> ConfidenceInterval:
    """The interval of an increasing function of the figure."""
    if isnan(interval.low):
        return interval
    return replace(interval, low=float(function(interval.low)), high=float(function(interval.high)))


def two_way_variance(table: pd.DataFrame, influences: FloatArray) -> float:
    """The sum of u_i u_j over all pairs of units that share a triplet or a rater.

    Args:
        table: as for `two_way_interval`.
        influences: (n_units,) u, of the units in the order in which they first occur.
    """
    unit = pd.factorize(table["unit"])[0]
    first = ~pd.Series(unit).duplicated().to_numpy()
    raters, triplets = (pd.factorize(table[name])[0] for name in ("rater", "cluster"))
    both = pd.factorize(raters * (triplets.max() + 1) + triplets)[0]
    n = len(influences)
    by_triplet = indicator_matrix(triplets[first], int(triplets.max()) + 1).T @ influences
    by_both = _incidence(unit, both, n)
    variance = float((by_triplet**2).sum())
    variance -= _sum_over_neighbours(by_both, influences)  # they share a rater, too
    of_unit = _incidence(unit, raters, n)
    sets_of_raters = [row.tobytes() for row in _columns(of_unit)]
    same_raters = pd.factorize(pd.Series(sets_of_raters, dtype=object))[0]
    _, one_unit = np.unique(same_raters, return_index=True)
    by_raters = np.bincount(same_raters, influences).astype(np.float64)
    variance += _sum_over_neighbours(of_unit[one_unit], by_raters)
    return max(variance, float((influences**2).sum()))


def _incidence(rows: NDArray[np.intp], columns: NDArray[np.intp], n_rows: int) -> sparse.csr_array:
    """1 in each (row, column), (n_rows, n_columns)."""
    matrix = sparse.csr_array(
        (np.ones(len(rows)), (rows, columns)), shape=(n_rows, int(columns.max()) + 1)
    )
    matrix.sort_indices()
    return matrix


def _columns(matrix: sparse.csr_array) -> list[NDArray[np.intp]]:
    """The columns of each row's entries, in order."""
    return np.split(matrix.indices, matrix.indptr[1:-1])


def _sum_over_neighbours(matrix: sparse.csr_array, values: FloatArray) -> float:
    """The sum of u_i u_j over all rows i and j of the matrix that have an entry in one column."""
    total = 0.0
    for start in range(0, len(values), BLOCK_SIZE):
        shared = (matrix[start : start + BLOCK_SIZE] @ matrix.T).tocsr()
        shared.data[:] = 1.0
        total += float(values[start : start + BLOCK_SIZE] @ (shared @ values))
    return total


Level = Literal["nominal", "ordinal"]

MIN_UNITS = 10
"""With fewer units, figures of agreement are uninformative and are not printed."""


@dataclass(frozen=True)
class Agreement(JsonRecord):
    """Krippendorff's alpha: 1 is full agreement, 0 chance agreement, below 0 less than chance.

    Attributes:
        ci: its interval, of participants and triplets (see `two_way`); None if alpha is undefined.
        n_units: the number of units that at least two people have judged.
        n_ratings: the number of judgements of these units.
        reason: why alpha is NaN.
    """

    alpha: float
    ci: ConfidenceInterval | None
    n_units: int
    n_ratings: int
    reason: str | None = None


def score_ratings(
    sets: pd.DataFrame, units: pd.Series[int], triplets: pd.Series[str]
) -> pd.DataFrame:
    """Arrange scores for `agreement`; the units are what `set_units` returned."""
    return pd.DataFrame(
        {
            "rater": sets["participant_id"],
            "unit": looked_up(sets["set_id"], units),
            "cluster": looked_up(sets["query_id"], triplets),
            "value": sets["score"],
        }
    )


def preference_ratings(
    preferences: pd.DataFrame, units: pd.Series[int], triplets: pd.Series[str]
) -> pd.DataFrame:
    """Arrange preferences for `agreement`; a unit is a pair of sets, on whichever sides.

    The value is 1 if the set with the lower number is preferred, 2 for the other, 0 for a tie.
    Questions with two identical sets are left out: which of the sets is preferred is unknown when
    they differ only in the side.
    """
    preferences = preferences[~has_identical_sets(preferences, units)]
    first, second = (looked_up(preferences[side], units) for side in ("set_1", "set_2"))
    pairs = np.minimum(first, second) * (units.max() + 1) + np.maximum(first, second)
    preferred = preferences["preferred"]
    swapped = (3 - preferred).where(preferred != 0, 0)
    return pd.DataFrame(
        {
            "rater": preferences["participant_id"],
            "unit": pd.factorize(pairs)[0],
            "cluster": looked_up(preferences["query_id"], triplets),
            "value": preferred.where(first <= second, swapped),
        }
    )


def has_identical_sets(preferences: pd.DataFrame, units: pd.Series[int]) -> pd.Series[bool]:
    """Whether a question's two sets have the same images in the same order, (n_questions,)."""
    first, second = (looked_up(preferences[side], units) for side in ("set_1", "set_2"))
    result: pd.Series[bool] = first == second
    return result


def agreement(ratings: pd.DataFrame, level: Level) -> Agreement:
    """Measure how far raters agree.

    Args:
        ratings: (n, ...) with `rater`, `unit` (the judged object), `cluster` (the
            unit's triplet) and `value` (numbers). If one rater judged a unit twice, the first
            judgement counts.
        level: `ordinal` for scores, `nominal` for preferences.

    Returns:
        Alpha with its interval; NaN, with a reason, if fewer than `MIN_UNITS` units have two
        judgements, or if all judgements are equal (chance alone would agree).
    """
    table = shared_ratings(ratings)
    sizes = (int(table["unit"].nunique()), len(table))
    if sizes[0] < MIN_UNITS:
        return Agreement(UNDEFINED, None, *sizes, few_units(sizes[0]))
    if table["value"].nunique() == 1:
        reason = "all judgements are the same, so alpha is not defined"
        return Agreement(UNDEFINED, None, *sizes, reason)
    matrix = table.pivot_table(index="rater", columns="unit", values="value")
    alpha = float(evalica.alpha(matrix, distance=level).alpha)
    return Agreement(alpha, _interval(table, level), *sizes)


def _interval(table: pd.DataFrame, level: Level) -> ConfidenceInterval:
    by_unit = coincidences(table)
    total = by_unit.sum(axis=0)
    return _log_interval(table, alphas(np.concatenate([total[None], total - by_unit]), level))


def _log_interval(table: pd.DataFrame, figures: FloatArray) -> ConfidenceInterval:
    """From -ln(observed / expected disagreement), which has no bounds.

    `figures` (1 + n_units,) are alpha or kappa, of all units and without each.
    """
    scaled = _log_scale(figures)
    interval = two_way_interval(table, float(scaled[0]), scaled[1:])
    return at_ends(interval, lambda end: 1 - exp(-end))


def _log_scale(alpha: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore"):
        return np.asarray(-np.log(1 - alpha))


# Cohen's kappa, of more than two people who did not all judge the same units.
#
# Kappa is 1 - observed / expected disagreement. The expected one of two people is what their own
# frequencies of each value give if they judge independently (Cohen 1960). Of more people, it is the
# mean over all pairs of them (Conger 1980), and the observed one is the mean over the units of the
# mean over the pairs of people who judged the unit (Gwet 2014, for ratings that are missing).
# Disagreement is the squared difference of scores (quadratic weights, Cohen 1968), and 1 between
# different preferences, of which a tie is one. Alpha differs in that it expects the frequencies
# of everybody together, so kappa does not count it as disagreement by chance that people use the
# scale differently.


def kappa(ratings: pd.DataFrame, level: Level) -> Estimate:
    """Measure how far two of the raters agree beyond chance; arguments as those of `agreement`.

    Kappa from n units with its interval; NaN, with a reason, if alpha is NaN.
    """
    table = shared_ratings(ratings)
    n_units = int(table["unit"].nunique())
    if n_units < MIN_UNITS:
        return Estimate(UNDEFINED, n_units, None, few_units(n_units))
    if table["value"].nunique() == 1:
        reason = "all judgements are the same, so kappa is not defined"
        return Estimate(UNDEFINED, n_units, None, reason)
    figures = kappas(table, level)
    return Estimate(float(figures[0]), n_units, _log_interval(table, figures))


def kappas(table: pd.DataFrame, level: Level) -> FloatArray:
    """Kappa of all units, then without each of them in the order in which they occur.

    The table has two or more raters of each unit, each once. Returns (1 + n_units,).
    """
    unit, rater = (pd.factorize(table[name])[0] for name in ("unit", "rater"))
    values = table["value"].to_numpy(np.float64)[:, None]
    if level == "nominal":  # vectors of one squared distance
        values = (values == np.unique(values)).astype(np.float64)
    ratings = np.column_stack([np.ones(len(values)), (values**2).sum(axis=1), values])
    by_unit, by_rater = (indicator_matrix(each, each.max() + 1).T for each in (unit, rater))
    size, squares, *vectors = (by_unit @ ratings).T
    observed = (size * squares - np.square(vectors).sum(axis=0)) / (size * (size - 1))
    of_rater = by_rater @ ratings
    terms, fewer = _rater_terms(of_rater), _rater_terms(of_rater[rater] - ratings)
    total = terms.sum(axis=0)
    sums = np.vstack([total, total - by_unit @ (terms[rater] - fewer)])
    n, squares, *vectors, own = sums.T
    expected = (squares - (np.square(vectors).sum(axis=0) - own) / (n - 1)) / n
    without_each = (observed.sum() - observed) / (len(observed) - 1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(1 - np.append(observed.mean(), without_each) / expected)


def _rater_terms(sums: FloatArray) -> FloatArray:
    """1, mean squared norm, mean vector and its squared norm of each rater; 0 without a rating.

    The sums (n, 2 + d) are of 1, of the squared norms and of the vectors of the ratings.
    """
    means = ratio(sums, np.broadcast_to(sums[:, :1], sums.shape))
    terms = np.column_stack([means, np.square(means[:, 2:]).sum(axis=1)])
    return np.asarray(np.nan_to_num(terms))


def shared_ratings(ratings: pd.DataFrame) -> pd.DataFrame:
    """The ratings of units that two or more people judged; of one person's, the first counts."""
    single = ratings[ratings["value"].notna()].drop_duplicates(["rater", "unit"])
    n_raters = single.groupby("unit")["rater"].transform("size")
    return single[n_raters > 1]


def few_units(n_units: int, unit: str = "thing", plural: str | None = None) -> str:
    """Why a figure of agreement is undefined with this number of units."""
    if n_units == 0:
        return "no unit has been judged by two people"
    has = "has" if n_units == 1 else "have"
    return (
        f"only {count_text(n_units, unit, plural)} {has} been judged by two people; at least "
        f"{MIN_UNITS} are needed"
    )


def coincidences(table: pd.DataFrame) -> FloatArray:
    """Count how often two values occur together in each unit, (units, values, values).

    A unit with m judgements gives each ordered pair of them the weight 1 / (m - 1), as in
    Krippendorff's definition; units are in the order in which they occur, values in increasing
    order.
    """
    counts = table.groupby(["unit", "value"]).size().unstack("value", fill_value=0)
    by_unit = counts.loc[table["unit"].unique()].to_numpy(dtype=np.float64)
    together = by_unit[:, :, None] * by_unit[:, None, :]
    diagonal = np.arange(by_unit.shape[1])
    together[:, diagonal, diagonal] -= by_unit
    return np.asarray(together / (by_unit.sum(axis=1) - 1)[:, None, None])


def alphas(coincidences: FloatArray, level: Level) -> FloatArray:
    """Alpha of each table of coincidences, (n, values, values) -> (n,)."""
    totals = coincidences.sum(axis=2)
    distance = squared_distances(totals, level)
    observed = (coincidences * distance).sum(axis=(1, 2))
    expected = (totals[:, :, None] * totals[:, None, :] * distance).sum(axis=(1, 2))
    with np.errstate(invalid="ignore", divide="ignore"):
        result: FloatArray = 1 - (totals.sum(axis=1) - 1) * observed / expected
    result[expected == 0] = np.nan
    return result


def squared_distances(totals: FloatArray, level: Level) -> FloatArray:
    """The squared distance of any two values, (n, values, values).

    Nominal: 1 between different values. Ordinal: the number of judgements between the two, where
    those of the two values themselves count half; `totals` (n, values) counts them.
    """
    if level == "nominal":
        different = 1 - np.eye(totals.shape[1])
        return np.broadcast_to(different, (len(totals), *different.shape))
    middles = np.cumsum(totals, axis=1) - totals / 2
    return np.asarray((middles[:, :, None] - middles[:, None, :]) ** 2)


# Agreement of people with themselves: two answers by one person about the same two sets.
#
# They come from repeated questions (the release's table `repeats`) and from sets that a participant
# was shown twice, such as those of a triplet with its captions in either order.

ANSWER = ["score_1", "score_2", "preferred"]
ALL_THE_SAME = "all scores are the same"


@dataclass(frozen=True)
class IntraRater(JsonRecord):
    """The consistency of people's answers to repeated questions.

    Attributes:
        n: the number of pairs of answers.
        same_preference: the share of the pairs with the same preferred set.
        kappa: Cohen's kappa of the two scores of a set with quadratic weights; n counts sets.
    """

    n: int
    n_participants: int
    same_preference: Estimate
    kappa: Estimate


def intra_rater(release: Release, bootstrap: Bootstrap) -> IntraRater:
    """Compare people's repeated answers; NaN, with a reason, for fewer than `MIN_UNITS` pairs."""
    pairs = repeated_answers(release)
    n, n_participants = len(pairs), int(pairs["participant_id"].nunique())
    if n < MIN_UNITS:
        reason = (
            f"{count_text(n, 'question')} answered twice by the same person; at least {MIN_UNITS} "
            "are needed"
        )
        nothing = Estimate(UNDEFINED, n, None, reason)
        return IntraRater(n, n_participants, nothing, nothing)
    same = (pairs["preferred"] == pairs["preferred_again"]).to_numpy(np.float64)
    errors = errors_of_mean(same, np.ones(n))
    ci = bootstrap.mean_interval(float(same.mean()), pairs, errors, bounds=RATE)
    share = Estimate(float(same.mean()), n, ci)
    return IntraRater(n, n_participants, share, _kappa(pairs, bootstrap))


def repeated_answers(release: Release) -> pd.DataFrame:
    """Pairs of answers by one person about the same two sets.

    Columns: participant_id, query_id; score_1, score_2 and preferred of the first answer, and with
    `_again` those of the second, with the sides of the first.
    """
    preferences = release.preferences
    columns = ["question_id", "participant_id", "query_id", *ANSWER]
    units = release.units
    first, second = (looked_up(preferences[side], units) for side in ("set_1", "set_2"))
    answers = preferences[columns].assign(
        low=np.minimum(first, second), high=np.maximum(first, second), swapped=first > second
    )
    answers = answers[answers["low"] != answers["high"]]  # else the sides are not known
    keys = ["participant_id", "low", "high"]
    is_later = answers.duplicated(keys)
    pairs = [_no_pairs(preferences)]
    if is_later.any():  # seldom, and the joins take several times as long as all of the above
        firsts = answers[~is_later]
        later = mirrored(answers[is_later].merge(firsts, on=keys, suffixes=("", "_1")))
        pairs = [_side_by_side(firsts, later.rename(columns={"question_id_1": "repeated_id"}))]
    if release.repeats is not None:
        pairs.append(_side_by_side(preferences[columns], release.repeats))
    return pd.concat(pairs, ignore_index=True)


def _no_pairs(preferences: pd.DataFrame) -> pd.DataFrame:
    """What `_side_by_side` returns if no question was answered again."""
    none = preferences[["participant_id", "query_id", *ANSWER]].head(0)
    return none.assign(**{f"{name}_again": none[name] for name in ANSWER})


def mirrored(answers: pd.DataFrame) -> pd.DataFrame:
    """The answers with the sides of the first one, where those differ (`swapped`, `swapped_1`)."""
    turned = answers["swapped"] != answers["swapped_1"]
    preferred = answers["preferred"].mask(
        turned & (answers["preferred"] != 0), 3 - answers["preferred"]
    )
    return answers.assign(
        score_1=answers["score_1"].mask(turned, answers["score_2"]),
        score_2=answers["score_2"].mask(turned, answers["score_1"]),
        preferred=preferred,
    )


def _side_by_side(first: pd.DataFrame, again: pd.DataFrame) -> pd.DataFrame:
    columns = ["question_id", "participant_id", "query_id", *ANSWER]
    joined = first[columns].merge(
        again[["repeated_id", *ANSWER]].rename(columns={"repeated_id": "question_id"}),
        on="question_id",
        suffixes=("", "_again"),
    )
    return joined.drop(columns="question_id")


def _kappa(pairs: pd.DataFrame, bootstrap: Bootstrap) -> Estimate:
    first = pairs[["score_1", "score_2"]].to_numpy(np.float64)
    again = pairs[["score_1_again", "score_2_again"]].to_numpy(np.float64)
    n = first.size
    if np.ptp(np.concatenate([first, again])) == 0:
        return Estimate(UNDEFINED, n, None, ALL_THE_SAME)
    columns = _sums(first, again)
    kappa = float(weighted_kappa(columns.sum(axis=0)[None])[0])
    resampled = weighted_kappa(bootstrap.totals(pairs, columns))
    return Estimate(kappa, n, bootstrap.interval(resampled, pairs, bounds=CORRELATION))


def _sums(first: FloatArray, again: FloatArray) -> FloatArray:
    """What each pair adds to the sums of `weighted_kappa`, (n, 5)."""
    by_set = [np.ones_like(first), (first - again) ** 2, first, again, first**2 + again**2]
    return np.stack([each.sum(axis=1) for each in by_set], axis=1)


def weighted_kappa(sums: FloatArray) -> FloatArray:
    """Cohen's kappa with quadratic weights (Cohen 1968) of scores x and y, (m, 5) -> (m,).

    1 - mean (x - y)^2 / (mean x^2 + mean y^2 - 2 mean x mean y), where the denominator is the mean
    of (x - y)^2 if x and y were independent. The sums are of 1, (x - y)^2, x, y and x^2 + y^2.
    """
    n, squared, x, y, squares = sums.T
    with np.errstate(invalid="ignore", divide="ignore"):
        expected = squares / n - 2 * (x / n) * (y / n)
        kappa: FloatArray = 1 - (squared / n) / expected
    kappa[~(expected > 1e-12)] = np.nan
    return kappa
