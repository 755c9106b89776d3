"""The order of the sets by the annotator's impressions of them."""

from __future__ import annotations

from random import Random
from typing import Any

from hsfiq.drawn import SimulatedAnnotator
from hsfiq.simulate.kinds.question import JudgedQuestion


def rank_sets(
    annotator: SimulatedAnnotator, rng: Random, question: JudgedQuestion
) -> dict[str, Any]:
    impressions = [annotator.impression(rng, utility) for utility in question.utilities()]
    order = sorted(range(len(impressions)), key=lambda side: -impressions[side])
    return {"ranks": [order.index(side) + 1 for side in range(len(impressions))]}
