"""The rule that pauses or excludes a participant who fails more checks than the study allows."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy.orm import Session

from hsfiq.collect.checks import question_checks
from hsfiq.collect.outcomes.status_changes import changes_of, record
from hsfiq.db.rows import AnyParticipant
from hsfiq.db.tables import Participant
from hsfiq.study.config import config_of

STATUS_AFTER = {"pause": "paused", "exclude": "excluded"}


def apply_check_rule(session: Session, participant: AnyParticipant, now: datetime) -> None:
    """Apply the rule to a locked participant, in the transaction of an answer.

    It acts when more checks are failed than the limit, and more than when it acted before: a
    participant whom the owner has resumed goes on until the next failed check.
    """
    config = config_of(participant.study)
    status = STATUS_AFTER.get(config.checks.on_failure)
    if status is None or participant.status != "active":
        return
    checks = question_checks(session, participant.study, Participant.id == participant.id)
    failed = sum(not check.passed for check in checks)
    limit = config.recruitment.max_failed_checks
    known = [change.rule["failed"] for change in changes_of(session, participant) if change.rule]
    if failed > max([limit, *known]):
        rule = {"on_failure": config.checks.on_failure, "limit": limit, "failed": failed}
        record(session, participant, status, now, rule=rule)
