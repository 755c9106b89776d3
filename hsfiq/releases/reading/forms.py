"""A study's assigned forms, and which of them are read together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from sys import intern

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from hsfiq.db.tables import Form, Participant, Question, Study

QUESTIONS_AT_ONCE = 20_000
FORMS_AT_ONCE = 10_000
"""SQLite takes at most 32,766 values in a statement, PostgreSQL 65,535."""


@dataclass(frozen=True, slots=True)
class FormRow:
    """A participant's form; an imported one may have no questions. The keys are the database's."""

    key: int
    participant_key: int
    participant_id: str
    participant_status: str
    form: str
    category: str
    n_questions: int


def read_forms(session: Session, study: Study) -> list[FormRow]:
    """Read all assigned forms, by participant and position."""
    counts = (
        select(Question.form_id, func.count().label("n"))
        .join(Form, Question.form_id == Form.id)
        .where(Form.study_id == study.id)
        .group_by(Question.form_id)
        .subquery()
    )
    rows = session.execute(
        select(
            Form.id, Participant.id, Participant.name, Participant.status, Form.name,
            Form.category, func.coalesce(counts.c.n, 0),
        )
        .join(Participant, Form.participant_id == Participant.id)
        .outerjoin(counts, counts.c.form_id == Form.id)
        .where(Form.study_id == study.id)
        .order_by(Participant.id, Form.position)
    )  # fmt: skip
    return [
        # Equal texts are one object, which takes half the memory.
        FormRow(key, person, intern(name), intern(status), intern(str(form)), intern(category), n)
        for key, person, name, status, form, category, n in rows
    ]


def forms_together(forms: Sequence[FormRow]) -> Iterator[list[FormRow]]:
    """The forms in parts of about `QUESTIONS_AT_ONCE` questions; no participant is in two parts."""
    together: list[FormRow] = []
    n_questions = 0
    for form in forms:
        is_full = n_questions >= QUESTIONS_AT_ONCE or len(together) >= FORMS_AT_ONCE
        if is_full and form.participant_key != together[-1].participant_key:
            yield together
            together, n_questions = [], 0
        together.append(form)
        n_questions += form.n_questions
    if together:
        yield together
