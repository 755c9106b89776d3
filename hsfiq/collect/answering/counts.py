"""How many questions participants have answered, kept in their rows.

A study may have millions of answers, so its progress is the sum of these counts. An answer locks
and writes its participant's row anyhow: counting it takes no further statement, and nobody else
waits.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any

from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from hsfiq.answer_rules import are_painted
from hsfiq.collect.checks import is_latest
from hsfiq.collect.leases import IS_CHECK
from hsfiq.db.rows import ANSWER_COUNTS, AnyParticipant
from hsfiq.db.tables import Form, Participant, Question, Response, Study


def count_answer(
    participant: AnyParticipant, before: Response | None, stored: Mapping[str, Any]
) -> None:
    """Count the columns of a new revision instead of the revision `before` it."""
    if before is not None:
        add(participant, count_of(before.skipped, before.images), -1)
        participant.n_revisions -= before.revision
    add(participant, count_of(stored["skipped"], stored["images"]), 1)
    participant.n_revisions += stored["revision"]


def add(participant: AnyParticipant, name: str, number: int) -> None:
    setattr(participant, name, getattr(participant, name) + number)


def count_of(skipped: str | None, letters: str | None) -> str:
    """The count that an answer belongs to; `letters` are the states of its images."""
    if skipped is not None:
        return "n_skipped"
    names = {True: "n_painted", False: "n_not_painted", None: "n_painting_unknown"}
    return names[are_painted(letters)]


def count_stored_answers(session: Session, study: Study) -> None:
    """Count the answers of a study that were stored all at once, such as those of an import."""
    groups = session.execute(
        select(
            Form.participant_id,
            Response.skipped,
            Response.images,
            func.count(),
            func.sum(Response.revision),
        )
        .join(Question, Question.form_id == Form.id)
        .join(Response, Response.question_id == Question.id)
        .where(Form.study_id == study.id, is_latest(Response), ~IS_CHECK)
        .group_by(Form.participant_id, Response.skipped, Response.images)
    )
    counts: dict[int | None, Counter[str]] = defaultdict(Counter)
    for participant, skipped, letters, number, revisions in groups:
        counts[participant].update({count_of(skipped, letters): number, "n_revisions": revisions})
    names = (*ANSWER_COUNTS, "n_revisions")
    rows = [{"id": key, **{name: own[name] for name in names}} for key, own in counts.items()]
    if rows:
        session.execute(update(Participant), rows)
