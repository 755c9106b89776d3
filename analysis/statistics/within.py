"""Rank correlation within participants: what is left when people differ in how high they score.

Pooled over participants, a rho mixes two things: whether one person's higher scores go with higher
values, and whether generous people happened to see better sets. Here only the first remains.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from scipy import stats

from hsfiq.analysis.figures import UNDEFINED, figure
from hsfiq.analysis.resampling.draws import Draws
from hsfiq.analysis.resampling.interval import with_interval
from hsfiq.analysis.resampling.spearman_clusters import resampled_spearman
from hsfiq.analysis.statistics.correlation import LEAST, why_undefined, with_values

if TYPE_CHECKING:
    from hsfiq.analysis.resampling.interval import Interval


@dataclass(frozen=True)
class WithinParticipant:
    """Spearman's rho within participants, in two ways.

    Attributes:
        mean: the mean of each participant's own rho, over those who have one.
        n_participants: how many have one.
        mean_ci: its interval, always by resampling participants; None where no draws were given.
        mean_reason: why the mean is NaN, where it is.
        centred: rho of the metric and the human scores less their participant's mean, all pooled.
        n: how many sets that comes from.
        centred_ci: its interval, the means held as they are; None where no draws were given.
        centred_reason: why it is NaN, where it is.
    """

    mean: float
    n_participants: int
    mean_ci: Interval | None
    mean_reason: str | None
    centred: float
    n: int
    centred_ci: Interval | None
    centred_reason: str | None

    def to_json(self) -> dict[str, object]:
        """Return {"mean": {"rho", "n_participants"}, "centred": {"rho", "n"}} with intervals."""
        mean: dict[str, object] = {
            "rho": figure(self.mean),
            "n_participants": self.n_participants,
        }
        centred: dict[str, object] = {"rho": figure(self.centred), "n": self.n}
        return {
            "mean": with_interval(mean, self.mean_ci, self.mean_reason),
            "centred": with_interval(centred, self.centred_ci, self.centred_reason),
        }


def within_participant(
    sets: pd.DataFrame, values: pd.Series[float], draws: Draws | None = None
) -> WithinParticipant:
    """Correlate a metric with the human scores within participants.

    Args:
        sets: (n, ...) with `set_id`, `score`, `participant_id` and, for draws, `query_id`.
        values: the metric, indexed by set_id; sets with NaN are left out.
        draws: the resamples for the intervals; None leaves them out.

    Returns:
        Both coefficients; NaN, with a reason, where no participant has a rho of their own (3 sets,
        and neither side constant), or where the pooled one is undefined.
    """
    table = with_values(sets, values)
    own = own_rhos(table)
    scores = table["score"] - table.groupby("participant_id")["score"].transform("mean")
    centred = table.assign(score=scores)
    reason = why_undefined(centred)
    x, y = (centred[column].to_numpy(dtype="float64") for column in ("value", "score"))
    lacking = f"no participant has {LEAST} sets with neither side constant"
    return WithinParticipant(
        mean=float(own.mean()) if len(own) else UNDEFINED,
        n_participants=len(own),
        mean_ci=None if draws is None else _mean_interval(own, sets, draws),
        mean_reason=None if len(own) else lacking,
        centred=UNDEFINED if reason else float(stats.spearmanr(x, y).statistic),
        n=len(table),
        centred_ci=None
        if draws is None
        else draws.interval(resampled_spearman(draws, centred, x, y), centred),
        centred_reason=reason,
    )


def own_rhos(table: pd.DataFrame) -> pd.Series[float]:
    """Each participant's own Spearman's rho.

    Args:
        table: (n, ...) with `participant_id`, `value` and `score`.

    Returns:
        Indexed by participant_id; only of those with 3 sets and neither side constant.
    """
    people = table["participant_id"]
    ranks = table.groupby("participant_id")[["value", "score"]].rank()
    ranks -= ranks.groupby(people).transform("mean")
    x, y = ranks["value"], ranks["score"]
    products = pd.DataFrame({"xy": x * y, "xx": x**2, "yy": y**2}).groupby(people)
    sums = products.sum()[products.size() >= LEAST]
    sums = sums[(sums["xx"] > 0) & (sums["yy"] > 0)]
    return sums["xy"] / np.sqrt(sums["xx"] * sums["yy"])


def _mean_interval(own: pd.Series[float], sets: pd.DataFrame, draws: Draws) -> Interval:
    if draws.unit != "participant":
        draws = Draws.of_rows(
            sets, n_resamples=draws.n_resamples, seed=draws.seed, correction=draws.correction
        )
    rows = pd.DataFrame({"participant_id": own.index})
    columns = np.stack([own.to_numpy(dtype="float64"), np.ones(len(own))], axis=1)
    total, n = draws.totals(rows, columns).T
    with np.errstate(invalid="ignore"):
        return draws.interval(total / n, rows)
