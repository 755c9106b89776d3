"""Attention checks: storing attempts at sums, and results derived from the answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any

from sqlalchemy import ColumnElement, Select, select, true
from sqlalchemy.orm import Session, aliased

from hsfiq.collect.asked_questions import steps_of
from hsfiq.collect.leases import extend_lease
from hsfiq.collect.participant_row import ParticipantRow, StudyRow
from hsfiq.collect.participants import (
    Shown,
    among,
    changes_of,
    record_status_change,
    require_active,
)
from hsfiq.db.tables import Check, CheckAnswer, Form, Participant, Question, Response, Study
from hsfiq.errors import Forbidden, Refused, SetBack
from hsfiq.kinds import KINDS, Kind, ShownAnswer
from hsfiq.study.config import rules_of
from hsfiq.text import is_storable_text


def answer_check(
    session: Session, participant: ParticipantRow, check_id: int, given: str, *, now: datetime
) -> bool:
    """Store an attempt at the participant's current check; return whether it is correct.

    Raises `Forbidden`, `NotOpen` or `Refused` if it is not accepted.
    """
    own = steps_of(session, participant.id)
    if own.current is None or own.current.check_id != check_id:
        is_done = any(step.check_id == check_id and step.done for step in own.steps)
        raise (Forbidden if is_done else SetBack)("this check cannot be answered now")
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
    """`question_id` is the database key of the gold or repeated question; sums have none."""

    participant_id: int
    form_id: int
    kind: str
    passed: bool
    question_id: int | None = None


def check_results(
    session: Session, study: Study, shown: Shown | None = None
) -> Iterator[CheckResult]:
    """The results of every attempt at a sum, and of every answered gold or repeated question.

    For all participants, or for participants whose keys are `shown`.
    """
    yield from sum_tries(session, study, shown)
    yield from question_checks(session, StudyRow.of(study), among(Form.participant_id, shown))


SUM_TRIES = (
    select(Participant.id, Form.id, CheckAnswer.passed)
    .join(Check, CheckAnswer.check_id == Check.id)
    .join(Form, Check.form_id == Form.id)
    .join(Participant, Form.participant_id == Participant.id)
    .order_by(CheckAnswer.id)
)
"""Built once, since building takes longer than running it for a participant."""


def sum_tries(session: Session, study: Study, shown: Shown | None) -> Iterator[CheckResult]:
    chosen = SUM_TRIES.where(Form.study_id == study.id, among(Form.participant_id, shown))
    rows = session.execute(chosen)
    for participant_id, form_id, passed in rows:
        yield CheckResult(participant_id, form_id, "arithmetic", passed)


def is_latest(response: type[Response]) -> ColumnElement[bool]:
    """Whether no later revision of the answer exists."""
    later = aliased(Response)
    return (
        ~select(later.id)
        .where(later.question_id == response.question_id, later.revision > response.revision)
        .exists()
    )


def is_judgement(response: type[Response]) -> ColumnElement[bool]:
    """Whether a response is the latest one, and its question was not skipped."""
    return is_latest(response) & response.skipped.is_(None)


ASKED, FIRST = aliased(Question), aliased(Question)
ANSWER, ORIGINAL = aliased(Response), aliased(Response)
N_OF_ORDER = 3
"""The number of columns of `answered` that say in which order the question was shown."""


def answered(
    stored_in: Sequence[str], question: type[Question], answer: type[Response]
) -> tuple[Any, ...]:
    columns = (getattr(answer, name) for name in stored_in)
    return (*columns, question.swapped, question.set_order, question.order_1)


@cache  # making it takes longer than running it for a participant
def all_question_checks(stored_in: tuple[str, ...]) -> Select[Any]:
    return (
        select(
            Participant.id, Form.id, Check.kind, Check.expected, Check.question_id,
            *answered(stored_in, ASKED, ANSWER), *answered(stored_in, FIRST, ORIGINAL),
        )
        .join(Form, Check.form_id == Form.id)
        .join(ASKED, ASKED.id == Check.question_id)
        .join(ANSWER, (ANSWER.question_id == Check.question_id) & is_judgement(ANSWER))
        .outerjoin(FIRST, FIRST.id == Check.repeats_id)
        .outerjoin(ORIGINAL, (ORIGINAL.question_id == Check.repeats_id) & is_judgement(ORIGINAL))
        .join(Participant, Form.participant_id == Participant.id)
        .order_by(Check.id)
    )  # fmt: skip


def question_checks(
    session: Session, study: StudyRow, whose: ColumnElement[bool] | None = None
) -> Iterator[CheckResult]:
    """Gold questions and repeated ones; which answers pass is the question kind's rule.

    Those of all participants, or of those for whom the condition `whose` holds.
    """
    kind, rules = KINDS[study.kind], rules_of(study.config)
    checks = all_question_checks(kind.stored_in)
    chosen = checks.where(Form.study_id == study.id, true() if whose is None else whose)
    n_columns = len(kind.stored_in) + N_OF_ORDER
    for person, form, check, expected, question, *columns in session.execute(chosen).all():
        again = shown_answer(kind, columns[:n_columns])
        before = shown_answer(kind, columns[n_columns:])
        if again is None:
            continue
        if check == "gold" and kind.gold is not None and expected is not None:
            passed = kind.gold.passes(expected, again.values)
            yield CheckResult(person, form, check, passed, question)
        elif before is not None:
            passed = kind.repeats(before, again, rules)
            yield CheckResult(person, form, check, passed, question)


def shown_answer(kind: Kind, columns: Sequence[Any]) -> ShownAnswer | None:
    """An answer by the columns of `answered`; None for a question that was skipped or is open."""
    *stored, swapped, set_order, order_1 = columns
    values = kind.judgement_in(stored)
    if values is None:
        return None
    return ShownAnswer(values, set_order or ((1, 0) if swapped else (0, 1)), order_1)


# The rule that pauses or excludes a participant who fails more checks than the study allows.

STATUS_AFTER = {"pause": "paused", "exclude": "excluded"}


def apply_check_rule(session: Session, participant: ParticipantRow, now: datetime) -> None:
    """Apply the rule to a locked participant, in the transaction of an answer.

    The rule acts if the number of failed checks exceeds the limit and the number at its last
    action: a participant whom the owner has resumed continues until the next failed check.
    """
    config = participant.study.config
    status = STATUS_AFTER.get(config.checks.on_failure)
    if status is None or participant.status != "active":
        return
    checks = question_checks(session, participant.study, Participant.id == participant.id)
    failed = sum(not check.passed for check in checks)
    limit = config.recruitment.max_failed_checks
    changes = changes_of(session, participant.id)
    acted = [change.rule for change in changes if change.rule]
    known = [rule["failed"] for rule in acted if "failed" in rule]
    if failed > max([limit, *known]):
        rule = {"on_failure": config.checks.on_failure, "limit": limit, "failed": failed}
        change = participant.id, participant.status, status
        record_status_change(session, *change, now, rule=rule)
        participant.status = status
