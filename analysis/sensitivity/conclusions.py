"""The conclusions from a release: whether each metric agrees with people, and which is best."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import pandas as pd

from hsfiq.analysis.arrays import FloatArray
from hsfiq.analysis.data.answers import metric_difference
from hsfiq.analysis.data.metrics import MetricValues
from hsfiq.analysis.data.release import Release
from hsfiq.analysis.json_values import JsonRecord
from hsfiq.analysis.resampling.bootstrap import Bootstrap
from hsfiq.analysis.resampling.estimate import Estimate
from hsfiq.analysis.resampling.permutation import Swaps
from hsfiq.analysis.resampling.spread import CORRELATION, RATE, Bounds
from hsfiq.analysis.statistics import preference
from hsfiq.analysis.statistics.compare import Comparison, compare_all
from hsfiq.analysis.statistics.correlation import resampled_rho, spearman, with_values
from hsfiq.analysis.statistics.difference import Difference

Statistic = Literal["rho", "tie_half"]
Verdict = Literal["above", "below", "unclear", "undefined"]

STATISTICS: tuple[Statistic, ...] = get_args(Statistic)
CHANCE: dict[Statistic, float] = {"rho": 0.0, "tie_half": 0.5}
"""The value that a metric without any information has."""
COMPARED: dict[Statistic, str] = {"rho": "spearman", "tie_half": "tie_half"}
"""The field of a `Comparison` that compares the statistic."""
PERMUTATIONS = 999
ALPHA = 0.05
BOUNDS: dict[Statistic, Bounds] = {"rho": CORRELATION, "tie_half": RATE}


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
            for statistic in STATISTICS
        }

    def changes_from(self, base: Conclusions) -> tuple[str, ...]:
        """The conclusions that differ from those of `base`, which has the same metrics."""
        changes = []
        for statistic in STATISTICS:
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
    estimates: dict[Statistic, dict[str, Estimate]] = {each: {} for each in STATISTICS}
    verdicts: dict[Statistic, dict[str, Verdict]] = {each: {} for each in STATISTICS}
    winners: dict[Statistic, str | None] = {}
    comparisons = compare_all(release, values, bootstrap, Swaps(PERMUTATIONS, bootstrap.seed))
    for statistic in STATISTICS:
        for name, own in values.items():
            rows, resampled = resampled_statistic(statistic, release, own, bootstrap)
            ci = bootstrap.interval(resampled, rows, bounds=BOUNDS[statistic])
            value, n, reason = _observed(statistic, release, own)
            estimates[statistic][name] = Estimate(value, n, ci, reason)
            verdicts[statistic][name] = _verdict(ci.low, ci.high, CHANCE[statistic])
        winners[statistic] = winner(list(values), comparisons, statistic)
    return Conclusions(estimates, verdicts, winners)


def resampled_statistic(
    statistic: Statistic, release: Release, values: pd.Series[float], bootstrap: Bootstrap
) -> tuple[pd.DataFrame, FloatArray]:
    """A metric's `rho` over the sets, or `tie_half` over the questions, in each resample.

    Returns the (n, ...) rows that it comes from, and its (length,) values, NaN where undefined.
    """
    if statistic == "rho":
        table = with_values(release.sets, values)
        return table, resampled_rho(table, bootstrap)
    rows, set_1, (difference,) = preference.usable_pairs(
        release.preferences, metric_difference(release.preferences, values)
    )
    terms = preference.tie_half(difference, set_1)
    return rows, bootstrap.ratios(rows, terms.hits[:, None], terms.counted[:, None])[:, 0]


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


def _observed(
    statistic: Statistic, release: Release, values: pd.Series[float]
) -> tuple[float, int, str | None]:
    if statistic == "rho":
        correlation = spearman(release.sets, values)
        return correlation.rho, correlation.n, correlation.reason
    rate = preference.preference_rates(release.preferences, values).tie_half
    return rate.rate, rate.n, rate.reason


def _verdict(low: float, high: float, chance: float) -> Verdict:
    if np.isnan(low):
        return "undefined"
    return "above" if low > chance else "below" if high < chance else "unclear"
