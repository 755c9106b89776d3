"""Which of two systems people prefer, and which of two metrics agrees better with them.

A verdict is `better` if a difference is significant (Holm's p for all pairs below 5%), `equivalent`
if it is significantly within a margin, and else `undecided`.

Equivalence is tested by two one-sided tests (TOST). A difference that is not significant is no
evidence of equality. Two are equivalent if their difference is significantly above -margin and
significantly below +margin (Schuirmann 1987; Lakens 2017), which is the same as a 90% interval
within the margin. The user chooses the margin: the largest irrelevant difference.

Both follow from the difference's 95% interval, however that was made: on each side, its length
gives a standard error, with the quantiles of the normal distribution, or of Student's t if the
interval is Student's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import isnan
from typing import Literal

import numpy as np
import pandas as pd
from scipy import stats
from scipy.special import expit

from hsfiq.analysis.data.release import Release, score_range
from hsfiq.analysis.json_results import UNDEFINED, FloatArray, JsonRecord
from hsfiq.analysis.resampling.bootstrap import Bootstrap
from hsfiq.analysis.resampling.intervals import LEVEL, ConfidenceInterval
from hsfiq.analysis.resampling.permutation import Difference, holm
from hsfiq.analysis.statistics.comparison import STATISTICS, Comparison
from hsfiq.analysis.systems.ranks import Duel
from hsfiq.analysis.systems.strengths import strengths, strengths_and_side
from hsfiq.analysis.systems.systems import compared_systems, names_of, won_by_first
from hsfiq.errors import UnreadableInput

ALPHA = 0.05
NEUTRAL = 0.5
PREFERENCE = "preference"


@dataclass(frozen=True)
class Equivalence(JsonRecord):
    """Whether a difference between two systems or two metrics is within the margin.

    Attributes:
        of: the compared objects.
        statistic: of metrics, one of `STATISTICS`; of systems "preference", the rate at which the
            first is preferred, minus one half.
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


# Verdicts: one word for every two systems, or every two metrics.

Word = Literal["better", "equivalent", "undecided", "undefined"]
Kind = Literal["systems", "metrics"]
SYSTEM_STATISTICS = ("win_rate", "mean_score", "strength")
METRIC_STATISTICS = ("tie_half", "spearman", "symmetric", "within_query")
"""The first is the primary statistic unless the study declared another."""
FROM_EVEN = (-NEUTRAL, NEUTRAL)
"""The range of a rate minus one half."""


@dataclass(frozen=True)
class Verdict(JsonRecord):
    """Which of two systems people prefer, or which of two metrics agrees better with them.

    Attributes:
        a: the one with the higher value, so the difference is not below 0.
        statistic: of systems "win_rate", the rate at which people prefer a to b, adjusted for the
            side and for ties, minus one half; "mean_score", of their sets; "strength", Bradley and
            Terry's. Of metrics one of `METRIC_STATISTICS`, that of a less that of b.
        n: the number of answers.
        p_holm: adjusted for all tests of its family.
        verdict: of a; "equivalent" only with a margin, and "undefined" with a reason.
        simulated: whether the answers come from simulated annotators.
    """

    kind: Kind
    a: str
    b: str
    statistic: str
    difference: float
    ci: ConfidenceInterval | None
    n: int
    p_holm: float
    verdict: Word
    reason: str | None = None
    simulated: bool = False

    @property
    def pair(self) -> frozenset[str]:
        return frozenset((self.a, self.b))


@dataclass(frozen=True)
class Tested:
    """A verdict before p is adjusted, with the p of the test for equivalence, NaN without it."""

    verdict: Verdict
    p: float
    p_equivalence: float = UNDEFINED


def compared_systems_by(
    statistic: str, release: Release, bootstrap: Bootstrap, margin: float | None = None
) -> list[Tested]:
    """Compare every two systems of a release, best first; none if it names fewer than two."""
    names = names_of(release)
    if len(names) < 2:
        return []
    resampled, rows, reason = _of_systems_by(statistic, release, names, bootstrap)
    if reason is not None:
        return [
            _undefined_pair("systems", *pair, statistic, reason) for pair in combinations(names, 2)
        ]
    is_rate = statistic == SYSTEM_STATISTICS[0]
    lowest, highest = score_range(release.points)
    bounds = {"win_rate": FROM_EVEN, "mean_score": (lowest - highest, highest - lowest)}

    def compared(first: int, second: int) -> Tested:
        gap = resampled[:, first] - resampled[:, second]
        difference: FloatArray = expit(gap) - NEUTRAL if is_rate else gap
        ci = bootstrap.interval(difference, rows, bounds=bounds.get(statistic))
        p = bootstrap.p(gap, rows) if ci.low < ci.high else UNDEFINED
        verdict = Verdict(
            "systems",
            names[first],
            names[second],
            statistic,
            float(difference[0]),
            ci,
            len(rows),
            UNDEFINED,
            "undecided",
        )
        return Tested(verdict, p, p_of_equivalence(verdict, margin))

    best_first = np.argsort(-resampled[0], kind="stable").tolist()
    return [compared(*pair) for pair in combinations(best_first, 2)]


