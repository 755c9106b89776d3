"""The rules that drop questions, by rows and as masks over columns, applied and counted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import groupby
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from hsfiq.arrow_columns import FLAG, NUMBER, POINTS, TEXT, WHOLE, Array, ByPlace
from hsfiq.errors import UnreadableInput
from hsfiq.kinds import KIND_OF_RELEASE
from hsfiq.kinds.rows import QuestionRow, Questions
from hsfiq.study.filters import OPTION, Filters, NamedFilter

# The rules that drop questions, in the order in which they are applied.
#
# The rules of `invalid` and their order are the papers' (CIRQRS Table 1; QuRe section 5.1): both
# releases drop questions flagged irrelevant, `hp` also those whose preferred set has the strictly
# lower score.

TYPES = {
    "active_seconds": NUMBER, "check": TEXT, "failed_checks": WHOLE, "images_painted": FLAG,
    "irrelevant": FLAG, "is_left_search": FLAG, "participant_status": TEXT, "preferred": POINTS,
    "reassigned": FLAG, "revision": WHOLE, "run": WHOLE, "score_1": POINTS, "score_2": POINTS,
    "skipped": TEXT,
}  # fmt: skip
"""Of the columns that rules look at."""


class Asked:
    """The columns of some questions as Arrow's arrays, by name."""

    def __init__(self, questions: Questions) -> None:
        self._questions = questions

    def __getitem__(self, name: str) -> Array:
        column = self._questions.column(name)
        if isinstance(column, ByPlace):
            return column.array
        return column if isinstance(column, pa.Array) else pa.array(column, TYPES[name])


def always(_questions: Questions) -> bool:
    return True


