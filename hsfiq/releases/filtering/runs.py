"""Straight-lining: the same answer again and again, whatever is shown.

The measure is the longest run of identical answers of a person, the long-string index (Johnson
2005, J. Research in Personality 39; Meade and Craig 2012, Psychological Methods 17). Ours counts,
for each answer, the run that it belongs to.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from hsfiq.releases.reading.pair_questions import PairQuestions
from hsfiq.releases.reading.questions import Questions
from hsfiq.releases.rows import QuestionRow


def with_runs(questions: Questions) -> Questions:
    """The questions with the `run` of each answered one; they are in the order asked.

    Answers are the same if all values on the page are: of a pair both scores and the preferred
    side, of other kinds the whole judgement, with sets and images in the order shown. Gold and
    repeated questions count; those without an answer are passed over. A run goes on from one form
    of a participant to the next.
    """
    if isinstance(questions, PairQuestions):
        columns = ("participant_id", "score_1", "score_2", "preferred")
        rows = zip(*map(questions.values, columns), strict=True)
        return questions.with_runs(runs([None if row[-1] is None else row for row in rows]))
    answers = [
        None if (answer := answer_of(question)) is None else (question.participant_id, answer)
        for question in questions
    ]
    for question, run in zip(questions, runs(answers), strict=True):
        question.run = run
    return questions


def runs(answers: Sequence[Any]) -> list[int | None]:
    """For each answer, how many of the same there are in a row; None is passed over."""
    lengths: list[int | None] = [None] * len(answers)
    answered = [place for place, answer in enumerate(answers) if answer is not None]
    for _, same in groupby(answered, key=answers.__getitem__):
        places = list(same)
        for place in places:
            lengths[place] = len(places)
    return lengths


def answer_of(question: QuestionRow) -> Any:
    """What was answered, as the page showed it; None without an answer."""
    if question.judgement is not None:
        return question.judgement
    if question.preferred is None:
        return None
    return question.score_1, question.score_2, question.preferred
