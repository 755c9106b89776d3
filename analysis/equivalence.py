"""Two one-sided tests (TOST): whether two systems, or two metrics, are as good as equal.

That a difference is not significant does not show that there is none. Two are equivalent if their
difference is significantly above -margin and significantly below +margin (Schuirmann 1987; Lakens
2017), which is the same as a 90% interval within the margin. The margin is the user's: the largest
difference that would not matter.

Both follow from the difference's 95% interval, however that was made: on each side, its length
gives a standard error, with the quantiles of the normal distribution, or of Student's t if the
interval is Student's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isnan
from typing import Literal

import numpy as np
from scipy import stats

from hsfiq.analysis.json_results import UNDEFINED, JsonRecord
from hsfiq.analysis.resampling.intervals import LEVEL, ConfidenceInterval
from hsfiq.analysis.resampling.permutation import Difference, holm
from hsfiq.analysis.statistics.comparison import STATISTICS, Comparison
from hsfiq.analysis.systems.ranks import Duel
from hsfiq.errors import UnreadableInput

ALPHA = 0.05
NEUTRAL = 0.5
PREFERENCE = "preference"


@dataclass(frozen=True)
class Equivalence(JsonRecord):
    """Whether a difference between two systems or two metrics is within the margin.

    Attributes:
        of: what is compared.
        statistic: of metrics, one of `STATISTICS`; of systems "preference", the rate at which the
            first is preferred less one half.
        low, high: the ends of the 90% interval.
        p: the larger of the two one-sided p-values.
        p_holm: p adjusted for all pairs of systems, or all pairs of metrics for this statistic.
        is_equivalent: whether p is at most 5%; None if it is undefined.
    """

    of: Literal["systems", "metrics"]
    first: str
    second: str
    statistic: str
    margin: float
    difference: float
    low: float
    high: float
    p: float
    p_holm: float
    is_equivalent: bool | None
    unit: str | None = None
    n_clusters: int | None = None
    reason: str | None = None


def equivalences(
    margin: float, comparisons: Sequence[Comparison], duels: Sequence[Duel]
) -> list[Equivalence]:
    """Test every two systems, each pair once, and every two metrics by each statistic.

    UnreadableInput: the margin is not between 0 and 0.5.
    """
    require_margin(margin)
    families = [[_of_systems(duel, margin) for duel in duels if duel.system < duel.other]]
    families += [[_of_metrics(each, name, margin) for each in comparisons] for name in STATISTICS]
    results = []
    for family in families:
        p_values = holm(np.array([each.p for each in family], dtype=np.float64))
        results += [
            replace(each, p_holm=float(p)) for each, p in zip(family, p_values, strict=True)
        ]
    return results


def require_margin(margin: float) -> None:
    if not 0 < margin < NEUTRAL:
        raise UnreadableInput("equivalence", f"{margin:g} is not between 0 and 0.5", "try 0.05")


def _of_systems(duel: Duel, margin: float) -> Equivalence:
    blank = _blank("systems", duel.system, duel.other, PREFERENCE, margin)
    return _tested(blank, duel.rate.value, duel.rate.ci, duel.rate.reason, neutral=NEUTRAL)


def _of_metrics(comparison: Comparison, statistic: str, margin: float) -> Equivalence:
    result: Difference = getattr(comparison, statistic)
    blank = _blank("metrics", comparison.metric, comparison.other, statistic, margin)
    reason = result.reason if isnan(result.difference) else None
    return _tested(blank, result.difference, result.ci, reason)


def _blank(
    of: Literal["systems", "metrics"], first: str, second: str, statistic: str, margin: float
) -> Equivalence:
    nan = UNDEFINED
    return Equivalence(of, first, second, statistic, margin, nan, nan, nan, nan, nan, None)


def _tested(
    blank: Equivalence,
    value: float,
    ci: ConfidenceInterval | None,
    reason: str | None,
    neutral: float = 0.0,
) -> Equivalence:
    """Fill in the test of a value's difference from `neutral`, or why there is none.

    The value has a 95% interval.
    """
    difference = value - neutral
    ends = (UNDEFINED, UNDEFINED) if ci is None else (ci.low - neutral, ci.high - neutral)
    if ci is not None:
        blank = replace(blank, unit=ci.unit, n_clusters=ci.n_clusters)
        reason = reason or ci.reason
    if reason is None and not ends[0] < difference < ends[1]:
        reason = "the 95% interval has no length on one side, so the spread is unknown"
    if reason is not None:
        return replace(blank, difference=difference, reason=reason)
    df = None if ci is None else ci.df
    errors = stats.norm if df is None else stats.t(df)
    two_sided, one_sided = float(errors.ppf((1 + LEVEL) / 2)), float(errors.ppf(LEVEL))
    below, above = (abs(end - difference) / two_sided for end in ends)  # standard errors
    p = max(
        float(errors.sf((difference + blank.margin) / below)),
        float(errors.sf((blank.margin - difference) / above)),
    )
    return replace(
        blank,
        difference=difference,
        low=difference - one_sided * below,
        high=difference + one_sided * above,
        p=p,
        p_holm=p,
        is_equivalent=p <= ALPHA,
    )
