"""`[questionnaire]`: the owner's extra questions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hsfiq.study.instrument.extra_questions import ExtraQuestion, question_errors
from hsfiq.study.instrument.wording import is_line

LONGEST_NOTE = 1000


@dataclass(frozen=True, slots=True)
class Questionnaire:
    """`[questionnaire]`: extra questions, each a table of its own.

    Attributes:
        after_each: asked with every question, after the main answer.
        note: shown above those at the end: what they are for, or that answering is voluntary.
        at_end: asked once, after the last question.
    """

    after_each: tuple[ExtraQuestion, ...] = ()
    note: str = ""
    at_end: tuple[ExtraQuestion, ...] = ()


def questionnaire_errors(questionnaire: Questionnaire) -> Iterator[tuple[str, str]]:
    """What is wrong with the questions and the note, by the key of study.toml."""
    yield from question_errors(
        {
            "questionnaire.after_each": questionnaire.after_each,
            "questionnaire.at_end": questionnaire.at_end,
        }
    )
    note = questionnaire.note
    if note and not questionnaire.at_end:
        yield (
            "questionnaire.note",
            "stands above the questions at the end, but there is none",
        )
    elif note and not is_line(note, LONGEST_NOTE):
        what = f"must be one line of at most {LONGEST_NOTE:,} characters, not blank"
        yield "questionnaire.note", what
