"""Which answers a release keeps, and why each of the others was dropped.

The rules and their order are the papers' (CIRQRS Table 1; QuRe section 5.1): questions flagged
irrelevant leave both releases, and from the preferences those leave too whose preferred set was
given the strictly lower score. Equal scores stay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from hsfiq.releases.rows import QuestionRow

Kind = Literal["hs", "hp"]
Rule = Callable[[QuestionRow], str | None]
"""Gives the value that drops a question, None where the question stays."""

ONLY_WHERE_MET = {"handed-on", "check", "excluded"}
"""Rules that most studies never meet; the funnel has a line for them only where it drops one."""


@dataclass(frozen=True, slots=True)
class Filters:
    """What is asked of the answers beyond being there; each is a line of the funnel."""

    invalid: bool = False
    failed_checks: bool = False
    min_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Exclusion:
    """A question that the release does not hold, with the rule and the value that dropped it."""

    question: QuestionRow
    rule: str
    value: str


@dataclass(frozen=True, slots=True)
class FunnelStep:
    """One rule of the funnel: how many it dropped and how many were left."""

    rule: str
    dropped: int
    left: int


@dataclass(frozen=True, slots=True)
class Sifted:
    """What the rules left, what they dropped, and the funnel from the one to the other."""

    n_assigned: int
    kept: list[QuestionRow]
    excluded: list[Exclusion]
    funnel: list[FunnelStep] = field(default_factory=list)


def sift(questions: Sequence[QuestionRow], kind: Kind, filters: Filters) -> Sifted:
    """Apply the rules one after the other; the first that drops a question names it."""
    kept = list(questions)
    excluded: list[Exclusion] = []
    funnel = []
    for name, rule in rules(kind, filters):
        dropped = [
            Exclusion(question, name, value)
            for question in kept
            if (value := rule(question)) is not None
        ]
        gone = {exclusion.question.question_id for exclusion in dropped}
        kept = [question for question in kept if question.question_id not in gone]
        excluded += dropped
        if dropped or name not in ONLY_WHERE_MET:
            funnel.append(FunnelStep(name, len(dropped), len(kept)))
    return Sifted(len(questions), kept, excluded, funnel)


def rules(kind: Kind, filters: Filters) -> Iterator[tuple[str, Rule]]:
    """The rules in their order, by the names that `exclusions` and the funnel use."""
    yield "handed-on", handed_on
    yield "check", check
    yield "unanswered", unanswered
    yield "skipped", skipped
    yield "excluded", excluded
    if filters.invalid:
        yield "irrelevant", irrelevant
    if filters.invalid and kind == "hp":
        yield "contradicts", contradicts
    if filters.failed_checks:
        yield "failed-checks", failed_checks
    if filters.min_seconds is not None:
        yield "min-seconds", faster_than(filters.min_seconds)


def handed_on(question: QuestionRow) -> str | None:
    """Left by its participant; it stands again in the form of whoever came after."""
    return "left by its participant" if question.handed_on else None


def check(question: QuestionRow) -> str | None:
    """Asked to see whether somebody pays attention: a gold or repeated pair."""
    return question.check


def excluded(question: QuestionRow) -> str | None:
    """Answered by somebody whom the study's owner has excluded."""
    return "participant excluded" if question.participant_status == "excluded" else None


def unanswered(question: QuestionRow) -> str | None:
    """Handed to a participant who has not answered it."""
    return "no response" if question.answer is None and question.skipped is None else None


def skipped(question: QuestionRow) -> str | None:
    """Left without scores, because an image of it was missing."""
    return question.skipped


def irrelevant(question: QuestionRow) -> str | None:
    """Flagged as having nothing to do with the image or the text."""
    return "flagged" if question.answer and question.answer.irrelevant else None


def contradicts(question: QuestionRow) -> str | None:
    """The preferred set was given the strictly lower score."""
    answer = question.answer
    if answer is None or not answer.contradicts:
        return None
    return f"prefers set {answer.preferred}, scores {answer.score_1} and {answer.score_2}"


def failed_checks(question: QuestionRow) -> str | None:
    """A check of its form was failed: a wrong sum, a gold pair missed, a repeat contradicted."""
    return f"{question.failed_checks} failed" if question.failed_checks else None


def faster_than(seconds: float) -> Rule:
    """Answered in less active time than this; published answers without times stay."""

    def rule(question: QuestionRow) -> str | None:
        spent = question.answer.times.active_seconds if question.answer else None
        return f"{spent} seconds" if spent is not None and spent < seconds else None

    return rule
