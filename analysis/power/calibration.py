"""Calibration: the slopes that give simulated studies a population's rho and accuracy.

Cutting impressions and metrics into levels weakens their association, so each slope is found by
bisection on one large simulated study, always with the same random numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import sqrt

import numpy as np

from hsfiq.analysis.errors import AnalysisError
from hsfiq.analysis.power.population import Population
from hsfiq.analysis.power.simulated_studies import SimulatedStudy, Slopes, draw_numbers, study_of

SIZE = (4000, 10)  # participants and questions of the large study
BISECTIONS = 14


@lru_cache(maxsize=16)
def calibrate(population: Population, seed: int) -> Slopes:
    """Find the slopes for a population.

    The slope within queries follows from the pairwise accuracy, the slope between queries from rho.
    A metric cannot explain more than the sets of a query have in common: if that would be needed,
    rho takes precedence over the accuracy.

    Raises:
        AnalysisError: the other shares of variance leave too little for such a rho.
    """
    draws = draw_numbers(population, SIZE, 1, np.random.default_rng((seed, 1)))

    def study(slopes: Slopes) -> SimulatedStudy:
        return study_of(population, slopes, draws)

    def rho(slopes: Slopes) -> float:
        return float(study(slopes).rhos().mean())

    def tie_half(slopes: Slopes) -> float:
        return float(study(slopes).tie_halves().mean())

    part = _solve(lambda share: study(Slopes(share, 0, 0)).same_query(), population.metric_query)
    both = (1 + population.between_metrics) / 2
    remaining = 1 - population.participant - population.query - population.shared
    max_within = sqrt(remaining * both / max(1 - part, 1e-9))
    max_query = sqrt(population.query * both / part) if part > 0 else 0.0
    within = _solve(
        lambda slope: tie_half(Slopes(part, 0.0, slope)), population.tie_half, max_within
    )
    query = _solve(lambda slope: rho(Slopes(part, slope, within)), population.rho, max_query)
    slopes = Slopes(part, query, within)
    if abs(query) == max_query:
        within = _solve(lambda slope: rho(Slopes(part, query, slope)), population.rho, max_within)
        slopes = Slopes(part, query, within)
        if abs(within) == max_within:
            raise AnalysisError(
                "population",
                f"rho = {population.rho:.3f} cannot be reached with these shares of variance",
                f"the largest possible value is {rho(slopes):.3f}",
            )
    return slopes


def _solve(statistic: Callable[[float], float], target: float, limit: float | None = None) -> float:
    """Find where a statistic increasing over [-limit, limit] equals `target`, or the nearer end.

    Without a limit, the interval is [0, 1].
    """
    low, high = (0.0, 1.0) if limit is None else (-limit, limit)
    if target <= statistic(low):
        return low
    if target >= statistic(high):
        return high
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if statistic(middle) < target else (low, middle)
    return (low + high) / 2