def known(column: str) -> Callable[[Questions], bool]:
    return lambda questions: questions.knows(column)


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule with its name in `exclusions` and in the funnel.

    Attributes:
        breaks: for each question whether it breaks the rule; null counts as false.
        value: the value for which the rule drops a question.
        is_recorded: for a rule that needs data that some studies lack: whether a question has them.
        is_listed: whether the rule is in the funnel even if it drops nothing.
    """

    name: str
    breaks: Callable[[Asked], Array]
    value: Callable[[QuestionRow], str | None]
    is_recorded: Callable[[Questions], bool] = always
    is_listed: bool = True

    def broken_by(self, questions: Questions) -> Array:
        """For each question whether it breaks the rule."""
        return self.breaks(Asked(questions)).fill_null(fill_value=False)


def rules(kind: str, filters: Filters) -> Iterator[Rule]:
    """Yield the rules of a kind of release in their order."""
    yield Rule("handed-on", was_reassigned, lambda _: "left by its participant", is_listed=False)
    # A gold question or a repeated one.
    yield Rule(
        "check", lambda asked: asked["check"].is_valid(), lambda asked: asked.check, is_listed=False
    )
    yield Rule("unanswered", is_unanswered, lambda _: "no response")
    # Without an answer, because an image was missing.
    yield Rule("skipped", lambda asked: asked["skipped"].is_valid(), lambda asked: asked.skipped)
    yield Rule("excluded", is_of_excluded, why_excluded, is_listed=False)
    if filters.invalid:
        yield Rule(
            "irrelevant",
            lambda asked: asked["irrelevant"],
            lambda _: "flagged",
            known("irrelevant"),
        )
    if filters.invalid and kind == "hp":
        yield Rule("contradicts", contradicts, how_contradicts)
    if filters.failed_checks:
        yield Rule(
            "failed-checks",
            lambda asked: pc.greater(asked["failed_checks"], pa.scalar(0)),
            lambda asked: f"{asked.failed_checks} failed",
            known("failed_checks"),
        )
    if filters.unseen:
        yield Rule(
            "unseen",
            lambda asked: pc.invert(asked["images_painted"]),
            painted_of_all,
            known("images"),
        )
    if filters.min_seconds is not None:
        least = pa.scalar(filters.min_seconds)
        yield Rule(
            str(NamedFilter.of(filters, "too-fast")),
            lambda asked: pc.less(asked["active_seconds"], least),
            lambda asked: f"{asked.active_seconds} seconds",
            known("active_seconds"),
        )
    if filters.straight_run is not None:
        run = pa.scalar(filters.straight_run)
        yield Rule(
            str(NamedFilter.of(filters, "straight-lining")),
            lambda asked: pc.greater_equal(asked["run"], run),
            lambda asked: f"{asked.run} the same in a row",
        )


def was_reassigned(asked: Asked) -> Array:
    """Not answered by its participant, and reassigned to another participant's form.

    An abandoned search with turns is kept, since its queries are known.
    """
    return pc.and_(asked["reassigned"], pc.invert(asked["is_left_search"]))


def is_unanswered(asked: Asked) -> Array:
    is_open = pc.equal(asked["revision"], pa.scalar(0))
    return pc.and_(is_open, pc.invert(asked["is_left_search"]))


def is_of_excluded(asked: Asked) -> Array:
    """Answered by a participant whom the owner, or the rule about checks, has excluded."""
    return pc.equal(asked["participant_status"], pa.scalar("excluded"))


def why_excluded(question: QuestionRow) -> str:
    return ": ".join(filter(None, ("participant excluded", question.excluded_by_rule)))


def contradicts(asked: Asked) -> Array:
    """`contradicts` of `hsfiq.answer_rules`, in Arrow: an export needs no NumPy."""
    score_1, score_2, preferred = (asked[name] for name in ("score_1", "score_2", "preferred"))
    first = pc.and_(pc.equal(preferred, pa.scalar(1)), pc.less(score_1, score_2))
    return pc.or_(first, pc.and_(pc.equal(preferred, pa.scalar(2)), pc.less(score_2, score_1)))


def how_contradicts(asked: QuestionRow) -> str:
    return f"prefers set {asked.preferred}, scores {asked.score_1} and {asked.score_2}"


def painted_of_all(question: QuestionRow) -> str | None:
    images = question.images
    return f"{images.n_painted} of {len(images)} images painted" if images else None


# Straight-lining: the same answer again and again, whatever is shown.
#
# The measure is the longest run of identical answers of a person, the long-string index (Johnson
# 2005, J. Research in Personality 39; Meade and Craig 2012, Psychological Methods 17). Ours counts,
# for each answer, the run that it belongs to.


def with_runs(questions: Questions) -> Questions:
    """The questions with the `run` of each answered one; they are in the order asked.

    Answers are the same if all values on the page are: of a pair both scores and the preferred
    side, of other kinds the whole judgement, with sets and images in the order shown. Gold and
    repeated questions count; those without an answer are passed over. A run goes on from one form
    of a participant to the next.
    """
    return questions.with_runs(runs(questions.given()))


def runs(answers: Sequence[Any]) -> list[int | None]:
    """For each answer, how many of the same there are in a row; None is passed over."""
    lengths: list[int | None] = [None] * len(answers)
    answered = [place for place, answer in enumerate(answers) if answer is not None]
    for _, same in groupby(answered, key=answers.__getitem__):
        places = list(same)
        for place in places:
            lengths[place] = len(places)
    return lengths


@dataclass(frozen=True, slots=True)
class Exclusion:
    """A dropped question with the rules that it broke, in their order; the first dropped it."""

    question: QuestionRow
    broken: tuple[tuple[str, str], ...]
    """The name of each rule that a question matched, and the value that matched it."""

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

    `dropped` counts the questions that broke no earlier rule. It is None if no question has the
    data that the rule needs. `broken_by` counts all that broke the rule.
    """

    rule: str
    dropped: int | None
    left: int
    broken_by: int | None


@dataclass(frozen=True, slots=True)
class Funnel:
    """The number of assigned questions, and the questions dropped by each rule in turn."""

    n_assigned: int
    steps: tuple[FunnelStep, ...]
    n_kept: int


