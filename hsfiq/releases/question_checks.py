"""Which questions of a study are attention checks, and which checks were failed."""

from __future__ import annotations

from collections import defaultdict

from sqlalchemy import select
from sqlalchemy.orm import Session

from hsfiq.collect.checks import check_results
from hsfiq.db.tables import Check, Form, Study


def read_checks(session: Session, study: Study) -> dict[int, str]:
    """Read the kind of each question that is an attention check, by the question's database key."""
    rows = session.execute(
        select(Check.question_id, Check.kind)
        .join(Form, Check.form_id == Form.id)
        .where(Form.study_id == study.id, Check.question_id.is_not(None))
    )
    return {question: kind for question, kind in rows if question is not None}


def read_failed_checks(session: Session, study: Study) -> dict[int, int]:
    """Count the failed checks of each form, by the form's database key."""
    failed: dict[int, int] = defaultdict(int)
    for result in check_results(session, study):
        failed[result.form_id] += not result.passed
    return dict(failed)


def read_repeated(session: Session, study: Study) -> dict[int, int]:
    """Read which question each repeated one repeats, by the database keys of both."""
    rows = session.execute(
        select(Check.question_id, Check.repeats_id)
        .join(Form, Check.form_id == Form.id)
        .where(Form.study_id == study.id, Check.kind == "repeat")
    )
    return {again: first for again, first in rows if again is not None and first is not None}
