"""The rules of `hsfiq.releases.filtering.rules` by columns: which of some questions break them."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from hsfiq.arrow_columns import Array
from hsfiq.releases.reading.pair_questions import PairQuestions

Mask = Callable[[PairQuestions], Array]
"""For each question whether it breaks a rule; null if it does not."""


def reassigned(questions: PairQuestions) -> Array:
    return questions.data["reassigned"]


def attention_check(questions: PairQuestions) -> Array:
    keys = pa.array(list(questions.part.source.checks), pa.int64())
    return pc.is_in(questions.data["key"], value_set=keys)


def unanswered(questions: PairQuestions) -> Array:
    return pc.equal(questions.data["revision"], pa.scalar(0))


def skipped(questions: PairQuestions) -> Array:
    return questions.data["skipped"].is_valid()


def excluded_participant(questions: PairQuestions) -> Array:
    return pc.equal(questions.of_forms("participant_status").array, pa.scalar("excluded"))


def irrelevant(questions: PairQuestions) -> Array:
    return questions.data["irrelevant"]


def contradicts(questions: PairQuestions) -> Array:
    score_1, score_2 = questions.data["score_1"], questions.data["score_2"]
    preferred = questions.data["preferred"]
    first = pc.and_(pc.equal(preferred, pa.scalar(1)), pc.less(score_1, score_2))
    return pc.or_(first, pc.and_(pc.equal(preferred, pa.scalar(2)), pc.less(score_2, score_1)))


def failed_checks(questions: PairQuestions) -> Array:
    return pc.greater(questions.of_forms("failed_checks").array, pa.scalar(0))


def unseen(questions: PairQuestions) -> Array:
    return pc.invert(questions.of_images("images_painted").array)


def faster_than(seconds: float, questions: PairQuestions) -> Array:
    return pc.less(questions.data["active_seconds"], pa.scalar(seconds))


def in_a_run_of(length: int, questions: PairQuestions) -> Array:
    return pc.greater_equal(questions.data["run"], pa.scalar(length))


def nobody(questions: PairQuestions) -> Array:
    """The mask of a rule whose filter is not chosen any more."""
    return pa.repeat(pa.scalar(value=False), len(questions))
