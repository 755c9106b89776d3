"""The reports that jobs have made of a study's answers, and links to them for all who have one."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from hsfiq.actors import Action, Actor
from hsfiq.audit import record
from hsfiq.collect.review import hides_results
from hsfiq.db.engine import added
from hsfiq.db.studio_tables import Job, SharedReport
from hsfiq.db.tables import Study
from hsfiq.db.types import digest_of
from hsfiq.errors import Refused

REPORT = "report"
"""The kind of the jobs that make reports, and the folder of the report in that of the job."""


def newest_report(session: Session, study_id: int) -> Job | None:
    done = Job.study_id == study_id, Job.kind == REPORT, Job.state == "done"
    return session.scalar(select(Job).where(*done).order_by(Job.ended_at.desc()).limit(1))


def forget_old_reports(session: Session, study_id: int) -> None:
    """Forget the jobs of reports but the newest one and those that somebody has a link to."""
    newest = newest_report(session, study_id)
    linked = select(SharedReport.job_id).where(SharedReport.study_id == study_id)
    session.execute(
        delete(Job).where(
            Job.study_id == study_id,
            Job.kind == REPORT,
            Job.state.in_(("done", "failed", "stopped")),
            Job.id != (newest.id if newest else 0),
            Job.id.not_in(linked),
        )
    )


def share_report(session: Session, actor: Actor, study: Study) -> SharedReport:
    """A new link to the newest report of a study; its `token` is known only now.

    `Refused` if there is no report, or if its systems may not be compared yet.
    """
    job = newest_report(session, study.id)
    if job is None:
        raise Refused(f"study {study.name} has no report yet", remedy="compute one first")
    if hides_results(session, study):
        raise Refused("results by system are hidden while people answer", remedy="show them first")
    now = datetime.now(UTC)
    shared = SharedReport(study_id=study.id, job_id=job.id, shared_by=actor.name, shared_at=now)
    added(session, shared)
    record(session, actor, Action.REPORT_SHARE, study=study.name, about=f"link {shared.id}")
    return shared


def revoke_report(session: Session, actor: Actor, study: Study, number: int) -> None:
    """Make a link to a report invalid for good."""
    shared = session.get(SharedReport, number, with_for_update=True)
    if shared is None or shared.study_id != study.id:
        raise Refused(f"study {study.name} has no such link")
    if shared.revoked_at is not None:
        raise Refused(f"link {number} has been revoked already")
    shared.revoked_at = datetime.now(UTC)
    record(session, actor, Action.REPORT_REVOKE, study=study.name, about=f"link {number}")


def links_to_reports(session: Session, study_id: int) -> Sequence[SharedReport]:
    """The newest first."""
    links = select(SharedReport).where(SharedReport.study_id == study_id)
    return session.scalars(links.order_by(SharedReport.id.desc())).all()


def report_of_link(session: Session, token: str) -> Job | None:
    """The job whose report a link shows; None if the link is unknown or revoked."""
    shared = session.scalar(
        select(SharedReport).where(
            SharedReport.token_hash == digest_of(token), SharedReport.revoked_at.is_(None)
        )
    )
    return None if shared is None else session.get(Job, shared.job_id)
