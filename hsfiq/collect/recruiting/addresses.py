"""A limit on how many enrol from one address in an hour: a script cannot take all places.

The enrolments are counted in the database, in the transaction that enrols, because several
processes may serve one study and a restart must not lift the limit. Nothing of them is kept longer
than the limit needs.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from math import ceil

from sqlalchemy import ColumnElement, delete, select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from hsfiq.db.engine import Database
from hsfiq.db.tables import EnrolmentByAddress, Study
from hsfiq.errors import Refused, Unavailable
from hsfiq.processes import repeated
from hsfiq.study.config import config_of

PERIOD = timedelta(hours=1)

FORGETTING_SECONDS = 5.0
"""The time after which a server looks again for enrolments that no longer count."""


class TooManyEnrolments(Refused):
    """So many have enrolled from an address that the next one has to wait."""

    status = 429

    def __init__(self, study: Study, seconds: int) -> None:
        """`seconds` is how long to wait."""
        super().__init__(f"study {study.name}: too many enrolments from this address in an hour")
        self.study_id, self.seconds = study.id, seconds


def counts_enrolments(study: Study) -> bool:
    """Whether the study limits how many enrol from one address.

    Simulated annotators all come from one, so that their study has no limit.
    """
    return config_of(study).recruitment.enrolments_per_address > 0 and study.origin != "simulated"


def count_enrolment(session: Session, study: Study, client: str, now: datetime) -> None:
    """Count an enrolment in a locked study; `TooManyEnrolments` if that is more than allowed.

    `client` is a digest of the address.
    """
    if not counts_enrolments(study):
        return
    limit = config_of(study).recruitment.enrolments_per_address
    of_client = select(EnrolmentByAddress.enrolled_at).where(
        EnrolmentByAddress.study_id == study.id,
        EnrolmentByAddress.client == client,
        still_counts(now),
    )
    times = session.scalars(of_client.order_by(EnrolmentByAddress.enrolled_at)).all()
    if len(times) >= limit:
        free_again = times[-limit] + PERIOD
        raise TooManyEnrolments(study, max(1, ceil((free_again - now).total_seconds())))
    session.add(EnrolmentByAddress(study_id=study.id, client=client, enrolled_at=now))


def still_counts(now: datetime) -> ColumnElement[bool]:
    """Times in the future, from before a clock was set back, count no longer either."""
    return EnrolmentByAddress.enrolled_at.between(now - PERIOD, now + PERIOD)


def forget_old_enrolments(database: Database) -> None:
    """Delete the enrolments that no longer count; if the database cannot do it, leave them."""
    outdated = ~still_counts(datetime.now(UTC))
    # A user who may only read the database cannot delete; the server, or a later command, will.
    with suppress(SQLAlchemyError, Unavailable):
        with database.reading() as session:
            if session.scalar(select(EnrolmentByAddress.id).where(outdated).limit(1)) is None:
                return
        with database.writing() as session:
            session.execute(delete(EnrolmentByAddress).where(outdated))


def regular_forgetting(
    database: Database, seconds: float = FORGETTING_SECONDS
) -> AbstractContextManager[None]:
    """Within the block, delete the enrolments that no longer count soon after their hour."""
    return repeated(partial(forget_old_enrolments, database), seconds, "old enrolments")
