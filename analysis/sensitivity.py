"""Sensitivity: do the conclusions change without doubtful answers?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import pandas as pd

from hsfiq.analysis.data.columns import contradictions, metric_difference, optional_column
from hsfiq.analysis.data.metrics import MetricValues
from hsfiq.analysis.data.release import Release
from hsfiq.analysis.json_results import UNDEFINED, FloatArray, JsonRecord, json_value
from hsfiq.analysis.resampling.bootstrap import Bootstrap, Clusters, Estimate, ratio
from hsfiq.analysis.resampling.intervals import ConfidenceInterval
from hsfiq.analysis.resampling.permutation import Difference, Swaps
from hsfiq.analysis.resampling.spearman import leave_one_out_spearman
from hsfiq.analysis.statistics import preference
from hsfiq.analysis.statistics.comparison import Comparison, compare_all
from hsfiq.analysis.statistics.correlation import spearman, with_values
from hsfiq.analysis.statistics.preference import tie_half_rate

# The conclusions from a release: whether each metric agrees with people, and which is best.

Statistic = Literal["rho", "tie_half"]
Verdict = Literal["above", "below", "unclear", "undefined"]

SENSITIVE_STATISTICS: tuple[Statistic, ...] = get_args(Statistic)
CHANCE: dict[Statistic, float] = {"rho": 0.0, "tie_half": 0.5}
"""The value that a metric without any information has."""
COMPARED: dict[Statistic, str] = {"rho": "spearman", "tie_half": "tie_half"}
"""The field of a `Comparison` that compares the statistic."""
PERMUTATIONS = 999
ALPHA = 0.05


@dataclass(frozen=True)
class Conclusions(JsonRecord):
    """The conclusions from some answers.

    Attributes:
        estimates: by statistic and metric, with their intervals.
        verdicts: by statistic and metric, where the interval lies: above chance, below it,
            around it (unclear), or nowhere (undefined).
        winners: by statistic, the metric that is significantly better than each other one (Holm's
            adjusted p of `compare_all`, with `PERMUTATIONS`); None if there is no such metric.
    """

    estimates: Mapping[Statistic, Mapping[str, Estimate]]
    verdicts: Mapping[Statistic, Mapping[str, Verdict]]
    winners: Mapping[Statistic, str | None]

    def to_json(self) -> dict[str, object]:
        return {
            statistic: {
                "winner": self.winners[statistic] or "none",
                "metrics": {
                    name: {**each.to_json(), "verdict": self.verdicts[statistic][name]}
                    for name, each in self.estimates[statistic].items()
                },
            }
            for statistic in SENSITIVE_STATISTICS
        }

    def changes_from(self, base: Conclusions) -> tuple[str, ...]:
        """The conclusions that differ from those of `base`, which has the same metrics."""
        changes = []
        for statistic in SENSITIVE_STATISTICS:
            before, after = base.verdicts[statistic], self.verdicts[statistic]
            changes += [
                f"{statistic} of {name} against chance: {before[name]} -> {after[name]}"
                for name in before
                if before[name] != after[name]
            ]
            first, second = (each.winners[statistic] or "none" for each in (base, self))
            if first != second:
                changes.append(f"best by {statistic}: {first} -> {second}")
        return tuple(changes)


def conclude(release: Release, values: MetricValues, bootstrap: Bootstrap) -> Conclusions:
    estimates: dict[Statistic, dict[str, Estimate]] = {each: {} for each in SENSITIVE_STATISTICS}
    verdicts: dict[Statistic, dict[str, Verdict]] = {each: {} for each in SENSITIVE_STATISTICS}
    winners: dict[Statistic, str | None] = {}
    comparisons = compare_all(release, values, bootstrap, Swaps(PERMUTATIONS, bootstrap.seed))
    for statistic in SENSITIVE_STATISTICS:
        for name, own in values.items():
            estimate = _estimate(statistic, release, own, bootstrap)
            estimates[statistic][name] = estimate
            verdicts[statistic][name] = _verdict(estimate.ci, CHANCE[statistic])
        winners[statistic] = winner(list(values), comparisons, statistic)
    return Conclusions(estimates, verdicts, winners)


def winner(
    metrics: Sequence[str], comparisons: Sequence[Comparison], statistic: Statistic
) -> str | None:
    """The metric that is significantly better than each other metric.

    None for fewer than two metrics, or if no metric is better than all others.
    """
    better = {(name, other): False for name in metrics for other in metrics if name != other}
    for comparison in comparisons:
        result: Difference = getattr(comparison, COMPARED[statistic])
        if result.p_holm <= ALPHA:
            pair = (comparison.metric, comparison.other)
            better[pair if result.difference > 0 else pair[::-1]] = True
    for name in metrics if len(metrics) > 1 else ():
        if all(better[name, other] for other in metrics if other != name):
            return name
    return None


def _estimate(
    statistic: Statistic, release: Release, values: pd.Series[float], bootstrap: Bootstrap
) -> Estimate:
    """A metric's `rho` over the sets, or its `tie_half` over the questions."""
    if statistic == "rho":
        correlation = spearman(release.sets, values, bootstrap)
        return Estimate(correlation.rho, correlation.n, correlation.ci, correlation.reason)
    rate = tie_half_rate(release.preferences, values, bootstrap)
    return Estimate(rate.rate, rate.n, rate.ci, rate.reason)


