"""Which answers a release has, gathered while it is written."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter

from hsfiq.collect.exports.runs import Run, runs_of
from hsfiq.releases.filtering.sieve import Exclusion
from hsfiq.releases.reading.questions import QuestionRows, Questions

FormName = tuple[str, str]
"""The pseudonym of a participant, and the name of one of their forms."""


@dataclass(slots=True)
class FormAnswers:
    """The answers of a form that are in a release, and those that its rules dropped."""

    kept: list[Run] = field(default_factory=list)
    dropped: list[Run] = field(default_factory=list)


class AnswersByForm:
    """The answers in a release by form; about 0.5 KB for each form, however many answers it has.

    A form whose only answers are to attention checks has no runs.
    """

    def __init__(self) -> None:
        self.forms: dict[FormName, FormAnswers] = defaultdict(FormAnswers)

    def add(self, kept: Questions, excluded: Sequence[Exclusion]) -> None:
        """Add the questions of whole participants."""
        for form, answers in by_form(kept):
            self.forms[form].kept = runs_of(answers)
        answered = QuestionRows(each.question for each in excluded if each.question.revision)
        for form, _ in by_form(answered):
            self.forms.setdefault(form, FormAnswers())  # perhaps all of its answers are to checks
        judged = QuestionRows(each for each in answered if each.check is None)
        for form, answers in by_form(judged):
            self.forms[form].dropped = runs_of(answers)


def by_form(questions: Questions) -> Iterator[tuple[FormName, Iterator[tuple[int, int]]]]:
    """The places of the questions, with the revisions of their answers, form by form."""
    names = ("participant_id", "form", "place", "revision")
    rows = zip(*(questions.values(name) for name in names), strict=True)
    for form, answers in groupby(rows, key=itemgetter(0, 1)):
        yield form, ((place, revision) for _, _, place, revision in answers)
