"""The level of each image, by an impression of its own utility."""

from __future__ import annotations

from random import Random
from typing import Any

from hsfiq.drawn import SimulatedAnnotator
from hsfiq.drawn.utility import utility
from hsfiq.simulate.kinds.question import JudgedQuestion


def judge_images(
    annotator: SimulatedAnnotator, rng: Random, question: JudgedQuestion
) -> dict[str, Any]:
    (garments,), levels = question.sets, question.study["levels"]
    best = [max(utility(read, garment) for read in question.readings) for garment in garments]
    scores = [annotator.score(rng, each, progress=question.progress) for each in best]
    # Of five scores, as many levels: 1 is always the lowest and 5 the highest.
    return {"relevance": [(score - 1) * levels // 5 for score in scores]}
