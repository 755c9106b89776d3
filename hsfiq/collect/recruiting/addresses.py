"""A limit on how many enrol from one address in an hour: a script cannot take all places.

The enrolments are counted in the database, in the transaction that enrols, because several
processes may serve one study and a restart must not lift the limit.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from math import ceil

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from hsfiq.db.change_tables import EnrolmentByAddress
from hsfiq.db.tables import Study
from hsfiq.errors import Refused
from hsfiq.study.config import config_of

PERIOD = timedelta(hours=1)


class TooManyEnrolments(Refused):
    """So many have enrolled from an address that the next one has to wait."""

    status = 429

    def __init__(self, study: Study, seconds: int) -> None:
        """`seconds` is how long to wait."""
        super().__init__(f"study {study.name}: too many enrolments from this address in an hour")
        self.study_id, self.seconds = study.id, seconds


def count_enrolment(session: Session, study: Study, client: str, now: datetime) -> None:
    """Count an enrolment in a locked study; `TooManyEnrolments` if that is more than allowed.

    `client` is a digest of the address. Simulated annotators all come from one, so that their
    study has no limit.
    """
    limit = config_of(study).recruitment.enrolments_per_address
    if limit == 0 or study.origin == "simulated":
        return
    forget_old(session, study, now)
    of_client = select(EnrolmentByAddress.enrolled_at).where(
        EnrolmentByAddress.study_id == study.id, EnrolmentByAddress.client == client
    )
    times = session.scalars(of_client.order_by(EnrolmentByAddress.enrolled_at)).all()
    if len(times) >= limit:
        free_again = times[-limit] + PERIOD
        raise TooManyEnrolments(study, max(1, ceil((free_again - now).total_seconds())))
    session.add(EnrolmentByAddress(study_id=study.id, client=client, enrolled_at=now))


def forget_old(session: Session, study: Study, now: datetime) -> None:
    """Delete what no longer counts, also times in the future, from before a clock was set back."""
    session.execute(
        delete(EnrolmentByAddress).where(
            EnrolmentByAddress.study_id == study.id,
            ~EnrolmentByAddress.enrolled_at.between(now - PERIOD, now + PERIOD),
        )
    )