@dataclass(slots=True)
class Count:
    """How many questions a rule dropped and matched, and whether what it needs is known."""

    rule: Rule
    dropped: int = 0
    broken_by: int = 0
    is_recorded: bool = False


class Sifted(NamedTuple):
    """The questions kept, those dropped, and why."""

    kept: Questions
    dropped: Questions
    excluded: list[Exclusion]


class Sieve:
    """Keeps or drops questions, and counts them; the parts come in the order of the study.

    Raises:
        UnreadableInput: answers of this kind cannot be filtered by these rules.
    """

    def __init__(self, kind: str, filters: Filters) -> None:
        if filters.straight_run is not None and KIND_OF_RELEASE[kind].is_live:
            what = f"straight-lining is not defined for answers of kind {kind}"
            raise UnreadableInput(OPTION, what, "leave it out")
        self.needs_runs = filters.straight_run is not None
        self.counts = [Count(rule) for rule in rules(kind, filters)]
        self.n_assigned = 0

    def add_earlier(self, steps: Sequence[Mapping[str, Any]]) -> None:
        """Count the questions dropped before the study was imported, by the original funnel."""
        known = {count.rule.name: count for count in self.counts}
        new = [step["rule"] for step in steps if step["rule"] not in known]
        known |= {name: Count(Rule(name, nobody, nothing, never)) for name in new}
        self.counts = [*(known[name] for name in new), *self.counts]
        for step in steps:
            count = known[step["rule"]]
            dropped = step["dropped"] or 0
            count.dropped += dropped
            broken_by = step.get("broken_by", dropped)
            count.broken_by += broken_by or 0
            count.is_recorded |= step["dropped"] is not None
            self.n_assigned += dropped

    def sift(self, questions: Questions) -> Sifted:
        """Keep or drop questions of whole participants."""
        if self.needs_runs:
            questions = with_runs(questions)
        self.n_assigned += len(questions)
        kept, dropped = self.parted(questions)
        broken = [count.rule.broken_by(dropped).to_pylist() for count in self.counts]
        excluded = [
            self.drop(question, [place for place, of_rule in enumerate(broken) if of_rule[number]])
            for number, question in enumerate(dropped)
        ]
        self.note_recorded(kept, dropped, broken)
        return Sifted(kept, dropped, excluded)

    def parted(self, questions: Questions) -> tuple[Questions, Questions]:
        """The questions that break no rule, and the others."""
        is_dropped = reduce(pc.or_, [count.rule.broken_by(questions) for count in self.counts])
        return questions.filter(pc.invert(is_dropped)), questions.filter(is_dropped)

    def drop(self, question: QuestionRow, broken: Sequence[int]) -> Exclusion:
        """Count a question that breaks these rules, by their places."""
        self.counts[broken[0]].dropped += 1
        for place in broken:
            self.counts[place].broken_by += 1
        rules = [self.counts[place].rule for place in broken]
        return Exclusion(question, tuple((rule.name, rule.value(question) or "") for rule in rules))

    def note_recorded(
        self, kept: Questions, dropped: Questions, broken: Sequence[Sequence[bool]]
    ) -> None:
        """Note for which rules a question that reached the rule has the necessary data.

        `broken` has, for each rule, the dropped questions that break the rule.
        """
        has_come = [True] * len(dropped)
        for count, of_rule in zip(self.counts, broken, strict=True):
            if not count.is_recorded:
                come = dropped.filter(pa.array(has_come, FLAG))
                count.is_recorded = any(
                    len(questions) > 0 and count.rule.is_recorded(questions)
                    for questions in (kept, come)
                )
            has_come = [come and not breaks for come, breaks in zip(has_come, of_rule, strict=True)]

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


def nobody(asked: Asked) -> Array:
    """The rows dropped by a rule whose filter is no longer chosen."""
    return pc.is_null(asked["revision"])


def nothing(_question: QuestionRow) -> None:
    """Nothing is dropped."""


def never(_questions: Questions) -> bool:
    return False
