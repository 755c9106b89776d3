"""What follows from a release: whether metrics agree with people at all, and which does best."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from hsfiq.analysis.data.answers import metric_margin
from hsfiq.analysis.resampling.estimate import Estimate
from hsfiq.analysis.resampling.shares import resampled_shares
from hsfiq.analysis.resampling.spearman_clusters import resampled_spearman
from hsfiq.analysis.statistics.correlation import spearman, with_values
from hsfiq.analysis.statistics.preference import preference_rates

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pandas as pd
    from numpy.typing import NDArray

    from hsfiq.analysis.data.release import Release
    from hsfiq.analysis.resampling.draws import Draws

Statistic = Literal["rho", "tie_half"]
Verdict = Literal["above", "below", "unclear", "undefined"]

STATISTICS: tuple[Statistic, ...] = get_args(Statistic)
CHANCE: dict[Statistic, float] = {"rho": 0.0, "tie_half": 0.5}
"""What a metric that knows nothing gets."""


@dataclass(frozen=True)
class Conclusions:
    """What follows from some answers.

    Attributes:
        estimates: by statistic and metric, the figure with its interval.
        verdicts: by statistic and metric, where the interval lies: above chance, below it,
            around it (unclear), or nowhere (undefined).
        winners: by statistic, the metric whose difference to each other one has an interval above
            0 (paired: the same resamples); None where there is no such metric.
    """

    estimates: Mapping[Statistic, Mapping[str, Estimate]]
    verdicts: Mapping[Statistic, Mapping[str, Verdict]]
    winners: Mapping[Statistic, str | None]

    def to_json(self) -> dict[str, object]:
        """Return {statistic: {"winner", "metrics": {name: the figure with its "verdict"}}}."""
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
        """Say what is concluded otherwise than in `base`, which has the same metrics."""
        found = []
        for statistic in STATISTICS:
            before, after = base.verdicts[statistic], self.verdicts[statistic]
            found += [
                f"{statistic} of {name} against chance: {before[name]} -> {after[name]}"
                for name in before
                if before[name] != after[name]
            ]
            first, second = (one.winners[statistic] or "none" for one in (base, self))
            if first != second:
                found.append(f"best by {statistic}: {first} -> {second}")
        return tuple(found)


def conclude(release: Release, values: Mapping[str, pd.Series[float]], draws: Draws) -> Conclusions:
    """Draw the conclusions from a release.

    Args:
        release: a release, or part of the one that was drawn from; it may be empty.
        values: each metric's values by name, indexed by set_id, NaN where a set has none.
        draws: the resamples.

    Returns:
        The conclusions; what is undefined is said to be.
    """
    estimates: dict[Statistic, dict[str, Estimate]] = {each: {} for each in STATISTICS}
    verdicts: dict[Statistic, dict[str, Verdict]] = {each: {} for each in STATISTICS}
    winners: dict[Statistic, str | None] = {}
    for statistic in STATISTICS:
        drawn = {}
        for name, own in values.items():
            rows, resampled = resampled_statistic(statistic, release, own, draws)
            value, n, reason = _measured(statistic, release, own)
            ci = draws.interval(resampled, rows)
            estimates[statistic][name] = Estimate(value, n, ci, reason)
            verdicts[statistic][name] = _verdict(ci.low, ci.high, CHANCE[statistic])
            drawn[name] = resampled
        winners[statistic] = winner(drawn, draws)
    return Conclusions(estimates, verdicts, winners)


def resampled_statistic(
    statistic: Statistic, release: Release, values: pd.Series[float], draws: Draws
) -> tuple[pd.DataFrame, NDArray[np.float64]]:
    """A metric's statistic in each resample, and the rows that it comes from.

    Args:
        statistic: `rho`, over the sets, or `tie_half`, over the questions.
        release: a release, or part of the one that was drawn from.
        values: the metric, indexed by set_id, NaN where a set has none.
        draws: the resamples.

    Returns:
        (n, ...) of rows, and (n_resamples,), NaN where undefined.
    """
    if statistic == "rho":
        table = with_values(release.sets, values)
        x, y = (table[column].to_numpy(dtype="float64") for column in ("value", "score"))
        return table, resampled_spearman(draws, table, x, y)
    decided = release.preferences[release.preferences["preferred"] != 0]
    margin = metric_margin(decided, values).to_numpy()
    present = ~np.isnan(margin)
    rows = decided[present]
    side = np.where(rows["preferred"] == 1, 1, -1)
    hits = ((1 + np.sign(margin[present]) * side) / 2)[:, None]
    return rows, resampled_shares(draws, rows, hits, np.ones_like(hits))[:, 0]


def winner(drawn: Mapping[str, NDArray[np.float64]], draws: Draws) -> str | None:
    """Find the metric that is better than each other one.

    Args:
        drawn: by metric, its statistic in each resample.
        draws: the resamples.

    Returns:
        Its name; None with fewer than two metrics, or where no metric's differences to all others
        have intervals above 0.
    """
    for name, own in drawn.items():
        others = [each for other, each in drawn.items() if other != name]
        if others and all(draws.interval(own - each).low > 0 for each in others):
            return name
    return None


def _measured(
    statistic: Statistic, release: Release, values: pd.Series[float]
) -> tuple[float, int, str | None]:
    if statistic == "rho":
        found = spearman(release.sets, values)
        return found.rho, found.n, found.reason
    rate = preference_rates(release.preferences, values).tie_half
    return rate.rate, rate.n, rate.reason


def _verdict(low: float, high: float, chance: float) -> Verdict:
    if np.isnan(low):
        return "undefined"
    return "above" if low > chance else "below" if high < chance else "unclear"