def _verdict(ci: ConfidenceInterval | None, chance: float) -> Verdict:
    if ci is None or np.isnan(ci.low):
        return "undefined"
    return "above" if ci.low > chance else "below" if ci.high < chance else "unclear"


# The jackknife: each figure with one participant excluded at a time.
#
# It shows whether a conclusion depends on a single person.

UNDEFINED_REASON = "undefined in every jackknife sample"


@dataclass(frozen=True)
class JackknifeRange(JsonRecord):
    """The smallest and the largest value of a figure, and the excluded participant of each."""

    low: float
    high: float
    low_without: str
    high_without: str
    reason: str | None = None


@dataclass(frozen=True)
class Jackknife(JsonRecord):
    """The effect of excluding one participant.

    Attributes:
        ranges: by statistic and metric.
        best: by statistic, every metric that is best without some participant; more than one if a
            single person determines the best metric.
    """

    n_participants: int
    ranges: Mapping[Statistic, Mapping[str, JackknifeRange]]
    best: Mapping[Statistic, tuple[str, ...]]

    def to_json(self) -> dict[str, object]:
        by_statistic: dict[str, object] = {
            statistic: {
                "best": list(self.best[statistic]),
                "metrics": json_value(self.ranges[statistic]),
            }
            for statistic in SENSITIVE_STATISTICS
        }
        return {"n_participants": self.n_participants, **by_statistic}


def jackknife(release: Release, values: MetricValues) -> Jackknife:
    clusters = Clusters.of_column(release.preferences, "participant_id")
    people = [str(name) for name in clusters.numbers.sort_values().index]
    ranges: dict[Statistic, dict[str, JackknifeRange]] = {}
    best: dict[Statistic, tuple[str, ...]] = {}
    for statistic in SENSITIVE_STATISTICS:
        without_each = {
            name: WITHOUT_EACH[statistic](release, own, clusters) for name, own in values.items()
        }
        ranges[statistic] = {
            name: jackknife_range(each, people) for name, each in without_each.items()
        }
        best[statistic] = _best(without_each) if people else ()
    return Jackknife(len(people), ranges, best)


def rho_without_each(release: Release, values: pd.Series[float], clusters: Clusters) -> FloatArray:
    """Spearman's rho over the sets without each participant, (n_participants,)."""
    table = with_values(release.sets, values)
    x, y = (table[column].to_numpy(dtype=np.float64) for column in ("value", "score"))
    return leave_one_out_spearman(x, y, clusters.codes_of(table), clusters.size)


def tie_half_without_each(
    release: Release, values: pd.Series[float], clusters: Clusters
) -> FloatArray:
    """The tie_half over the questions without each participant, (n_participants,)."""
    rows, set_1, (difference,) = preference.usable_pairs(
        release.preferences, metric_difference(release.preferences, values)
    )
    terms, codes = preference.tie_half(difference, set_1), clusters.codes_of(rows)
    hits, counted = (
        each.sum() - np.bincount(codes, each, clusters.size) for each in (terms.hits, terms.counted)
    )
    return ratio(hits, counted)


WITHOUT_EACH: dict[Statistic, Callable[[Release, pd.Series[float], Clusters], FloatArray]] = {
    "rho": rho_without_each,
    "tie_half": tie_half_without_each,
}


def jackknife_range(without_each: FloatArray, people: Sequence[str]) -> JackknifeRange:
    """The range of a figure, (n_participants,), without each of these people."""
    if np.isnan(without_each).all():
        return JackknifeRange(UNDEFINED, UNDEFINED, "", "", UNDEFINED_REASON)
    low, high = int(np.nanargmin(without_each)), int(np.nanargmax(without_each))
    return JackknifeRange(
        float(without_each[low]), float(without_each[high]), people[low], people[high]
    )


