"""Preference rates: how often people prefer the set that a metric ranks first.

Each rate is defined once, by a function that returns its `RateTerms`; every statistic that uses
the rate (comparisons, margins, the other annotators, sensitivity) calls that function.

The published rates condition on set 1 alone, and set 1 and set 2 are only labels. So they are
reported beside the same rates with the labels swapped, the symmetric rate, and the base rate
P(set 1 preferred), which a metric without any information reaches too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from hsfiq.analysis.arrays import BoolArray, FloatArray
from hsfiq.analysis.data.answers import has_preference, metric_difference
from hsfiq.analysis.json_values import UNDEFINED, JsonRecord, json_value
from hsfiq.analysis.resampling.bootstrap import Bootstrap
from hsfiq.analysis.resampling.interval import ConfidenceInterval
from hsfiq.analysis.resampling.spread import RATE

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
        base_rate: P(set 1 preferred) where the other ties and both have values: the rate of a
            metric without any information.
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
    """Compute several rates of the same pairs, with one pass over the resamples."""
    intervals: list[ConfidenceInterval | None] = [None] * len(terms)
    if bootstrap is not None:
        hits = np.stack([each.hits for each in terms], axis=1)
        counted = np.stack([each.counted for each in terms], axis=1)
        resampled = bootstrap.ratios(pairs, hits, counted)
        intervals = [
            bootstrap.interval(resampled[:, place], pairs, each.counted, RATE)
            for place, each in enumerate(terms)
        ]
    rates = []
    for each, condition, interval in zip(terms, conditions, intervals, strict=True):
        n, reason = int(each.counted.sum()), None
        if n_questions == 0:
            reason = "the release has no questions"
        elif n == 0:
            reason = f"no pair has {condition}"
        coverage = n / n_questions if n_questions else UNDEFINED
        rates.append(Rate(each.rate, n, coverage, reason, interval))
    return rates
