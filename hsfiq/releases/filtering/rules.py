"""The rules that drop questions, in the order in which they are applied.

The rules of `invalid` and their order are the papers' (CIRQRS Table 1; QuRe section 5.1): both
releases drop questions flagged irrelevant, `hp` also those whose preferred set has the strictly
lower score.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from hsfiq import answer_rules
from hsfiq.arrow_columns import Array
from hsfiq.releases.filtering import masks
from hsfiq.releases.filtering.masks import Mask
from hsfiq.releases.filters import Filters, Kind, NamedFilter
from hsfiq.releases.reading.pair_questions import PairQuestions
from hsfiq.releases.reading.questions import Questions
from hsfiq.releases.rows import QuestionRow
from hsfiq.releases.schemas import FLAG

Judge = Callable[[QuestionRow], str | None]
"""Returns the value for which a rule drops a question; None to keep the question."""


def always(_questions: Questions) -> bool:
    return True


def known(column: str) -> Callable[[Questions], bool]:
    return lambda questions: questions.knows(column)


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule with its name in `exclusions` and in the funnel.

    Attributes:
        mask: the same as `judge`, of questions by columns, where that is faster.
        is_recorded: for a rule that needs what some studies lack: whether a question has that.
        is_listed: whether it is in the funnel even if it drops nothing.
    """

    name: str
    judge: Judge
    mask: Mask | None = None
    is_recorded: Callable[[Questions], bool] = always
    is_listed: bool = True

    def broken_by(self, questions: PairQuestions) -> Array:
        """For each question whether it breaks the rule."""
        if self.mask is None:
            return pa.array([self.judge(question) is not None for question in questions], FLAG)
        return self.mask(questions).fill_null(fill_value=False)


def rules(kind: Kind, filters: Filters) -> Iterator[Rule]:
    """Yield the rules in their order."""
    yield Rule("handed-on", reassigned, masks.reassigned, is_listed=False)
    yield Rule("check", attention_check, masks.attention_check, is_listed=False)
    yield Rule("unanswered", unanswered, masks.unanswered)
    yield Rule("skipped", skipped, masks.skipped)
    yield Rule("excluded", excluded_participant, masks.excluded_participant, is_listed=False)
    if filters.invalid:
        yield Rule("irrelevant", irrelevant, masks.irrelevant, known("irrelevant"))
    if filters.invalid and kind == "hp":
        yield Rule("contradicts", contradicts, masks.contradicts)
    if filters.failed_checks:
        yield Rule("failed-checks", failed_checks, masks.failed_checks, known("failed_checks"))
    if filters.unseen:
        yield Rule("unseen", unseen, masks.unseen, known("images"))
    if filters.min_seconds is not None:
        name, least = str(NamedFilter.of(filters, "too-fast")), filters.min_seconds
        mask = partial(masks.faster_than, least)
        yield Rule(name, faster_than(least), mask, known("active_seconds"))
    if filters.straight_run is not None:
        name, run = str(NamedFilter.of(filters, "straight-lining")), filters.straight_run
        yield Rule(name, in_a_run_of(run), partial(masks.in_a_run_of, run))


def reassigned(question: QuestionRow) -> str | None:
    """Left by its participant, and now in another participant's form."""
    if not question.reassigned or question.is_left_search:
        return None
    return "left by its participant"


def attention_check(question: QuestionRow) -> str | None:
    """A gold question or a repeated one."""
    return question.check


def excluded_participant(question: QuestionRow) -> str | None:
    """Answered by a participant whom the owner, or the rule about checks, has excluded."""
    if question.participant_status != "excluded":
        return None
    return ": ".join(filter(None, ("participant excluded", question.excluded_by_rule)))


def unanswered(question: QuestionRow) -> str | None:
    """A search with turns that its participant left is kept: what was searched is known."""
    return None if question.revision or question.is_left_search else "no response"


def skipped(question: QuestionRow) -> str | None:
    """Without scores, because an image was missing."""
    return question.skipped


def irrelevant(question: QuestionRow) -> str | None:
    return "flagged" if question.irrelevant else None


def contradicts(question: QuestionRow) -> str | None:
    """The preferred set has the strictly lower score."""
    score_1, score_2, preferred = question.score_1, question.score_2, question.preferred
    if score_1 is None or score_2 is None or preferred is None:
        return None
    if not answer_rules.contradicts(preferred, score_1, score_2):
        return None
    return f"prefers set {preferred}, scores {score_1} and {score_2}"


def failed_checks(question: QuestionRow) -> str | None:
    """A check of its form failed: a sum, a gold question or a repeated one."""
    return f"{question.failed_checks} failed" if question.failed_checks else None


def unseen(question: QuestionRow) -> str | None:
    """Answered without every image painted; answers whose images are unknown are kept."""
    images = question.images
    if images is None or images.are_painted:
        return None
    return f"{images.n_painted} of {len(images)} images painted"


def faster_than(seconds: float) -> Judge:
    """Answered in less active time than this; answers without times are kept."""

    def judge(question: QuestionRow) -> str | None:
        spent = question.active_seconds
        return f"{spent} seconds" if spent is not None and spent < seconds else None

    return judge


def in_a_run_of(length: int) -> Judge:
    """Among so many of the same answers in a row, or more (`with_runs`)."""

    def judge(question: QuestionRow) -> str | None:
        run = question.run
        return f"{run} the same in a row" if run is not None and run >= length else None

    return judge
