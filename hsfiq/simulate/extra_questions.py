"""How simulated annotators answer the owner's extra questions: at random, and not all of them."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from hsfiq.collect.protocol import ExtraAnswer, ExtraQuestionView

TEXT = "written by a simulated annotator"

_SHARE_LEFT = 0.1  # of the answers that are not required


def answer_extra(rng: Random, questions: Sequence[ExtraQuestionView]) -> dict[str, ExtraAnswer]:
    return {
        question["name"]: random_answer(rng, question)
        for question in questions
        if question["required"] or rng.random() >= _SHARE_LEFT
    }


def random_answer(rng: Random, question: ExtraQuestionView) -> ExtraAnswer:
    numbers = range(1, len(question["options"]) + 1)
    if question["type"] == "text":
        return TEXT
    if question["type"] == "number":
        return random_number(rng, question)
    options: list[int | str] = [*numbers, *([TEXT] if question["other"] else [])]
    if question["type"] == "choices":
        return rng.sample(options, rng.randint(1, len(options)))
    return rng.choice(options)


def random_number(rng: Random, question: ExtraQuestionView) -> float:
    """A number from 18 to 80, moved into the question's bounds."""
    number: float = rng.randint(18, 80)
    if question["min"] is not None:
        number = max(number, question["min"])
    return number if question["max"] is None else min(number, question["max"])
