"""Preference rates: how often people prefer the set that a metric puts first.

The published rates condition on set 1 alone, and set 1 and set 2 are only labels. So beside
them stand the same rates with the labels swapped, the symmetric rate, and the base rate
P(set 1 preferred), which a metric that knows nothing reaches too.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from hsfiq.analysis.figures import UNDEFINED, figure
from hsfiq.analysis.resampling.interval import with_interval

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

    from hsfiq.analysis.resampling.draws import Draws
    from hsfiq.analysis.resampling.interval import Interval

RATES = ("ge", "gt", "symmetric", "tie_half", "ge_swapped", "gt_swapped", "base_rate")


@dataclass(frozen=True)
class Rate:
    """A share of the pairs that fulfil a condition.

    Attributes:
        rate: the share; NaN where no pair fulfils the condition.
        n: how many pairs do.
        coverage: n / n_questions, all questions of the release counted.
        reason: why rate (or coverage) is NaN, where it is.
        ci: the rate's interval by resampling clusters; None where no draws were given.
    """

    rate: float
    n: int
    coverage: float
    reason: str | None = None
    ci: Interval | None = None

    def to_json(self) -> dict[str, object]:
        """Return {"rate", "n", "coverage"}, the interval and the reason, where there is one."""
        result: dict[str, object] = {
            "rate": figure(self.rate),
            "n": self.n,
            "coverage": figure(self.coverage),
        }
        return with_interval(result, self.ci, self.reason)


@dataclass(frozen=True)
class PreferenceRates:
    """The preference rates of one metric m, over the pairs with a preference and both values.

    Attributes:
        ge: P(set 1 preferred | m(set 1) >= m(set 2)), CIRQRS eq. 8.
        gt: P(set 1 preferred | m(set 1) > m(set 2)), QuRe eq. 9.
        symmetric: of the pairs with m different, the share where the higher is preferred.
        tie_half: of all pairs, the share where the higher is preferred; ties of m count one half.
        ge_swapped: `ge` with the labels swapped: P(set 2 preferred | m(set 2) >= m(set 1)).
        gt_swapped: `gt` with the labels swapped.
        base_rate: P(set 1 preferred), of the same pairs.
        metric_ties: how many of the pairs have m equal.
        human_ties: how many questions were left out because neither set is preferred.
        missing: how many of the others were left out because m lacks a value.
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
        """Return the rates by their names; `pairs_to_json` has the counts."""
        rates: dict[str, Rate] = {name: getattr(self, name) for name in RATES}
        return {name: rate.to_json() for name, rate in rates.items()}

    def pairs_to_json(self) -> dict[str, object]:
        """Return how many pairs were used, and how many were left out and why."""
        return {
            "n": self.base_rate.n,
            "metric_ties": self.metric_ties,
            "human_ties": self.human_ties,
            "missing": self.missing,
        }


def preference_rates(
    preferences: pd.DataFrame, values: pd.Series[float], draws: Draws | None = None
) -> PreferenceRates:
    """Measure how a metric agrees with the preferences.

    Args:
        preferences: (n_questions, ...) with `set_1`, `set_2`, `preferred` (1, 2, 0 = tie) and, for
            draws, `participant_id` and `query_id`.
        values: the metric, indexed by set_id, NaN where a set has none.
        draws: the resamples for the intervals; None leaves them out.

    Returns:
        The rates; those whose condition no pair fulfils are NaN, with a reason.
    """
    n_questions = len(preferences)
    decided = preferences[preferences["preferred"] != 0]
    first, second = decided["set_1"].map(values), decided["set_2"].map(values)
    present = first.notna() & second.notna()
    first, second = first[present], second[present]
    one = decided.loc[present, "preferred"] == 1
    above, below, tied = first > second, first < second, first == second
    right = (above & one) | (below & ~one)
    conditions = {
        "ge": _Condition(one & ~below, ~below, "m(set 1) >= m(set 2)"),
        "gt": _Condition(one & above, above, "m(set 1) > m(set 2)"),
        "symmetric": _Condition(right, ~tied, "m different"),
        "tie_half": _Condition(right + tied / 2, present[present], "both values"),
        "ge_swapped": _Condition(~one & ~above, ~above, "m(set 2) >= m(set 1)"),
        "gt_swapped": _Condition(~one & below, below, "m(set 2) > m(set 1)"),
        "base_rate": _Condition(one, present[present], "both values"),
    }
    rates = _rates(decided[present], list(conditions.values()), n_questions, draws)
    return PreferenceRates(
        **dict(zip(conditions, rates, strict=True)),
        metric_ties=int(tied.sum()),
        human_ties=n_questions - len(decided),
        missing=int((~present).sum()),
    )


def given_tie(
    preferences: pd.DataFrame,
    values: pd.Series[float],
    other: pd.Series[float],
    draws: Draws | None = None,
) -> Rate:
    """Measure a metric where a second one sees no difference (CIRQRS eq. 9).

    P(set 1 preferred | m(set 1) > m(set 2) and other(set 1) = other(set 2)).

    Args:
        preferences: (n_questions, ...) with `set_1`, `set_2`, `preferred` (1, 2, 0 = tie) and, for
            draws, `participant_id` and `query_id`.
        values: the metric m, indexed by set_id, NaN where a set has none.
        other: the second metric, likewise; pairs where it has no value are no ties.
        draws: the resamples for the interval; None leaves it out.

    Returns:
        The rate; NaN, with a reason, where no pair fulfils the condition.
    """
    # Comparisons with NaN are false, which leaves out the pairs that lack a value.
    above = preferences["set_1"].map(values) > preferences["set_2"].map(values)
    tied = preferences["set_1"].map(other) == preferences["set_2"].map(other)
    condition = above & tied & (preferences["preferred"] != 0)
    hits = condition & (preferences["preferred"] == 1)
    where = "m(set 1) > m(set 2) where the other ties"
    (rate,) = _rates(preferences, [_Condition(hits, condition, where)], len(preferences), draws)
    return rate


@dataclass(frozen=True)
class _Condition:
    """Which pairs a rate is a share of.

    Attributes:
        hits: (n,) how much each pair counts as agreement: 0, 1, or one half.
        fulfilled: (n,) whether it fulfils the condition.
        where: the condition, in words.
    """

    hits: pd.Series[float] | pd.Series[bool]
    fulfilled: pd.Series[bool]
    where: str


def _rates(
    pairs: pd.DataFrame, conditions: Sequence[_Condition], n_questions: int, draws: Draws | None
) -> list[Rate]:
    """The shares of all conditions, their intervals from one pass over the resamples."""
    rates = [_rate(condition, n_questions) for condition in conditions]
    if draws is None:
        return rates
    columns = [
        side.to_numpy(dtype="float64")
        for condition in conditions
        for side in (condition.hits, condition.fulfilled)
    ]
    totals = draws.totals(pairs, np.stack(columns, axis=1))
    with np.errstate(invalid="ignore"):
        drawn = totals[:, ::2] / totals[:, 1::2]
    return [
        replace(rate, ci=draws.interval(drawn[:, place], pairs[conditions[place].fulfilled]))
        for place, rate in enumerate(rates)
    ]


def _rate(condition: _Condition, n_questions: int) -> Rate:
    n = int(condition.fulfilled.sum())
    if n_questions == 0:
        return Rate(UNDEFINED, 0, UNDEFINED, "the release has no questions")
    if n == 0:
        return Rate(UNDEFINED, 0, 0.0, f"no pair has {condition.where}")
    return Rate(float(condition.hits.sum()) / n, n, n / n_questions)
