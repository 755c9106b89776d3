"""The rows of `repeats`: answered repeated questions, with the sides of the first question."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hsfiq.collect.checks import MIRRORED
from hsfiq.releases.filtering.sieve import Exclusion
from hsfiq.releases.reading.questions import Questions


def repeat_rows(kept: Questions, excluded: Iterable[Exclusion]) -> list[dict[str, Any]]:
    """The rows, of the questions of whole participants."""
    asked_again = [
        exclusion.question
        for exclusion in excluded
        if exclusion.question.repeats is not None and exclusion.question.preferred is not None
    ]
    if not asked_again:
        return []
    repeated = {question.repeats for question in asked_again}
    first_asked = {
        name: kept[place]
        for place, name in enumerate(kept.values("question_id"))
        if name in repeated
    }
    rows = []
    for again in asked_again:
        first = first_asked.get(again.repeats or "")
        if first is None or again.preferred is None:
            continue
        scores, preferred = (again.score_1, again.score_2), again.preferred
        if again.swapped != first.swapped:
            scores, preferred = scores[::-1], MIRRORED[preferred]
        rows.append(
            {
                "question_id": again.question_id,
                "repeated_id": again.repeats,
                "participant_id": again.participant_id,
                "query_id": again.query_id,
                "score_1": scores[0],
                "score_2": scores[1],
                "preferred": preferred,
                "active_seconds": again.active_seconds,
            }
        )
    return rows
