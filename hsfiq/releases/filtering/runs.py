"""Straight-lining: the same answer again and again, whatever is shown.

The measure is the longest run of identical answers of a person, the long-string index (Johnson
2005, J. Research in Personality 39; Meade and Craig 2012, Psychological Methods 17). Ours counts,
for each answer, the run that it belongs to.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import Any

from hsfiq.releases.rows import QuestionRow


def mark_runs(questions: Iterable[QuestionRow]) -> None:
    """Set `run` of each answered question; the questions are in the order in which they were asked.

    Answers are the same if all values on the page are: of a pair both scores and the preferred
    side, of other kinds the whole judgement, with sets and images in the order shown. Gold and
    repeated questions count; those without an answer are passed over. A run goes on from one form
    of a participant to the next.
    """
    answered = (question for question in questions if answer_of(question) is not None)
    for _, same in groupby(answered, key=lambda each: (each.participant_id, answer_of(each))):
        run = list(same)
        for question in run:
            question.run = len(run)


def answer_of(question: QuestionRow) -> Any:
    """What was answered, as the page showed it; None without an answer."""
    if question.judgement is not None:
        return question.judgement
    if question.preferred is None:
        return None
    return question.score_1, question.score_2, question.preferred
