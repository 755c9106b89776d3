"""Rank correlation of a metric with the human scores, over all sets (CIRQRS section 5.2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from scipy import stats

from analysis.figures import UNDEFINED, figure, with_reason

if TYPE_CHECKING:
    import pandas as pd

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
    """

    rho: float
    p: float
    n: int
    n_clusters: int
    reason: str | None = None

    def to_json(self) -> dict[str, object]:
        """Return {"rho", "p", "n", "n_clusters"} and the reason, where there is one."""
        result: dict[str, object] = {
            "rho": figure(self.rho),
            "p": figure(self.p),
            "n": self.n,
            "n_clusters": self.n_clusters,
        }
        return with_reason(result, self.reason)


def spearman(sets: pd.DataFrame, values: pd.Series[float]) -> Correlation:
    """Correlate a metric with the human scores over all sets, two per question.

    Args:
        sets: (n, ...) with `set_id`, `score` and `participant_id`.
        values: the metric, indexed by set_id; sets with NaN are left out.

    Returns:
        rho and p; both NaN, with a reason, where fewer than 3 sets are left or a side is constant.
    """
    table = sets.assign(value=sets["set_id"].map(values)).dropna(subset=["value"])
    n, n_clusters = len(table), int(table["participant_id"].nunique())
    if n < LEAST:
        reason = f"n = {n}: the correlation needs {LEAST} sets"
    elif table["value"].nunique() == 1:
        reason = "the metric has the same value for every set"
    elif table["score"].nunique() == 1:
        reason = "every set has the same human score"
    else:
        rho, p = stats.spearmanr(table["value"], table["score"])
        return Correlation(float(rho), float(p), n, n_clusters)
    return Correlation(UNDEFINED, UNDEFINED, n, n_clusters, reason)
