"""Which answers a release has, gathered while it is written."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from typing import cast

import pyarrow as pa
import pyarrow.compute as pc

from hsfiq.collect.history import Run, runs_of
from hsfiq.releases.filtering.sieve import Exclusion
from hsfiq.releases.reading.pair_questions import PairQuestions
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
        for form, runs in column_runs(kept) if isinstance(kept, PairQuestions) else row_runs(kept):
            self.forms[form].kept = runs
        answered = QuestionRows(each.question for each in excluded if each.question.revision)
        for form, _ in row_runs(answered):
            self.forms.setdefault(form, FormAnswers())  # perhaps all of its answers are to checks
        judged = QuestionRows(each for each in answered if each.check is None)
        for form, runs in row_runs(judged):
            self.forms[form].dropped = runs


def row_runs(questions: Questions) -> Iterator[tuple[FormName, list[Run]]]:
    """The places of the questions, with the revisions of their answers, form by form."""
    names = ("participant_id", "form", "place", "revision")
    rows = zip(*(questions.values(name) for name in names), strict=True)
    for form, answers in groupby(rows, key=itemgetter(0, 1)):
        yield form, runs_of((place, revision) for _, _, place, revision in answers)


def column_runs(questions: PairQuestions) -> Iterator[tuple[FormName, list[Run]]]:
    """The same by columns, with a step in Python for each run rather than for each question."""
    if not questions:
        return
    names = ("form_place", "place", "revision")
    forms, places, revisions = columns = [questions.data.column(name) for name in names]
    is_next = pc.equal(places[1:], pc.add(places[:-1], 1))
    for values in (forms, revisions):
        is_next = pc.and_(is_next, pc.equal(values[1:], values[:-1]))
    firsts = pc.indices_nonzero(pa.concat_arrays([pa.array([True]), pc.invert(is_next)]))
    lasts = pa.concat_arrays(
        [pc.subtract(firsts[1:], 1).cast(firsts.type), pa.array([len(questions) - 1], firsts.type)]
    )
    form, first, revision = (values.take(firsts).to_pylist() for values in columns)
    rows = zip(form, first, places.take(lasts).to_pylist(), revision, strict=True)
    for place, runs in groupby(rows, key=itemgetter(0)):
        of_form = questions.part.forms[place]
        yield (of_form.participant_id, of_form.form), [cast("Run", list(run[1:])) for run in runs]
