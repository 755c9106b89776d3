"""The filters of a release: which questions it keeps, and why it drops the others.

The rules of `invalid` and their order are the papers' (CIRQRS Table 1; QuRe section 5.1): both
releases drop questions flagged irrelevant, `hp` also those whose preferred set has the strictly
lower score.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from hsfiq import answer_rules
from hsfiq.releases.rows import QuestionRow

Kind = str
"""A name in `hsfiq.releases.kinds`."""

Rule = Callable[[QuestionRow], str | None]
"""Returns the value for which it drops a question; None to keep the question."""

NOT_RECORDED = "not recorded"

ONLY_IF_IT_DROPS = {"handed-on", "check", "excluded"}
"""Rules that are in the funnel only if they drop a question."""


@dataclass(frozen=True, slots=True)
class Filters:
    """The optional filters; each is a step of the funnel.

    Attributes:
        invalid: drop questions flagged irrelevant and, for `hp`, contradicting ones.
        failed_checks: drop forms in which an attention check failed.
        unseen: drop questions answered without every image painted.
        min_seconds: drop questions answered in less active time.
    """

    invalid: bool = False
    failed_checks: bool = False
    unseen: bool = False
    min_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Exclusion:
    question: QuestionRow
    rule: str
    value: str

    def row(self) -> dict[str, Any]:
        """Return the row of `exclusions`."""
        return {
            "question_id": self.question.question_id,
            "participant_id": self.question.participant_id,
            "query_id": self.question.query_id,
            "rule": self.rule,
            "value": self.value,
        }


@dataclass(frozen=True, slots=True)
class FunnelStep:
    """A rule of the funnel: how many questions it dropped and how many were left.

    `dropped` is None if what the rule needs was not recorded of any question.
    """

    rule: str
    dropped: int | None
    left: int


@dataclass(frozen=True, slots=True)
class FilteredQuestions:
    n_assigned: int
    kept: list[QuestionRow]
    excluded: list[Exclusion]
    funnel: list[FunnelStep]


def always(_question: QuestionRow) -> bool:
    return True


RECORDED: dict[str, Callable[[QuestionRow], bool]] = {
    "irrelevant": lambda question: question.irrelevant is not None,
    "failed-checks": lambda question: question.failed_checks is not None,
    "unseen": lambda question: question.images is not None,
    "min-seconds": lambda question: question.active_seconds is not None,
}
"""For the rules that need what some studies lack: whether it is known of a question."""


def filter_questions(
    questions: Sequence[QuestionRow], kind: Kind, filters: Filters
) -> FilteredQuestions:
    """Apply the rules in their order; the first that drops a question excludes it."""
    kept = list(questions)
    excluded: list[Exclusion] = []
    funnel = []
    for name, rule in rules(kind, filters):
        is_recorded = not kept or any(RECORDED.get(name, always)(question) for question in kept)
        left = []
        for question in kept:
            value = rule(question)
            if value is None:
                left.append(question)
            else:
                excluded.append(Exclusion(question, name, value))
        n_dropped = len(kept) - len(left)
        kept = left
        if n_dropped or name not in ONLY_IF_IT_DROPS:
            funnel.append(FunnelStep(name, n_dropped if is_recorded else None, len(kept)))
    return FilteredQuestions(len(questions), kept, excluded, funnel)


def rules(kind: Kind, filters: Filters) -> Iterator[tuple[str, Rule]]:
    """Yield the rules in their order, with their names in `exclusions` and in the funnel."""
    yield "handed-on", reassigned
    yield "check", attention_check
    yield "unanswered", unanswered
    yield "skipped", skipped
    yield "excluded", excluded_participant
    if filters.invalid:
        yield "irrelevant", irrelevant
    if filters.invalid and kind == "hp":
        yield "contradicts", contradicts
    if filters.failed_checks:
        yield "failed-checks", failed_checks
    if filters.unseen:
        yield "unseen", unseen
    if filters.min_seconds is not None:
        yield "min-seconds", faster_than(filters.min_seconds)


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


def faster_than(seconds: float) -> Rule:
    """Answered in less active time than this; answers without times are kept."""

    def rule(question: QuestionRow) -> str | None:
        spent = question.active_seconds
        return f"{spent} seconds" if spent is not None and spent < seconds else None

    return rule