def _best(without_each: Mapping[str, FloatArray]) -> tuple[str, ...]:
    if not without_each:
        return ()
    table = np.stack(list(without_each.values()))
    highest = table == np.nanmax(table, axis=0, initial=-np.inf)
    return tuple(name for name, row in zip(without_each, highest, strict=True) if row.any())


# Sensitivity: do the conclusions change without doubtful answers?

MIN_SECONDS = 5.0
"""Less time than a person needs to look at ten images and read a text."""
NOT_RECORDED = "not recorded"
"""Why a rule cannot be applied: the release lacks a column."""
PRACTICE = 5
"""How many of each participant's first questions count as practice."""
ALL_ANSWERS, ALL_RULES = "as it is", "all together"


@dataclass(frozen=True)
class FilteredConclusions(JsonRecord):
    """`conclusions` without the answers that a rule excludes; None if it cannot be applied.

    `n_questions` are kept; `n_dropped` is None if the rule cannot be applied; `changes` names the
    conclusions that differ from those of all answers.
    """

    rule: str
    n_questions: int
    n_dropped: int | None
    conclusions: Conclusions | None
    changes: tuple[str, ...] = ()
    reason: str | None = None

    def to_json(self) -> dict[str, object]:
        fields: dict[str, object] = {
            "rule": self.rule,
            "n_questions": self.n_questions,
            "n_dropped": self.n_dropped,
        }
        if self.conclusions is None:
            return {**fields, "conclusion_changes": None, "reason": self.reason}
        return {
            **fields,
            **self.conclusions.to_json(),
            "conclusion_changes": bool(self.changes),
            "changes": list(self.changes),
        }


@dataclass(frozen=True)
class Sensitivity(JsonRecord):
    """The conclusions from all answers, then under each rule alone, then under all rules."""

    rows: tuple[FilteredConclusions, ...]
    jackknife: Jackknife

    def to_json(self) -> dict[str, object]:
        return {"rows": json_value(self.rows), "one_participant_left_out": self.jackknife.to_json()}


def sensitivity(
    release: Release,
    values: MetricValues,
    bootstrap: Bootstrap,
    *,
    min_seconds: float = MIN_SECONDS,
    practice: int = PRACTICE,
) -> Sensitivity:
    """Recompute the conclusions without doubtful answers.

    One rule excludes answers that took fewer active seconds than `min_seconds`, another so many
    first questions of each participant as `practice`. All rules use the same resamples.
    """
    base = conclude(release, values, bootstrap)
    n = len(release.preferences)
    rows = [FilteredConclusions(ALL_ANSWERS, n, 0, base)]
    dropped_by_any = None
    for rule, dropped in rules(release.preferences, min_seconds, practice):
        if isinstance(dropped, str):
            rows.append(FilteredConclusions(rule, n, None, None, reason=dropped))
            continue
        dropped_by_any = dropped if dropped_by_any is None else dropped_by_any | dropped
        rows.append(_without(release, dropped, rule, values, bootstrap, base))
    if dropped_by_any is not None:
        rows.append(_without(release, dropped_by_any, ALL_RULES, values, bootstrap, base))
    return Sensitivity(tuple(rows), jackknife(release, values))


def rules(
    preferences: pd.DataFrame, min_seconds: float, practice: int
) -> Iterator[tuple[str, pd.Series[bool] | str]]:
    """Yield each rule with the questions that it excludes, or why it cannot be applied.

    The preferences must be in the order in which participants answered them.
    """
    irrelevant = optional_column(preferences, "irrelevant")
    failed = optional_column(preferences, "failed_checks")
    seconds = optional_column(preferences, "active_seconds")
    position = preferences.groupby("participant_id").cumcount()
    yield (
        "without questions flagged irrelevant",
        NOT_RECORDED if irrelevant.isna().all() else irrelevant == 1,
    )
    yield "without contradictions of preference and scores", contradictions(preferences)
    yield (
        "without forms with a failed check",
        NOT_RECORDED if failed.isna().all() else failed > 0,
    )
    yield (
        f"without answers under {min_seconds:g} seconds",
        NOT_RECORDED if seconds.isna().all() else seconds < min_seconds,
    )
    yield f"without the first {practice} questions of each participant", position < practice


def _without(
    release: Release,
    dropped: pd.Series[bool],
    rule: str,
    values: MetricValues,
    bootstrap: Bootstrap,
    base: Conclusions,
) -> FilteredConclusions:
    n_dropped = int(dropped.sum())
    conclusions = conclude(release.subset(~dropped), values, bootstrap) if n_dropped else base
    changes = conclusions.changes_from(base)
    return FilteredConclusions(rule, len(dropped) - n_dropped, n_dropped, conclusions, changes)
