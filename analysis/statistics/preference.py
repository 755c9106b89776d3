"""Preference rates: how often people prefer the set that a metric ranks first.

Each rate is defined once, by a function that returns its `RateTerms`; every statistic that uses
the rate (comparisons, margins, the other annotators, sensitivity) calls that function.

The published rates condition on set 1 alone, and set 1 and set 2 are only labels. So they are
reported beside the same rates with the labels swapped, the symmetric rate, and the base rate
P(set 1 preferred), which an uninformative metric also reaches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from hsfiq.analysis.data.columns import has_preference, metric_difference
from hsfiq.analysis.json_results import UNDEFINED, BoolArray, FloatArray, JsonRecord, json_value
from hsfiq.analysis.resampling.bootstrap import Bootstrap, errors_of_mean
from hsfiq.analysis.resampling.intervals import LEVEL, RATE, ConfidenceInterval

# Position bias: whether people prefer a set because it is shown as set 1.


@dataclass(frozen=True)
class PositionBias(JsonRecord):
    """P(set 1 preferred) against one half, over the n questions with a preference.

    Attributes:
        p: two-sided exact binomial test of rate = 1/2.
        human_ties: the number of questions excluded because neither set is preferred.
        p_clustered: two-sided exact sign-flip test over the participants (see `sign_flip_p`).
        n_participants: the number of participants with a preference.
        ci: the clustered interval of rate; None without a bootstrap.
    """

    rate: float
    n: int
    p: float
    human_ties: int
    p_clustered: float
    n_participants: int
    ci: ConfidenceInterval | None = None
    reason: str | None = None


def position_bias(preferences: pd.DataFrame, bootstrap: Bootstrap | None = None) -> PositionBias:
    """Measure the position bias; NaN, with a reason, if no question has a preference.

    `preferences` (n, ...) have `participant_id`, `preferred` (1, 2, or 0 for a human tie) and, for
    the bootstrap, `query_id`.
    """
    rows, set_1, _ = usable_pairs(preferences)
    n, n_set_1 = len(rows), int(set_1.sum())
    human_ties = len(preferences) - n
    terms = base_rate(set_1)
    ci = None
    if bootstrap is not None:
        ci = bootstrap.mean_interval(terms.rate, rows, terms.errors, bounds=RATE)
    if n == 0:
        reason = "no question has a preference"
        return PositionBias(UNDEFINED, 0, UNDEFINED, human_ties, UNDEFINED, 0, ci, reason)
    participants = pd.factorize(rows["participant_id"], sort=True)[0]
    leads = np.bincount(participants, weights=np.where(set_1, 1, -1))
    return PositionBias(
        rate=terms.rate,
        n=n,
        p=float(stats.binomtest(n_set_1, n).pvalue),
        human_ties=human_ties,
        p_clustered=sign_flip_p(leads.astype(np.int64)),
        n_participants=len(leads),
        ci=ci,
    )


def sign_flip_p(leads: NDArray[np.int64]) -> float:
    """Test that the sides do not matter, keeping each participant's answers together.

    If the sides were only labels, each participant's lead of set 1 over set 2 would be as likely to
    have the opposite sign. p is the share of all sign patterns whose sum of `leads` (participants,)
    is at least as far from 0 as the observed one, counted exactly.
    """
    # The probability of each sum from -reach to reach, in steps of 2: all sums have one parity.
    probabilities = np.ones(1)
    for lead in np.abs(leads):
        wider = np.zeros(len(probabilities) + lead)
        wider[: len(probabilities)] += probabilities / 2
        wider[lead:] += probabilities / 2
        probabilities = wider
    reach = len(probabilities) - 1
    sums = np.abs(2 * np.arange(len(probabilities)) - reach)
    return min(1.0, float(probabilities[sums >= abs(int(leads.sum()))].sum()))


CONDITIONS = {
    "ge": "m(set 1) >= m(set 2)",
    "gt": "m(set 1) > m(set 2)",
    "symmetric": "m different",
    "tie_half": "both values",
    "ge_swapped": "m(set 2) >= m(set 1)",
    "gt_swapped": "m(set 2) > m(set 1)",
    "base_rate": "both values",
}
RATES = tuple(CONDITIONS)


@dataclass(frozen=True, eq=False)
class RateTerms:
    """The numerator and denominator of a rate, pair by pair.

    Attributes:
        hits: what each pair adds to the numerator: 0, 1, or one half; 0 if it is not counted.
        counted: whether it adds 1 to the denominator.
    """

    hits: FloatArray
    counted: BoolArray

    @property
    def rate(self) -> float:
        n = int(self.counted.sum())
        return float(self.hits.sum()) / n if n else UNDEFINED

    @property
    def errors(self) -> FloatArray:
        return errors_of_mean(self.hits, self.counted)


# The definitions. Each takes m(set 1) - m(set 2), without NaN, and whether set 1 is preferred, two
# arrays of one shape, of the pairs with a preference.


def ge(difference: FloatArray, set_1_preferred: BoolArray) -> RateTerms:
    """P(set 1 preferred | m(set 1) >= m(set 2)): CIRQRS eq. 8."""
    return _conditional(difference >= 0, set_1_preferred)


def gt(difference: FloatArray, set_1_preferred: BoolArray) -> RateTerms:
    """P(set 1 preferred | m(set 1) > m(set 2)): QuRe eq. 9."""
    return _conditional(difference > 0, set_1_preferred)


def symmetric(difference: FloatArray, set_1_preferred: BoolArray) -> RateTerms:
    """Of the pairs with different values, the share in which the higher set is preferred."""
    return _conditional(difference != 0, (difference > 0) == set_1_preferred)


def tie_half(difference: FloatArray, set_1_preferred: BoolArray) -> RateTerms:
    """Of all pairs, the share in which the higher set is preferred; metric ties count one half."""
    hits = np.where(difference == 0, 0.5, (difference > 0) == set_1_preferred)
    return RateTerms(hits, np.ones_like(set_1_preferred))


def base_rate(set_1_preferred: BoolArray) -> RateTerms:
    """P(set 1 preferred)."""
    return _conditional(np.ones_like(set_1_preferred), set_1_preferred)


def _conditional(condition: BoolArray, hit: BoolArray) -> RateTerms:
    return RateTerms((condition & hit).astype(np.float64), condition)


def usable_pairs(
    preferences: pd.DataFrame, *differences: pd.Series[float]
) -> tuple[pd.DataFrame, BoolArray, list[FloatArray]]:
    """Select the n questions with a preference and all metric values.

    Returns their rows, whether set 1 is preferred, and each `metric_difference`, (n,) without NaN.
    """
    usable = has_preference(preferences).to_numpy()
    for difference in differences:
        usable = usable & difference.notna().to_numpy()
    rows = preferences[usable]
    kept = [np.asarray(difference, dtype=np.float64)[usable] for difference in differences]
    return rows, (rows["preferred"] == 1).to_numpy(), kept


@dataclass(frozen=True)
class Rate(JsonRecord):
    """A preference rate.

    Attributes:
        rate: NaN, with a reason, if no pair fulfils the rate's condition.
        n: the number of pairs that do.
        coverage: n / n_questions, where all questions of the release count.
        ci: the clustered interval; None without a bootstrap.
    """

    rate: float
    n: int
    coverage: float
    reason: str | None = None
    ci: ConfidenceInterval | None = None


@dataclass(frozen=True)
class RateGivenTie(Rate):
    """`gt` where another metric ties.

    Attributes:
        base_rate: P(set 1 preferred) where the other ties and both have values: the rate of an
            uninformative metric.
    """

    base_rate: float = UNDEFINED


@dataclass(frozen=True)
class PreferenceRates(JsonRecord):
    """The preference rates of one metric m, over the pairs with a preference and both values.

    Attributes:
        ge, gt, symmetric, tie_half, base_rate: see the functions of these names.
        ge_swapped: `ge` with the labels swapped: P(set 2 preferred | m(set 2) >= m(set 1)).
        gt_swapped: `gt` with the labels swapped.
        metric_ties: the number of pairs with m equal.
        human_ties: the number of questions excluded because neither set is preferred.
        missing: the number of other questions excluded because m lacks a value.
    """

    ge: Rate
    gt: Rate
    symmetric: Rate
    tie_half: Rate
    ge_swapped: Rate
    gt_swapped: Rate
    base_rate: Rate
    metric_ties: int
    human_ties: int
    missing: int

    def to_json(self) -> dict[str, object]:
        """The rates by name; `pairs_to_json` has the counts."""
        return {name: json_value(getattr(self, name)) for name in RATES}

    def pairs_to_json(self) -> dict[str, object]:
        counts = {name: vars(self)[name] for name in ("metric_ties", "human_ties", "missing")}
        return {"n": self.base_rate.n, **counts}


def preference_rates(
    preferences: pd.DataFrame, values: pd.Series[float], bootstrap: Bootstrap | None = None
) -> PreferenceRates:
    """Measure how a metric, indexed by set_id, agrees with the preferences, (n_questions, ...).

    These have `set_1`, `set_2`, `preferred` (1, 2, 0 = tie) and, for the bootstrap,
    `participant_id` and `query_id`. The metric is NaN where a set has no value; a rate is NaN, with
    a reason, if no pair fulfils its condition.
    """
    n_questions = len(preferences)
    n_decided = int(has_preference(preferences).sum())
    rows, set_1, (difference,) = usable_pairs(preferences, metric_difference(preferences, values))
    terms = {
        "ge": ge(difference, set_1),
        "gt": gt(difference, set_1),
        "symmetric": symmetric(difference, set_1),
        "tie_half": tie_half(difference, set_1),
        "ge_swapped": ge(-difference, ~set_1),
        "gt_swapped": gt(-difference, ~set_1),
        "base_rate": base_rate(set_1),
    }
    conditions = [CONDITIONS[name] for name in terms]
    rates = _rates(rows, list(terms.values()), conditions, n_questions, bootstrap)
    return PreferenceRates(
        **dict(zip(terms, rates, strict=True)),
        metric_ties=int((difference == 0).sum()),
        human_ties=n_questions - n_decided,
        missing=n_decided - len(rows),
    )


def tie_half_rate(
    preferences: pd.DataFrame, values: pd.Series[float], bootstrap: Bootstrap
) -> Rate:
    """The `tie_half` of `preference_rates` alone."""
    rows, set_1, (difference,) = usable_pairs(preferences, metric_difference(preferences, values))
    terms, conditions = [tie_half(difference, set_1)], [CONDITIONS["tie_half"]]
    (rate,) = _rates(rows, terms, conditions, len(preferences), bootstrap)
    return rate


def given_tie(
    preferences: pd.DataFrame,
    values: pd.Series[float],
    other: pd.Series[float],
    bootstrap: Bootstrap | None = None,
) -> RateGivenTie:
    """Measure a metric where a second one ties (CIRQRS eq. 9).

    P(set 1 preferred | m(set 1) > m(set 2) and other(set 1) = other(set 2)). Both metrics are
    indexed by set_id; pairs where one lacks a value are excluded.

    Returns:
        The rate; NaN, with a reason, if no pair fulfils the condition.
    """
    # NaN is neither above nor equal to 0, which excludes the pairs that lack a value.
    difference, other_difference = (
        np.asarray(metric_difference(preferences, metric), dtype=np.float64)
        for metric in (values, other)
    )
    set_1 = (preferences["preferred"] == 1).to_numpy()
    tied = (other_difference == 0) & has_preference(preferences).to_numpy()
    all_pairs = gt(difference, set_1)
    counted = all_pairs.counted & tied
    terms = RateTerms(all_pairs.hits * counted, counted)
    uninformative = _conditional(tied & ~np.isnan(difference), set_1)
    condition = "m(set 1) > m(set 2) where the other ties"
    (rate,) = _rates(preferences, [terms], [condition], len(preferences), bootstrap)
    return RateGivenTie(**vars(rate), base_rate=uninformative.rate)


def _rates(
    pairs: pd.DataFrame,
    terms: Sequence[RateTerms],
    conditions: Sequence[str],
    n_questions: int,
    bootstrap: Bootstrap | None,
) -> list[Rate]:
    """Compute several rates of the same pairs."""
    rates = []
    for each, condition in zip(terms, conditions, strict=True):
        interval = None
        if bootstrap is not None:
            interval = bootstrap.mean_interval(each.rate, pairs, each.errors, each.counted, RATE)
        n, reason = int(each.counted.sum()), None
        if n_questions == 0:
            reason = "the release has no questions"
        elif n == 0:
            reason = f"no pair has {condition}"
        coverage = n / n_questions if n_questions else UNDEFINED
        rates.append(Rate(each.rate, n, coverage, reason, interval))
    return rates


# The rules for preference rates, with their labels and base rates.

RULES = {
    "ge": "ge",
    "gt": "gt",
    "ge_swapped": "ge, labels swapped",
    "gt_swapped": "gt, labels swapped",
    "symmetric": "symmetric",
    "tie_half": "tie_half",
}
SOURCES = {"ge": " (CIRQRS eq. 8)", "gt": " (QuRe eq. 9)"}


def rates_by_rule(rates: PreferenceRates) -> dict[str, Rate]:
    return {rule: getattr(rates, rule) for rule in RULES}


def base_rates(rates: PreferenceRates) -> dict[str, float]:
    """The rate of an uninformative metric, by rule; NaN if there are no pairs."""
    base = rates.base_rate.rate
    by_rule = {"ge": base, "gt": base, "ge_swapped": 1 - base, "gt_swapped": 1 - base}
    half = 0.5 if rates.base_rate.n else base
    return {rule: by_rule.get(rule, half) for rule in RULES}


# A proportion with its exact interval (Clopper and Pearson 1934).


@dataclass(frozen=True)
class Proportion:
    """A proportion of n independent trials, with its exact 95 % interval."""

    rate: float
    ci: tuple[float, float]
    n: int
    reason: str | None = None


def exact_proportion(hits: int, n: int) -> Proportion:
    """The proportion of hits among n trials; NaN, with a reason, for n = 0."""
    if n == 0:
        return Proportion(UNDEFINED, (UNDEFINED, UNDEFINED), 0, "there are no observations")
    ends = stats.binomtest(hits, n).proportion_ci(LEVEL, method="exact")
    return Proportion(hits / n, (float(ends.low), float(ends.high)), n)
