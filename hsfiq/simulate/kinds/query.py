"""Whether a query is well formed: it is, unless the target does not fit or the annotator lapses."""

from __future__ import annotations

from random import Random
from typing import Any

from hsfiq.drawn import SimulatedAnnotator
from hsfiq.drawn.annotators import IRRELEVANT_BELOW
from hsfiq.kinds.query import OF_TARGET, VERDICTS
from hsfiq.simulate.kinds.question import JudgedQuestion


def judge_query(
    annotator: SimulatedAnnotator, rng: Random, question: JudgedQuestion
) -> dict[str, Any]:
    utilities = question.utilities()
    if rng.random() < annotator.lapse_rate:
        known = [verdict for verdict in VERDICTS if utilities or verdict != OF_TARGET]
        return {"verdict": rng.choice(known)}
    misses = any(utility < IRRELEVANT_BELOW for utility in utilities)
    return {"verdict": OF_TARGET if misses else "VALIDATED"}
