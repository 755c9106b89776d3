"""The results of a study's jobs: releases, and reports with links to reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from hsfiq.actors import Action, Actor
from hsfiq.audit import record
from hsfiq.collect.review import hides_results
from hsfiq.db.engine import Database, added
from hsfiq.db.studio_tables import Job, SharedReport
from hsfiq.db.tables import Study
from hsfiq.db.types import digest_of, token_from
from hsfiq.errors import Refused
from hsfiq.jobs import uploads_home
from hsfiq.kinds import release_kinds_of
from hsfiq.releases.export import versions_in
from hsfiq.releases.folder import read_manifest, read_table

REPORT = "report"
"""The kind of the jobs that make reports, and the folder of the report in that of the job."""


def newest_report(session: Session, study_id: int) -> Job | None:
    done = Job.study_id == study_id, Job.kind == REPORT, Job.state == "done"
    return session.scalar(select(Job).where(*done).order_by(Job.ended_at.desc()).limit(1))


def forget_old_reports(session: Session, study_id: int) -> None:
    """Forget the jobs of reports, except the newest one and jobs with a shared link."""
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


def share_report(session: Session, actor: Actor, study: Study, key: str = "") -> SharedReport:
    """A new link to the newest report of a study; the `token` is available only in this result.

    The same random key gives the same link. `Refused` if there is no report, or if its systems must
    not be compared yet.
    """
    job = newest_report(session, study.id)
    if job is None:
        raise Refused(f"study {study.name} has no report yet", remedy="create one first")
    require_shown(session, study)
    now, token = datetime.now(UTC), token_from(key)
    if token and (known := link_with(session, token)):
        known.token = token
        return known
    values = {"study_id": study.id, "job_id": job.id, "shared_by": actor.name, "shared_at": now}
    shared = SharedReport(token=token, **values)
    added(session, shared)
    record(session, actor, Action.REPORT_SHARE, study=study.name, about=f"link {shared.id}")
    return shared


def require_shown(session: Session, study: Study) -> None:
    if hides_results(session, study):
        raise Refused("results by system are hidden while people answer", remedy="show them first")


def revoke_report(session: Session, actor: Actor, study: Study, number: int) -> None:
    """Revoke a link to a report permanently."""
    shared = session.get(SharedReport, number, with_for_update=True)
    if shared is None or shared.study_id != study.id:
        raise Refused(f"study {study.name} has no such link")
    if shared.revoked_at is not None:
        raise Refused(f"link {number} is already revoked")
    shared.revoked_at = datetime.now(UTC)
    record(session, actor, Action.REPORT_REVOKE, study=study.name, about=f"link {number}")


def links_to_reports(session: Session, study_id: int) -> Sequence[SharedReport]:
    """The newest first."""
    links = select(SharedReport).where(SharedReport.study_id == study_id)
    return session.scalars(links.order_by(SharedReport.id.desc())).all()


def report_of_link(session: Session, token: str) -> Job | None:
    """The job whose report a link shows; None if the link is unknown or revoked."""
    shared = link_with(session, token)
    return None if shared is None else session.get(Job, shared.job_id)


def link_with(session: Session, token: str) -> SharedReport | None:
    valid = SharedReport.token_hash == digest_of(token), SharedReport.revoked_at.is_(None)
    return session.scalar(select(SharedReport).where(*valid))


# The pairs of sets about which people agree most, and least.

MOST_EXAMPLES = 3


def agreement_in(release: Path) -> dict[str, list[dict[str, Any]]]:
    """Pairs judged by several participants, each with one question and the votes by system.

    Pairs with the largest lead come first in `most`, pairs with the smallest lead in `least`.
    """
    columns = ("question_id", "pair_id", "preferred", "system_1", "system_2")
    rows = read_table(release / "preferences.parquet", columns)
    winners = pc.choose(pc.cast(rows["preferred"], "int64"), "", rows["system_1"], rows["system_2"])
    votes = pa.table([rows["pair_id"], winners, rows["question_id"]], ["pair", "winner", "name"])
    groups = votes.group_by(["pair", "winner"]).aggregate([("name", "count"), ("name", "min")])
    pairs: dict[str, dict[str, Any]] = {}
    for row in groups.sort_by([("pair", "ascending"), ("winner", "ascending")]).to_pylist():
        pair = pairs.setdefault(row["pair"], {"question": row["name_min"], "n": 0, "votes": {}})
        pair["n"] += row["name_count"]
        pair["votes"] |= {row["winner"]: row["name_count"]} if row["winner"] else {}
    for pair in pairs.values():
        pair["lead"] = 2 * max(pair["votes"].values(), default=0) - sum(pair["votes"].values())
    judged = [pair for pair in pairs.values() if pair["n"] > 1]
    most = sorted(judged, key=lambda pair: -pair["lead"])[:MOST_EXAMPLES]
    others = [pair for pair in judged if pair not in most]
    least = sorted(others, key=lambda pair: (pair["lead"] / pair["n"], -pair["n"]))
    return {"most": most, "least": least[:MOST_EXAMPLES]}


# Releases in the folder of uploads.


@dataclass(frozen=True, slots=True)
class MadeRelease:
    """A release in its folder; `checked_at` is the time of its last successful verification."""

    folder: Path
    manifest: Mapping[str, Any]
    checked_at: datetime | None

    @property
    def title(self) -> str:
        stated, name = (self.manifest.get("publication") or {}).get("name"), self.manifest["name"]
        return f"{f'{stated} ({name})' if stated else name} {self.manifest['version']}"


def releases_home(database: Database, study: Study) -> Path:
    return uploads_home(database).resolve() / "releases" / study.name


def releases_made(session: Session, database: Database, study: Study) -> list[MadeRelease]:
    """Releases with preferences first, the newest first."""
    home, checks = releases_home(database, study), checked(session, study)
    names = [f"{study.name}-{kind}" for kind in release_kinds_of(study.kind)]
    folders = [home / f"{name}-{each}" for name in names for each in versions_in(home, name)]
    return [
        MadeRelease(folder, manifest, checks.get(str(folder)))
        for folder in reversed(folders)
        if (manifest := read_manifest(folder)) is not None
    ]


def release_made(session: Session, database: Database, study: Study, folder: str) -> MadeRelease:
    """The release in the folder of this name; `Refused` while results are hidden, too."""
    require_shown(session, study)
    for release in releases_made(session, database, study):
        if release.folder.name == folder:
            return release
    raise Refused("the release does not exist")


def checked(session: Session, study: Study) -> dict[str, datetime]:
    """When jobs have verified releases, by folder."""
    done = select(Job).where(Job.study_id == study.id, Job.state == "done").order_by(Job.id)
    return {
        command[2]: job.ended_at
        for job in session.scalars(done)
        for command in job.commands
        if command[:2] == ["release", "verify"] and job.ended_at is not None
    }
