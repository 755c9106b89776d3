"""Applying the rules to the questions of a study, part by part, and counting."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import pyarrow.compute as pc

from hsfiq.errors import UnreadableInput
from hsfiq.releases.filtering import masks
from hsfiq.releases.filtering.rules import Rule, rules
from hsfiq.releases.filtering.runs import with_runs
from hsfiq.releases.filters import OPTION, Filters, Kind
from hsfiq.releases.reading.pair_questions import PairQuestions
from hsfiq.releases.reading.questions import QuestionRows, Questions
from hsfiq.releases.rows import QuestionRow

WITHOUT_RUNS = ("search", "arena")
"""The kinds of releases whose answers are not chosen from the same few each time."""


@dataclass(frozen=True, slots=True)
class Exclusion:
    """A dropped question with the rules that it broke, in their order; the first dropped it."""

    question: QuestionRow
    broken: tuple[tuple[str, str], ...]
    """The name of each rule, and the value that broke it."""

    def row(self) -> dict[str, Any]:
        """Return the row of `exclusions`."""
        rule, value = self.broken[0]
        return {
            "question_id": self.question.question_id,
            "participant_id": self.question.participant_id,
            "query_id": self.question.query_id,
            "rule": rule,
            "value": value,
            "rules": [rule for rule, _ in self.broken],
            "values": [value for _, value in self.broken],
        }


@dataclass(frozen=True, slots=True)
class FunnelStep:
    """A rule of the funnel: how many questions it dropped and how many were left.

    `dropped` counts the questions that broke no rule before this one. It is None if what the rule
    needs was not recorded of any question. `broken_by` counts all that broke the rule.
    """

    rule: str
    dropped: int | None
    left: int
    broken_by: int | None


@dataclass(frozen=True, slots=True)
class Funnel:
    """How many questions were assigned, and what each rule dropped of those that were left."""

    n_assigned: int
    steps: tuple[FunnelStep, ...]
    n_kept: int


@dataclass(slots=True)
class Count:
    """How many questions a rule dropped, how many broke it, and whether what it needs is known."""

    rule: Rule
    dropped: int = 0
    broken_by: int = 0
    is_recorded: bool = False


class Sieve:
    """Keeps or drops questions, and counts them; the parts come in the order of the study.

    Raises:
        UnreadableInput: answers of this kind cannot be filtered so.
    """

    def __init__(self, kind: Kind, filters: Filters) -> None:
        if filters.straight_run is not None and kind in WITHOUT_RUNS:
            what = f"straight-lining is not defined for answers of kind {kind}"
            raise UnreadableInput(OPTION, what, "leave it out")
        self.needs_runs = filters.straight_run is not None
        self.counts = [Count(rule) for rule in rules(kind, filters)]
        self.n_assigned = 0

    def add_earlier(self, steps: Sequence[Mapping[str, Any]]) -> None:
        """Count what rules dropped before the study was imported, by the steps of that funnel."""
        known = {count.rule.name: count for count in self.counts}
        new = [step["rule"] for step in steps if step["rule"] not in known]
        known |= {name: Count(Rule(name, nothing, masks.nobody, never)) for name in new}
        self.counts = [*(known[name] for name in new), *self.counts]
        for step in steps:
            count = known[step["rule"]]
            dropped = step["dropped"] or 0
            count.dropped += dropped
            broken_by = step.get("broken_by", dropped)
            count.broken_by += broken_by or 0
            count.is_recorded |= step["dropped"] is not None
            self.n_assigned += dropped

    def sift(self, questions: Questions) -> tuple[Questions, list[Exclusion]]:
        """The questions that are kept and those that are dropped, of whole participants."""
        if self.needs_runs:
            questions = with_runs(questions)
        self.n_assigned += len(questions)
        kept, dropped = self.parted(questions)
        judges = [count.rule.judge for count in self.counts]
        excluded = [self.drop(each, [judge(each) for judge in judges]) for each in dropped]
        self.note_recorded(kept, len(self.counts))
        return kept, excluded

    def parted(self, questions: Questions) -> tuple[Questions, Questions]:
        """The questions that break no rule, and the others."""
        rules = [count.rule for count in self.counts]
        if isinstance(questions, PairQuestions):
            broken = [rule.broken_by(questions) for rule in rules]
            is_dropped = reduce(pc.or_, broken)
            return questions.filter(pc.invert(is_dropped)), questions.filter(is_dropped)
        kept, dropped = QuestionRows(), QuestionRows()
        for question in questions:
            is_kept = all(rule.judge(question) is None for rule in rules)
            (kept if is_kept else dropped).append(question)
        return kept, dropped

    def drop(self, question: QuestionRow, values: Sequence[str | None]) -> Exclusion:
        broken = [place for place, value in enumerate(values) if value is not None]
        self.counts[broken[0]].dropped += 1
        for place in broken:
            self.counts[place].broken_by += 1
        self.note_recorded(QuestionRows([question]), broken[0] + 1)
        return Exclusion(
            question, tuple((self.counts[place].rule.name, values[place] or "") for place in broken)
        )

    def note_recorded(self, questions: Questions, n_rules: int) -> None:
        """Note for which of the first rules the questions have what the rule needs."""
        for count in self.counts[:n_rules]:
            if not count.is_recorded:
                count.is_recorded = bool(questions) and count.rule.is_recorded(questions)

    def funnel(self) -> Funnel:
        return Funnel(self.n_assigned, tuple(self.steps()), self.n_kept)

    @property
    def n_kept(self) -> int:
        return self.n_assigned - sum(count.dropped for count in self.counts)

    def steps(self) -> Iterator[FunnelStep]:
        left = self.n_assigned
        for count in self.counts:
            is_known = count.is_recorded or not left
            left -= count.dropped
            if count.broken_by or count.rule.is_listed:
                dropped, broken_by = (count.dropped, count.broken_by) if is_known else (None, None)
                yield FunnelStep(count.rule.name, dropped, left, broken_by)


def nothing(_question: QuestionRow) -> None:
    """The judge of a rule whose filter is not chosen any more."""


def never(_questions: Questions) -> bool:
    return False
