"""`[questionnaire]`: the owner's extra questions."""

from __future__ import annotations

from dataclasses import dataclass

from hsfiq.study.instrument.extra_questions import ExtraQuestion


@dataclass(frozen=True, slots=True)
class Questionnaire:
    """`[questionnaire]`: extra questions, each a table of its own.

    Attributes:
        after_each: asked with every question, after the main answer.
    """

    after_each: tuple[ExtraQuestion, ...] = ()
