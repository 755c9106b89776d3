"""A proportion with its exact interval (Clopper and Pearson 1934)."""

from __future__ import annotations

from dataclasses import dataclass

from scipy import stats

from hsfiq.analysis.json_values import UNDEFINED
from hsfiq.analysis.resampling.spread import LEVEL


@dataclass(frozen=True)
class Proportion:
    """A proportion of n independent trials, with its exact 95 % interval."""

    rate: float
    ci: tuple[float, float]
    n: int
    reason: str | None = None


def exact_proportion(hits: int, n: int) -> Proportion:
    """The proportion of hits among n trials; NaN, with a reason, for n = 0."""
    if n == 0:
        return Proportion(UNDEFINED, (UNDEFINED, UNDEFINED), 0, "no observation to count")
    ends = stats.binomtest(hits, n).proportion_ci(LEVEL, method="exact")
    return Proportion(hits / n, (float(ends.low), float(ends.high)), n)
