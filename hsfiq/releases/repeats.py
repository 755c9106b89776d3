"""The second answers to repeated questions, whose first answers a release keeps."""

from __future__ import annotations

from typing import Any

from hsfiq.collect.checks import MIRRORED
from hsfiq.releases.filters import FilteredQuestions


def repeat_rows(questions: FilteredQuestions) -> list[dict[str, Any]]:
    """The rows of `repeats`: answered repeated questions, with the sides of the first question."""
    kept = {question.question_id: question for question in questions.kept}
    rows = []
    for exclusion in questions.excluded:
        again = exclusion.question
        if again.repeats not in kept or again.preferred is None:
            continue
        scores, preferred = (again.score_1, again.score_2), again.preferred
        if again.swapped != kept[again.repeats].swapped:
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
