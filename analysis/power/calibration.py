"""Finding the slopes that give simulated studies a population's rho and accuracy.

Cutting impressions and metrics into levels weakens what they have in common, so each slope is
found by halving an interval on one large simulated study, always of the same random numbers.
"""

from __future__ import annotations

from dataclasses import replace
from math import sqrt
from typing import TYPE_CHECKING

import numpy as np

from hsfiq.analysis.errors import AnalysisError
from hsfiq.analysis.power.simulated_studies import SimulatedStudy, Slopes, draw_study

if TYPE_CHECKING:
    from collections.abc import Callable

    from hsfiq.analysis.power.population import Population

SIZE = (4000, 10)  # participants and questions of the large study
HALVINGS = 14


def calibrated(population: Population, seed: int) -> Slopes:
    """Find the slopes for a population.

    The slope within queries follows from the pairwise accuracy and that between them from rho. A
    metric cannot explain more than sets of a query have in common: where that would be needed, rho
    goes before the accuracy.

    Args:
        population: its rho and tie_half are sought.
        seed: of the large study.

    Raises:
        AnalysisError: the other shares of variance leave too little for such a rho.
    """

    def study(slopes: Slopes) -> SimulatedStudy:
        return draw_study(population, slopes, SIZE, 1, np.random.default_rng((seed, 1)))

    def rho(slopes: Slopes) -> float:
        return float(study(slopes).rhos().mean())

    def tie_half(slopes: Slopes) -> float:
        return float(study(slopes).tie_halves().mean())

    part = _solve(lambda share: study(Slopes(share, 0, 0)).same_query(), population.metric_query)
    both = (1 + population.between_metrics) / 2
    left = 1 - population.participant - population.query - population.shared
    most = sqrt(left * both / max(1 - part, 1e-9))
    none = Slopes(part, 0.0, 0.0)
    within = _solve(lambda slope: tie_half(replace(none, within=slope)), population.tie_half, most)
    most_query = sqrt(population.query * both / part) if part > 0 else 0.0
    found = replace(none, within=within)
    query = _solve(lambda slope: rho(replace(found, query=slope)), population.rho, most_query)
    found = replace(found, query=query)
    if abs(query) == most_query:
        within = _solve(lambda slope: rho(replace(found, within=slope)), population.rho, most)
        found = replace(found, within=within)
        if abs(within) == most:
            raise AnalysisError(
                "population",
                f"rho = {population.rho:.3f} is out of reach with these shares of variance",
                f"it comes to {rho(found):.3f} at most",
            )
    return found


def _solve(figure: Callable[[float], float], wanted: float, most: float | None = None) -> float:
    """Find where a rising figure has the wanted value; the nearest end where it has it nowhere.

    Args:
        figure: of a number from -most to most; from 0 to 1 where most is None.
        wanted: the value.
        most: the ends.
    """
    low, high = (0.0, 1.0) if most is None else (-most, most)
    if wanted <= figure(low):
        return low
    if wanted >= figure(high):
        return high
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if figure(middle) < wanted else (low, middle)
    return (low + high) / 2
