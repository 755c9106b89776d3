"""The rules that drop questions, by rows and as masks over columns, applied and counted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from itertools import groupby
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from hsfiq import answer_rules
from hsfiq.arrow_columns import FLAG, Array
from hsfiq.errors import UnreadableInput
from hsfiq.kinds import KIND_OF_RELEASE
from hsfiq.kinds.rows import QuestionRow, QuestionRows, Questions
from hsfiq.releases.filters import OPTION, Filters, Kind, NamedFilter
from hsfiq.releases.pair_questions import PairQuestions

# The rules as masks over columns; the same rules for single rows are below.

Mask = Callable[[PairQuestions], Array]
"""For each question whether it breaks a rule; null if it does not."""


def reassigned_mask(questions: PairQuestions) -> Array:
    return questions.data["reassigned"]


def attention_check_mask(questions: PairQuestions) -> Array:
    keys = pa.array(list(questions.part.source.checks), pa.int64())
    return pc.is_in(questions.data["key"], value_set=keys)


def unanswered_mask(questions: PairQuestions) -> Array:
    return pc.equal(questions.data["revision"], pa.scalar(0))


def skipped_mask(questions: PairQuestions) -> Array:
    return questions.data["skipped"].is_valid()


def excluded_participant_mask(questions: PairQuestions) -> Array:
    return pc.equal(questions.of_forms("participant_status").array, pa.scalar("excluded"))


def irrelevant_mask(questions: PairQuestions) -> Array:
    return questions.data["irrelevant"]


def contradicts_mask(questions: PairQuestions) -> Array:
    score_1, score_2 = questions.data["score_1"], questions.data["score_2"]
    preferred = questions.data["preferred"]
    first = pc.and_(pc.equal(preferred, pa.scalar(1)), pc.less(score_1, score_2))
    return pc.or_(first, pc.and_(pc.equal(preferred, pa.scalar(2)), pc.less(score_2, score_1)))


def failed_checks_mask(questions: PairQuestions) -> Array:
    return pc.greater(questions.of_forms("failed_checks").array, pa.scalar(0))


def unseen_mask(questions: PairQuestions) -> Array:
    return pc.invert(questions.of_images("images_painted").array)


def faster_than_mask(seconds: float, questions: PairQuestions) -> Array:
    return pc.less(questions.data["active_seconds"], pa.scalar(seconds))


def in_a_run_of_mask(length: int, questions: PairQuestions) -> Array:
    return pc.greater_equal(questions.data["run"], pa.scalar(length))


def nobody_mask(questions: PairQuestions) -> Array:
    """The mask of a rule whose filter is not chosen any more."""
    return pa.repeat(pa.scalar(value=False), len(questions))


# The rules that drop questions, in the order in which they are applied.
#
# The rules of `invalid` and their order are the papers' (CIRQRS Table 1; QuRe section 5.1): both
# releases drop questions flagged irrelevant, `hp` also those whose preferred set has the strictly
# lower score.

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
    yield Rule("handed-on", reassigned, reassigned_mask, is_listed=False)
    yield Rule("check", attention_check, attention_check_mask, is_listed=False)
    yield Rule("unanswered", unanswered, unanswered_mask)
    yield Rule("skipped", skipped, skipped_mask)
    yield Rule("excluded", excluded_participant, excluded_participant_mask, is_listed=False)
    if filters.invalid:
        yield Rule("irrelevant", irrelevant, irrelevant_mask, known("irrelevant"))
    if filters.invalid and kind == "hp":
        yield Rule("contradicts", contradicts, contradicts_mask)
    if filters.failed_checks:
        yield Rule("failed-checks", failed_checks, failed_checks_mask, known("failed_checks"))
    if filters.unseen:
        yield Rule("unseen", unseen, unseen_mask, known("images"))
    if filters.min_seconds is not None:
        name, least = str(NamedFilter.of(filters, "too-fast")), filters.min_seconds
        mask = partial(faster_than_mask, least)
        yield Rule(name, faster_than(least), mask, known("active_seconds"))
    if filters.straight_run is not None:
        name, run = str(NamedFilter.of(filters, "straight-lining")), filters.straight_run
        yield Rule(name, in_a_run_of(run), partial(in_a_run_of_mask, run))


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
        if filters.straight_run is not None and KIND_OF_RELEASE[kind].is_live:
            what = f"straight-lining is not defined for answers of kind {kind}"
            raise UnreadableInput(OPTION, what, "leave it out")
        self.needs_runs = filters.straight_run is not None
        self.counts = [Count(rule) for rule in rules(kind, filters)]
        self.n_assigned = 0

    def add_earlier(self, steps: Sequence[Mapping[str, Any]]) -> None:
        """Count what rules dropped before the study was imported, by the steps of that funnel."""
        known = {count.rule.name: count for count in self.counts}
        new = [step["rule"] for step in steps if step["rule"] not in known]
        known |= {name: Count(Rule(name, nothing, nobody_mask, never)) for name in new}
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
