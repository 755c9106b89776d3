"""Jobs on pages, and jobs that score a release with a scorer and retrain the scorer."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from hsfiq.annotate.studio.shell import Act, Desk, Said
from hsfiq.collect.review import hides_results
from hsfiq.db.source_tables import Dataset
from hsfiq.db.studio_tables import Job
from hsfiq.db.tables import Study
from hsfiq.errors import Refused
from hsfiq.jobs import (
    FOLDER,
    Progress,
    add_job,
    ask_to_stop,
    job_folder,
    jobs_of,
    log_of,
    progress_of,
    try_again,
    uploads_home,
)
from hsfiq.kinds import KINDS
from hsfiq.releases.reports import REPORT, MadeRelease, release_made
from hsfiq.study.config import config_of

# Jobs as pages show them.

RELEASE, PUSH, SCORE, TRAIN = "release", "push", "score", "train"
"""Kinds of jobs, besides `REPORT`."""

SHOWN_FOR, NEWS = timedelta(days=2), timedelta(minutes=5)
MOST_LOG = 6_000


@dataclass(frozen=True, slots=True)
class JobView:
    """A job; `result` is the last output of its commands, or the headline of their report."""

    job: Job
    progress: Progress
    result: str
    log: str
    has_report: bool

    @property
    def is_active(self) -> bool:
        return self.job.state in ("waiting", "running")

    @property
    def is_news(self) -> bool:
        """Whether it has not succeeded, or ended only a short time ago."""
        ended = self.job.ended_at
        return self.job.state != "done" or ended is None or datetime.now(UTC) - ended < NEWS


def jobs_view(
    session: Session, desk: Desk, study_id: int | None = None, kinds: Sequence[str] = ()
) -> Sequence[JobView]:
    """The waiting, running and recently ended jobs; of a study, or of all."""
    since = datetime.now(UTC) - SHOWN_FOR
    return [
        view_of(session, desk, job)
        for job in jobs_of(session, study_id=study_id)
        if (not kinds or job.kind in kinds) and (job.ended_at is None or job.ended_at > since)
    ]


def view_of(session: Session, desk: Desk, job: Job) -> JobView:
    """A job, without its results by system while they are hidden."""
    folder = job_folder(desk.database, job.id)
    study = None if job.study_id is None else session.get(Study, job.study_id)
    is_shown, is_done = study is None or not hides_results(session, study), job.state == "done"
    first = first_words(folder / REPORT) if is_shown and is_done else None
    result = job.result or "" if is_shown or not is_done else ""
    if is_done and job.kind == RELEASE:
        result = desk.t("The release is complete, and every file matches its digest.")
    here = f"{uploads_home(desk.database).resolve()}/"  # is of no use to readers of pages
    return JobView(
        job,
        progress_of(folder) if job.state == "running" else Progress(),
        headline(first) if first else result.replace(here, ""),
        log_of(folder, MOST_LOG).replace(here, "") if is_shown else "",
        first is not None,
    )


def first_words(report: Path) -> Mapping[str, Any] | None:
    """The first words of a report; None if there is no report."""
    try:
        words = json.loads((report / "first.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return words if isinstance(words, dict) else None


def headline(first: Mapping[str, Any]) -> str:
    answer = first["answer"]
    return "".join(answer["heading"]) if answer else str(first["title"])


# What pages do with jobs.


def stop(desk: Desk) -> Said:
    with desk.database.writing() as session:
        require_own(session, desk)
        ask_to_stop(session, desk.number("job"))
    return Said(
        desk.t("The job is stopping."), undo={"act": "try_again", "job": desk.number("job")}
    )


def again(desk: Desk) -> None:
    with desk.database.writing() as session:
        require_own(session, desk)
        try_again(session, desk.number("job"))


def require_own(session: Session, desk: Desk) -> None:
    """Only owners stop and repeat other people's jobs."""
    job = session.get(Job, desk.number("job"))
    if job is None or (job.created_by != desk.user.name and not desk.may("manage")):
        raise Refused("this job belongs to another person or no longer exists")


JOB_ACTS: Mapping[str, Act] = {"stop": stop, "try_again": again}

# Scoring a release with a checkpoint, and retraining on it.


def checkpoints(session: Session, desk: Desk) -> list[tuple[str, str]]:
    """The folders of checkpoints made by earlier jobs, with the descriptions of these jobs."""
    jobs = session.scalars(select(Job).where(Job.kind == TRAIN).order_by(Job.id.desc())).all()
    runs = [(job_folder(desk.database, job.id).resolve() / "run", job.about) for job in jobs]
    return [(str(run), about) for run, about in runs if has_checkpoint(run)]


def has_checkpoint(folder: Path) -> bool:
    """Retraining keeps only the last checkpoint."""
    return any((folder / name).is_file() for name in ("best.json", "last.json"))


def can_learn_from(study: Study, release: MadeRelease) -> bool:
    """Whether it has people's preferences; for pairs, the release of scores has none."""
    kind = KINDS[study.kind]
    return kind.has_preferences and release.manifest["kind"] == kind.releases[-1].name


def learn(desk: Desk) -> Said:
    """Test whether a scorer agrees with a release, or retrain it on the release and compare."""
    is_retrained = bool(desk.text("further"))
    kind, about = (
        (TRAIN, "Train further and compare: {release}")
        if is_retrained
        else (SCORE, "Does this scorer agree with people? {release}")
    )
    with desk.writing() as (session, study):
        release = release_made(session, desk.database, study, desk.text("release"))
        if not can_learn_from(study, release):
            raise Refused("this release has no preferences")
        if is_retrained and "split" not in release.manifest:
            raise Refused("this release has no held-out part", remedy="make a release with one")
        checkpoint = chosen_checkpoint(desk)
        root = session.scalar(
            select(Dataset.image_root).where(Dataset.name == config_of(study).queries.dataset)
        )
        images = ["--images", root] if root and "://" not in root else []
        commands = [*commands_of(str(release.folder), checkpoint, images, is_retrained)]
        line = desk.t(about, release=release.title)
        add_job(session, desk.actor, kind, line, commands, study_id=study.id)
    return Said(desk.t("It starts as soon as no other job is running."))


def commands_of(
    release: str, checkpoint: str, images: Sequence[str], is_retrained: bool
) -> Iterator[list[str]]:
    """A retrained scorer is compared with the earlier one on the held-out part of the release."""
    run, scorers = f"{FOLDER}/run", {"scorer": checkpoint}
    if is_retrained:
        options = ["--release", release, "--checkpoint", checkpoint, "--out", run]
        yield ["train", "preference", *options, *images]
        scorers = {"retrained": run, "before": checkpoint}
    for name, scorer in scorers.items():
        yield ["score", release, "--checkpoint", scorer, "--name", name, *images, "--force"]
    metrics = [part for name in reversed(scorers) for part in ("--metric", name)]
    part = ["--part", "test"] if is_retrained else []
    yield ["analyze", release, *metrics, *part, "--report", f"{FOLDER}/{REPORT}", "--force"]


def chosen_checkpoint(desk: Desk) -> str:
    """The entered folder, or else the chosen one."""
    path = Path(desk.text("folder").strip() or desk.text("checkpoint"))
    if not path.is_absolute() or not has_checkpoint(path):
        raise Refused("this folder has no checkpoint", remedy="name a folder of hsfiq train")
    return str(path)


LEARNING_ACTS: Mapping[str, Act] = {"learn": learn}
