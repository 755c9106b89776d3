"""How participants did in the checks: derived from their answers, never stored."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sqlalchemy import Subquery, func, select
from sqlalchemy.orm import Session, aliased

from hsfiq.db.tables import Check, CheckAnswer, Form, Participant, Response, Study

MIRRORED = {0: 0, 1: 2, 2: 1}
"""What a preference becomes when the sides are swapped."""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One check that has been answered: a wrong try at a sum, or a gold or repeated pair."""

    participant_id: int
    form_id: int
    kind: str
    passed: bool


def check_results(session: Session, study: Study) -> Iterator[CheckResult]:
    """Every try at a sum, and every gold and repeated pair that has its answers."""
    yield from sum_tries(session, study)
    yield from pair_checks(session, study)


def sum_tries(session: Session, study: Study) -> Iterator[CheckResult]:
    """The tries at sums, right and wrong."""
    rows = session.execute(
        select(Participant.id, Form.id, CheckAnswer.passed)
        .join(Check, CheckAnswer.check_id == Check.id)
        .join(Form, Check.form_id == Form.id)
        .join(Participant, Form.participant_id == Participant.id)
        .where(Form.study_id == study.id)
        .order_by(CheckAnswer.id)
    )
    for participant_id, form_id, passed in rows:
        yield CheckResult(participant_id, form_id, "arithmetic", passed)


def pair_checks(session: Session, study: Study) -> Iterator[CheckResult]:
    """Gold pairs (was the planted winner preferred?) and repeated ones (the same set again?)."""
    latest = latest_preferences()
    here, there = aliased(latest), aliased(latest)
    rows = session.execute(
        select(
            Participant.id, Form.id, Check.kind, Check.expected, here.c.preferred,
            there.c.preferred,
        )
        .join(Form, Check.form_id == Form.id)
        .join(here, here.c.question_id == Check.question_id)
        .outerjoin(there, there.c.question_id == Check.repeats_id)
        .join(Participant, Form.participant_id == Participant.id)
        .where(Form.study_id == study.id)
        .order_by(Check.id)
    )  # fmt: skip
    for participant_id, form_id, kind, expected, preferred, first in rows:
        if kind == "gold":
            yield CheckResult(participant_id, form_id, kind, str(preferred) == expected)
        elif first is not None:
            yield CheckResult(participant_id, form_id, kind, preferred == MIRRORED[first])


def latest_preferences() -> Subquery:
    """The preference that counts of every question with scores."""
    revision = (
        select(Response.question_id, func.max(Response.revision).label("revision"))
        .group_by(Response.question_id)
        .subquery()
    )
    return (
        select(Response.question_id, Response.preferred)
        .join(
            revision,
            (Response.question_id == revision.c.question_id)
            & (Response.revision == revision.c.revision),
        )
        .where(Response.preferred.is_not(None))
        .subquery()
    )
