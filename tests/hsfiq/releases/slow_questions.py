"""A study's questions as rows, one at a time: slow and obvious twins of `question_columns`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import compress, groupby
from operator import itemgetter
from typing import Any
from zlib import crc32

from sqlalchemy import select
from sqlalchemy.orm import Session

from hsfiq.answer_rules import ImageStates
from hsfiq.collect.participants import latest_changes, rule_text
from hsfiq.db.tables import Question, Response, Study
from hsfiq.ids import question_id
from hsfiq.kinds.rows import (
    FormName,
    QueryRow,
    QuestionRow,
    Questions,
    RetrievedSetRow,
    Run,
    set_rows,
)
from hsfiq.releases.questions import (
    FormRow,
    read_checks,
    read_failed_checks,
    read_pairs,
    read_repeated,
    shown_sets,
    time_spent,
)
from hsfiq.releases.searches import SearchReader


def runs_of(answers: Iterable[tuple[int, int]]) -> list[Run]:
    """The runs of places with their revisions, which come in the order of the places.

    >>> runs_of([(0, 1), (1, 1), (2, 3), (7, 1)])
    [[0, 1, 1], [2, 2, 3], [7, 7, 1]]
    """
    runs: list[Run] = []
    for place, revision in answers:
        if runs and runs[-1][1] == place - 1 and runs[-1][2] == revision:
            runs[-1][1] = place
        else:
            runs.append([place, place, revision])
    return runs


class QuestionRows(list[QuestionRow], Questions):
    """Questions as rows."""

    def column(self, name: str) -> Any:
        return self.values(name)

    def values(self, name: str) -> list[Any]:
        return [getattr(question, name) for question in self]

    def queries(self) -> dict[int, QueryRow]:
        return {question.query.key: question.query for question in self}

    def participants(self) -> set[str]:
        return {question.participant_id for question in self}

    def having(self, name: str) -> QuestionRows:
        return QuestionRows(each for each in self if getattr(each, name) is not None)

    def knows(self, name: str) -> bool:
        return any(getattr(question, name) is not None for question in self)

    def filter(self, mask: Any) -> QuestionRows:
        return QuestionRows(compress(self, mask.to_pylist()))

    def with_runs(self, runs: Sequence[int | None]) -> QuestionRows:
        for question, run in zip(self, runs, strict=True):
            question.run = run
        return self

    def given(self) -> list[Any]:
        answers = (question.answer for question in self)
        return [
            None if answer is None else (question.participant_id, answer)
            for question, answer in zip(self, answers, strict=True)
        ]

    def revisions(self) -> Iterator[tuple[FormName, list[Run]]]:
        """The places of the questions, with the revisions of their answers, form by form."""
        names = ("participant_id", "form", "place", "revision")
        rows = zip(*(self.values(name) for name in names), strict=True)
        for form, answers in groupby(rows, key=itemgetter(0, 1)):
            yield form, runs_of((place, revision) for _, _, place, revision in answers)

    def scored_sets(self) -> Any:
        """The table `sets` of questions about pairs."""
        return [
            row
            for question in self
            for row in set_rows(question, score=[question.score_1, question.score_2])
        ]


LIVE = ("search", "arena")


class RowReader:
    """Reads the questions of some forms through SQLAlchemy's objects."""

    def __init__(self, session: Session, study: Study) -> None:
        self.session = session
        self.pairs = read_pairs(session, study)
        self.checks = read_checks(session, study)
        self.failed_checks = read_failed_checks(session, study)
        self.repeated = read_repeated(session, study)
        self.searches = SearchReader(session, study) if study.kind in LIVE else None
        self.changes = latest_changes(session, study)

    def read(self, forms: Sequence[FormRow]) -> QuestionRows:
        """The questions of forms, all forms of each of their participants."""
        searches = self.searches.read(forms) if self.searches else {}
        names: dict[int, str] = {}
        questions = QuestionRows()
        for form in forms:
            asked = select(Question).where(Question.form_id == form.key).order_by(Question.place)
            for question in self.session.scalars(asked):
                row = self.question(form, question, names)
                row.search = searches.get(question.id)
                names[question.id] = row.question_id
                questions.append(row)
        return questions

    def question(self, form: FormRow, question: Question, names: dict[int, str]) -> QuestionRow:
        """A question with its last revision; `names` are the ids of those asked before."""
        given = select(Response).where(Response.question_id == question.id)
        responses = list(self.session.scalars(given.order_by(Response.revision)))
        answer = responses[-1] if responses else Response()
        pair, order = self.pairs[question.pair_id], question.set_order
        if order is None:
            orders = [question.order_1, question.order_2]
        else:
            orders = question.image_orders or [None] * len(order)
        change = self.changes.get(form.participant_key)
        seconds = [each.active_seconds for each in responses]
        return QuestionRow(
            question_id=question_id(form.participant_id, form.form, question.place),
            participant_id=form.participant_id,
            form=form.form,
            category=form.category,
            place=question.place,
            pair_id=pair.pair_id,
            swapped=question.swapped,
            query=pair.query,
            text=pair.query.text if question.text is None else question.text,
            sets=shown_sets(pair, swapped=question.swapped, set_order=order),
            orders=tuple(orders),
            participant_status=form.participant_status,
            reassigned=question.reassigned,
            check=self.checks.get(question.id),
            repeats=names.get(self.repeated.get(question.id, 0)),
            failed_checks=self.failed_checks.get(form.key),
            revision=answer.revision or 0,
            active_seconds=time_spent(seconds) if len(seconds) > 1 else answer.active_seconds,
            images=None if answer.images is None else ImageStates.from_letters(answer.images),
            excluded_by_rule=None if change is None else rule_text(change),
            **{name: getattr(answer, name) for name in OF_ANSWERS},
        )


OF_ANSWERS = (
    "score_1", "score_2", "preferred", "confirmed", "judgement", "extra", "irrelevant", "reason",
    "skipped", "served_at", "first_interaction_at", "submitted_at", "text_version", "language",
)  # fmt: skip


def bare_question(
    participant: str, place: int, triplet: str = "t", suffix: str = "", **answer: Any
) -> QuestionRow:
    """A question of which nothing but these is known, and its answer if one is given."""
    key = crc32(f"{triplet}{suffix}".encode())
    query = QueryRow(
        key, triplet + suffix, triplet, "small", "", None, "r", "t", "is red", "is red", []
    )
    retrieved = RetrievedSetRow(None, [])
    return QuestionRow(
        question_id=f"{participant}.form.{place}", participant_id=participant, form="form",
        category="", place=place, pair_id=f"{query.query_id}/0", swapped=False, query=query,
        text="is red", sets=(retrieved, retrieved), orders=(None, None),
        participant_status="active", reassigned=False, check=None, failed_checks=None, images=None,
        **dict.fromkeys(OF_ANSWERS) | {"irrelevant": False, "revision": int(bool(answer))} | answer,
        active_seconds=None,
    )  # fmt: skip
