"""Preference rates: how often people prefer the set that a metric puts first.

The published rates condition on set 1 alone, and set 1 and set 2 are only labels. So beside
them stand the same rates with the labels swapped, the symmetric rate, and the base rate
P(set 1 preferred), which a metric that knows nothing reaches too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from analysis.figures import UNDEFINED, figure, with_reason

if TYPE_CHECKING:
    import pandas as pd

RATES = ("ge", "gt", "symmetric", "tie_half", "ge_swapped", "gt_swapped", "base_rate")


@dataclass(frozen=True)
class Rate:
    """A share of the pairs that fulfil a condition.

    Attributes:
        rate: the share; NaN where no pair fulfils the condition.
        n: how many pairs do.
        coverage: n / n_questions, all questions of the release counted.
        reason: why rate (or coverage) is NaN, where it is.
    """

    rate: float
    n: int
    coverage: float
    reason: str | None = None

    def to_json(self) -> dict[str, object]:
        """Return {"rate", "n", "coverage"} and the reason, where there is one."""
        result: dict[str, object] = {
            "rate": figure(self.rate),
            "n": self.n,
            "coverage": figure(self.coverage),
        }
        return with_reason(result, self.reason)


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


def preference_rates(preferences: pd.DataFrame, values: pd.Series[float]) -> PreferenceRates:
    """Measure how a metric agrees with the preferences.

    Args:
        preferences: (n_questions, ...) with `set_1`, `set_2` and `preferred` (1, 2, 0 = tie).
        values: the metric, indexed by set_id, NaN where a set has none.

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

    def rate(hits: float, condition: pd.Series[bool], where: str) -> Rate:
        return _rate(hits, int(condition.sum()), n_questions, f"no pair has {where}")

    return PreferenceRates(
        ge=rate((one & ~below).sum(), ~below, "m(set 1) >= m(set 2)"),
        gt=rate((one & above).sum(), above, "m(set 1) > m(set 2)"),
        symmetric=rate(right.sum(), ~tied, "m different"),
        tie_half=rate(right.sum() + tied.sum() / 2, present[present], "both values"),
        ge_swapped=rate((~one & ~above).sum(), ~above, "m(set 2) >= m(set 1)"),
        gt_swapped=rate((~one & below).sum(), below, "m(set 2) > m(set 1)"),
        base_rate=rate(one.sum(), present[present], "both values"),
        metric_ties=int(tied.sum()),
        human_ties=n_questions - len(decided),
        missing=int((~present).sum()),
    )


def given_tie(preferences: pd.DataFrame, values: pd.Series[float], other: pd.Series[float]) -> Rate:
    """Measure a metric where a second one sees no difference (CIRQRS eq. 9).

    P(set 1 preferred | m(set 1) > m(set 2) and other(set 1) = other(set 2)).

    Args:
        preferences: (n_questions, ...) with `set_1`, `set_2` and `preferred` (1, 2, 0 = tie).
        values: the metric m, indexed by set_id, NaN where a set has none.
        other: the second metric, likewise; pairs where it has no value are no ties.

    Returns:
        The rate; NaN, with a reason, where no pair fulfils the condition.
    """
    # Comparisons with NaN are false, which leaves out the pairs that lack a value.
    above = preferences["set_1"].map(values) > preferences["set_2"].map(values)
    tied = preferences["set_1"].map(other) == preferences["set_2"].map(other)
    condition = above & tied & (preferences["preferred"] != 0)
    hits = int((condition & (preferences["preferred"] == 1)).sum())
    reason = "no pair has m(set 1) > m(set 2) where the other ties"
    return _rate(hits, int(condition.sum()), len(preferences), reason)


def _rate(hits: float, n: int, n_questions: int, reason: str) -> Rate:
    if n_questions == 0:
        return Rate(UNDEFINED, 0, UNDEFINED, "the release has no questions")
    if n == 0:
        return Rate(UNDEFINED, 0, 0.0, reason)
    return Rate(float(hits) / n, n, n / n_questions)
