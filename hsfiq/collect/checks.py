"""Attention checks: storing attempts at sums, and results derived from the answers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Subquery, func, select
from sqlalchemy.orm import Session, aliased

from hsfiq.collect.leases import extend_lease
from hsfiq.collect.participants import require_active
from hsfiq.collect.steps import steps_of
from hsfiq.db.tables import Check, CheckAnswer, Form, Participant, Response, Study
from hsfiq.errors import Forbidden, Refused
from hsfiq.text import is_storable_text

MIRRORED = {0: 0, 1: 2, 2: 1}
"""What a preference becomes when the sides are swapped."""


def answer_check(
    session: Session, participant: Participant, check_id: int, given: str, *, now: datetime
) -> bool:
    """Store an attempt at the participant's current check; return whether it is right.

    Raises `Forbidden`, `NotOpen` or `Refused` if it is not accepted.
    """
    current = steps_of(session, participant).current
    if current is None or current.check_id != check_id:
        raise Forbidden("you cannot answer this check now")
    require_active(participant)
    if not is_storable_text(given):
        raise Refused("the answer has characters that cannot be stored")
    extend_lease(participant, now)
    check = session.get_one(Check, check_id)
    passed = given.strip() == check.expected
    session.add(CheckAnswer(check_id=check_id, given=given[:40], passed=passed, answered_at=now))
    session.flush()
    return passed


@dataclass(frozen=True, slots=True)
class CheckResult:
    participant_id: int
    form_id: int
    kind: str
    passed: bool


def check_results(session: Session, study: Study) -> Iterator[CheckResult]:
    """The results of every attempt at a sum, and of every answered gold and repeated pair."""
    yield from sum_tries(session, study)
    yield from pair_checks(session, study)


def sum_tries(session: Session, study: Study) -> Iterator[CheckResult]:
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
    """Gold pairs (the planted winner must be preferred) and repeats (the same set as before)."""
    latest = latest_preferences()
    answer, original = aliased(latest), aliased(latest)
    rows = session.execute(
        select(
            Participant.id, Form.id, Check.kind, Check.expected, answer.c.preferred,
            original.c.preferred,
        )
        .join(Form, Check.form_id == Form.id)
        .join(answer, answer.c.question_id == Check.question_id)
        .outerjoin(original, original.c.question_id == Check.repeats_id)
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
