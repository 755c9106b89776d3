"""Rank correlation of a metric with the human scores, over all sets (CIRQRS section 5.2)."""

from __future__ import annotations

from dataclasses import dataclass
from math import atanh, sqrt, tanh
from typing import TYPE_CHECKING

from scipy import stats

from hsfiq.analysis.figures import UNDEFINED, figure
from hsfiq.analysis.resampling.interval import LEVEL, with_interval
from hsfiq.analysis.resampling.spearman_clusters import resampled_spearman

if TYPE_CHECKING:
    import pandas as pd

    from hsfiq.analysis.resampling.draws import Draws
    from hsfiq.analysis.resampling.interval import Interval

LEAST = 3  # the p-value has n - 2 degrees of freedom


@dataclass(frozen=True)
class Correlation:
    """Spearman's rho, all sets pooled.

    Attributes:
        rho: the coefficient, ties by mid-ranks.
        p: two-sided, from Student's t, as if the sets were independent.
        n: how many sets have both a score and a value of the metric.
        n_clusters: how many participants they come from.
        reason: why rho and p are NaN, where they are.
        ci: the interval by resampling clusters; None where no draws were given.
        independent_ci: for contrast, the analytic interval as if the sets were independent.
    """

    rho: float
    p: float
    n: int
    n_clusters: int
    reason: str | None = None
    ci: Interval | None = None
    independent_ci: tuple[float, float] = (UNDEFINED, UNDEFINED)

    def to_json(self) -> dict[str, object]:
        """Return {"rho", "p", "n", "n_clusters", "independent_ci"}, the interval, the reason."""
        result: dict[str, object] = {
            "rho": figure(self.rho),
            "p": figure(self.p),
            "n": self.n,
            "n_clusters": self.n_clusters,
            "independent_ci": [figure(end) for end in self.independent_ci],
        }
        return with_interval(result, self.ci, self.reason)


def spearman(
    sets: pd.DataFrame, values: pd.Series[float], draws: Draws | None = None
) -> Correlation:
    """Correlate a metric with the human scores over all sets, two per question.

    Args:
        sets: (n, ...) with `set_id`, `score`, `participant_id` and, for draws, `query_id`.
        values: the metric, indexed by set_id; sets with NaN are left out.
        draws: the resamples for the interval; None leaves it out.

    Returns:
        rho and p; both NaN, with a reason, where fewer than 3 sets are left or a side is constant.
    """
    table = with_values(sets, values)
    n, n_clusters = len(table), int(table["participant_id"].nunique())
    reason = why_undefined(table)
    ci = None
    if draws is not None:
        x, y = (table[column].to_numpy(dtype="float64") for column in ("value", "score"))
        ci = draws.interval(resampled_spearman(draws, table, x, y), table)
    if reason is not None:
        return Correlation(UNDEFINED, UNDEFINED, n, n_clusters, reason, ci)
    rho, p = (float(found) for found in stats.spearmanr(table["value"], table["score"]))
    return Correlation(rho, p, n, n_clusters, None, ci, bonett_wright(rho, n))


def with_values(sets: pd.DataFrame, values: pd.Series[float]) -> pd.DataFrame:
    """The sets that have a value of the metric, with it as column `value`."""
    return sets.assign(value=sets["set_id"].map(values)).dropna(subset=["value"])


def why_undefined(table: pd.DataFrame) -> str | None:
    """Say why `value` and `score` have no correlation; None where they have one."""
    if len(table) < LEAST:
        return f"n = {len(table)}: the correlation needs {LEAST} sets"
    if table["value"].nunique() == 1:
        return "the metric has the same value for every set"
    if table["score"].nunique() == 1:
        return "every set has the same human score"
    return None


def bonett_wright(rho: float, n: int) -> tuple[float, float]:
    """The interval of Spearman's rho of n independent rows (Bonett and Wright 2000).

    atanh(rho) -+ z sqrt((1 + rho^2 / 2) / (n - 3)).

    Args:
        rho: the coefficient.
        n: how many rows there are, 3 or more; three say nothing, so theirs is all of [-1, 1].
    """
    if n <= LEAST:
        return (-1.0, 1.0)
    if abs(rho) >= 1:
        return (rho, rho)
    half = float(stats.norm.ppf((1 + LEVEL) / 2)) * sqrt((1 + rho**2 / 2) / (n - 3))
    return (tanh(atanh(rho) - half), tanh(atanh(rho) + half))
