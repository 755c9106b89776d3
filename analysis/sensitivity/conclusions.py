"""The conclusions from a release: whether each metric agrees with people, and which is best."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import pandas as pd

from hsfiq.analysis.data.metrics import MetricValues
from hsfiq.analysis.data.release import Release
from hsfiq.analysis.json_values import JsonRecord
from hsfiq.analysis.resampling.bootstrap import Bootstrap
from hsfiq.analysis.resampling.estimate import Estimate
from hsfiq.analysis.resampling.interval import ConfidenceInterval
from hsfiq.analysis.resampling.permutation import Swaps
from hsfiq.analysis.statistics.compare import Comparison, compare_all
from hsfiq.analysis.statistics.correlation import spearman
from hsfiq.analysis.statistics.difference import Difference
from hsfiq.analysis.statistics.preference import tie_half_rate

Statistic = Literal["rho", "tie_half"]
Verdict = Literal["above", "below", "unclear", "undefined"]

STATISTICS: tuple[Statistic, ...] = get_args(Statistic)
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
