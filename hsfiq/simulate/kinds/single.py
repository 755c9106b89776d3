"""The score of one set, as `SimulatedAnnotator` scores the sets of a pair."""

from __future__ import annotations

from random import Random
from typing import Any

from hsfiq.drawn import SimulatedAnnotator
from hsfiq.simulate.kinds.question import JudgedQuestion


def judge_set(
    annotator: SimulatedAnnotator, rng: Random, question: JudgedQuestion
) -> dict[str, Any]:
    (utility,) = question.utilities()
    points = question.study["points"]
    return {"score": annotator.score(rng, utility, progress=question.progress, points=points)}
