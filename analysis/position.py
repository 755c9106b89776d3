"""Position bias: whether people prefer a set for being shown as set 1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from scipy import stats

from analysis.figures import UNDEFINED, figure, with_reason

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class PositionBias:
    """P(set 1 preferred) against one half.

    Attributes:
        rate: the share of the questions in which set 1 is preferred.
        n: how many questions have a preference.
        p: two-sided exact binomial test (Clopper and Pearson) of rate = 1/2.
        human_ties: how many questions were left out because neither set is preferred.
        reason: why rate and p are NaN, where they are.
    """

    rate: float
    n: int
    p: float
    human_ties: int
    reason: str | None = None

    def to_json(self) -> dict[str, object]:
        """Return {"rate", "n", "p", "human_ties"} and the reason, where there is one."""
        result: dict[str, object] = {
            "rate": figure(self.rate),
            "n": self.n,
            "p": figure(self.p),
            "human_ties": self.human_ties,
        }
        return with_reason(result, self.reason)


def position_bias(preferences: pd.DataFrame) -> PositionBias:
    """Measure the position bias of a release.

    Args:
        preferences: (n, ...) with `preferred`: 1, 2, or 0 for a human tie.

    Returns:
        Rate and p; both NaN, with a reason, where no question has a preference.
    """
    first = int((preferences["preferred"] == 1).sum())
    n = int((preferences["preferred"] != 0).sum())
    human_ties = len(preferences) - n
    if n == 0:
        return PositionBias(UNDEFINED, 0, UNDEFINED, human_ties, "no question has a preference")
    return PositionBias(first / n, n, float(stats.binomtest(first, n).pvalue), human_ties)