def _of_systems_by(
    statistic: str, release: Release, names: list[str], bootstrap: Bootstrap
) -> tuple[FloatArray, pd.DataFrame, str | None]:
    """A statistic of each system, (length, n_systems), its rows, and why it is undefined."""
    if statistic == "mean_score":
        sets = release.sets[release.sets["system"].notna()]
        shown = (sets["system"].to_numpy()[:, None] == np.array(names)).astype(np.float64)
        scores = sets["score"].to_numpy(np.float64)[:, None]
        return bootstrap.ratios(sets, shown * scores, shown), sets, None
    rows = compared_systems(release.preferences, names)
    if statistic == "strength":
        fitted = strengths(rows, won_by_first(rows), names, bootstrap)
        return fitted.resampled, rows, fitted.reason
    model = strengths_and_side(rows, names, bootstrap)
    return model.resampled, rows, model.reason


def compared_metrics(
    differences: Sequence[tuple[str, str, Difference]],
    statistic: str,
    margin: float | None = None,
) -> list[Tested]:
    """Compare the two metrics of each difference, the pairs with the best metrics first."""
    gains: dict[str, float] = {}
    for first, second, each in differences:
        gain = 0.0 if isnan(each.difference) else each.difference
        gains[first] = gains.get(first, 0.0) + gain
        gains[second] = gains.get(second, 0.0) - gain
    place = {name: number for number, name in enumerate(sorted(gains, key=lambda n: -gains[n]))}
    tested = [_of_difference(*each, statistic, margin) for each in differences]
    return sorted(tested, key=lambda each: sorted(place[name] for name in each.verdict.pair))


def _of_difference(
    a: str, b: str, found: Difference, statistic: str, margin: float | None
) -> Tested:
    if isnan(found.difference):
        return _undefined_pair("metrics", a, b, statistic, found.reason or "undefined")
    ci = found.ci
    if found.difference < 0:
        a, b = b, a
        ci = ci and replace(ci, low=-ci.high, high=-ci.low)
    verdict = Verdict(
        "metrics",
        a,
        b,
        statistic,
        abs(found.difference),
        ci,
        found.n,
        UNDEFINED,
        "undecided",
        found.reason,
    )
    return Tested(verdict, found.p, p_of_equivalence(verdict, margin))


def _undefined_pair(kind: Kind, a: str, b: str, statistic: str, reason: str) -> Tested:
    nan = UNDEFINED
    return Tested(Verdict(kind, a, b, statistic, nan, None, 0, nan, "undefined", reason), nan)


def p_of_equivalence(verdict: Verdict, margin: float | None) -> float:
    if margin is None:
        return UNDEFINED
    blank = _blank(verdict.kind, verdict.a, verdict.b, verdict.statistic, margin)
    return _tested(blank, verdict.difference, verdict.ci, verdict.reason).p


def decided(pairs: Sequence[Tested], alpha: float = ALPHA) -> list[Verdict]:
    """The verdicts, with p adjusted for all of these pairs as one family (Holm 1979)."""
    p_values = holm(np.array([pair.p for pair in pairs], dtype=np.float64))
    equivalent = holm(np.array([pair.p_equivalence for pair in pairs], dtype=np.float64))
    return [
        _with_word(pair.verdict, float(p), float(p_equivalent), alpha)
        for pair, p, p_equivalent in zip(pairs, p_values, equivalent, strict=True)
    ]


def _with_word(verdict: Verdict, p: float, p_equivalent: float, alpha: float) -> Verdict:
    if isnan(p):
        unknown = verdict.ci and (verdict.ci.reason or verdict.ci.note)
        reason = verdict.reason or unknown or "the spread of the difference is unknown"
        return replace(verdict, verdict="undefined", reason=reason)
    word: Word = "undecided"
    if p < alpha:
        word = "better"
    elif p_equivalent < alpha:
        word = "equivalent"
    return replace(verdict, p_holm=p, verdict=word)
