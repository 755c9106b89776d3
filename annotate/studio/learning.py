"""Jobs as pages show them, the releases on this server, and scorers that learn from them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from hsfiq.annotate.owner.study_pages import number_in, study_of
from hsfiq.annotate.studio.shell import Act, Desk, Said
from hsfiq.collect.review import hides_results
from hsfiq.db.engine import Database
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
from hsfiq.kinds import KINDS, release_kinds_of
from hsfiq.releases.export import versions_in
from hsfiq.releases.folder import read_manifest
from hsfiq.releases.reports import REPORT
from hsfiq.study.config import config_of

# Jobs as pages show them.

RELEASE, PUSH, SCORE, TRAIN = "release", "push", "score", "train"
"""Kinds of jobs, besides `REPORT`."""

SHOWN_FOR, NEWS = timedelta(days=2), timedelta(minutes=5)
MOST_LOG = 6_000


@dataclass(frozen=True, slots=True)
class JobView:
    """A job; `result` is what its commands said last, or the headline of the report they made."""

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
        """Whether it has not ended well, or only a short time ago."""
        ended = self.job.ended_at
        return self.job.state != "done" or ended is None or datetime.now(UTC) - ended < NEWS


def jobs_view(
    session: Session, desk: Desk, study_id: int | None = None, kinds: Sequence[str] = ()
) -> Sequence[JobView]:
    """The jobs that wait or run, and those that ended lately; of a study, or of all."""
    since = datetime.now(UTC) - SHOWN_FOR
    return [
        view_of(session, desk, job)
        for job in jobs_of(session, study_id=study_id)
        if (not kinds or job.kind in kinds) and (job.ended_at is None or job.ended_at > since)
    ]


def view_of(session: Session, desk: Desk, job: Job) -> JobView:
    """A job; what it found of systems is left out while results by system are hidden."""
    folder = job_folder(desk.database, job.id)
    study = None if job.study_id is None else session.get(Study, job.study_id)
    is_shown, is_done = study is None or not hides_results(session, study), job.state == "done"
    first = first_words(folder / REPORT) if is_shown and is_done else None
    result = job.result or "" if is_shown or not is_done else ""
    if is_done and job.kind == RELEASE:
        result = desk.t("It is made, and every file is as listed.")
    here = f"{uploads_home(desk.database).resolve()}/"  # is of no use to readers of pages
    return JobView(
        job,
        progress_of(folder) if job.state == "running" else Progress(),
        headline(first) if first else result.replace(here, ""),
        log_of(folder, MOST_LOG).replace(here, "") if is_shown else "",
        first is not None,
    )


def first_words(report: Path) -> Mapping[str, Any] | None:
    """What a report says first; None if it is not there."""
    try:
        found = json.loads((report / "first.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def headline(first: Mapping[str, Any]) -> str:
    answer = first["answer"]
    return "".join(answer["heading"]) if answer else str(first["title"])


# What pages do with jobs.


def stop(desk: Desk) -> Said:
    with desk.database.writing() as session:
        require_own(session, desk)
        ask_to_stop(session, desk.number("job"))
    return Said(desk.t("It stops."), undo={"act": "try_again", "job": desk.number("job")})


def again(desk: Desk) -> None:
    with desk.database.writing() as session:
        require_own(session, desk)
        try_again(session, desk.number("job"))


def require_own(session: Session, desk: Desk) -> None:
    """Only owners stop and repeat what others have started."""
    job = session.get(Job, desk.number("job"))
    if job is None or (job.created_by != desk.user.name and not desk.may("manage")):
        raise Refused("this job is somebody else's, or it is no longer there")


JOB_ACTS: Mapping[str, Act] = {"stop": stop, "try_again": again}

# The releases of a study on this server.


@dataclass(frozen=True, slots=True)
class ReleaseView:
    """A release in its folder; `checked_at` is when its files were last found to be as listed."""

    folder: Path
    manifest: Mapping[str, Any]
    checked_at: datetime | None

    @property
    def title(self) -> str:
        return f"{self.manifest['name']} {self.manifest['version']}"


def releases_home(database: Database, study: Study) -> Path:
    return uploads_home(database).resolve() / "releases" / study.name


def releases_of(session: Session, desk: Desk, study: Study) -> list[ReleaseView]:
    """Those with preferences first, the newest first."""
    home, checks = releases_home(desk.database, study), checked(session, study)
    names = [f"{study.name}-{kind}" for kind in release_kinds_of(study.kind)]
    folders = [home / f"{name}-{each}" for name in names for each in versions_in(home, name)]
    return [
        ReleaseView(folder, manifest, checks.get(str(folder)))
        for folder in reversed(folders)
        if (manifest := read_manifest(folder)) is not None
    ]


def checked(session: Session, study: Study) -> dict[str, datetime]:
    """When jobs have verified releases, by folder."""
    done = select(Job).where(Job.study_id == study.id, Job.state == "done").order_by(Job.id)
    return {
        command[2]: job.ended_at
        for job in session.scalars(done)
        for command in job.commands
        if command[:2] == ["release", "verify"] and job.ended_at is not None
    }


# Scoring a release with a checkpoint, and retraining on it.


def checkpoints(session: Session, desk: Desk) -> list[tuple[str, str]]:
    """The folders of checkpoints that earlier jobs have made, with what these jobs were about."""
    jobs = session.scalars(select(Job).where(Job.kind == TRAIN).order_by(Job.id.desc())).all()
    runs = [(job_folder(desk.database, job.id).resolve() / "run", job.about) for job in jobs]
    return [(str(run), about) for run, about in runs if (run / "best.json").is_file()]


def learning_view(
    session: Session, desk: Desk, study: Study, releases: Sequence[ReleaseView]
) -> dict[str, Any]:
    return {
        "learning_jobs": jobs_view(session, desk, study.id, (SCORE, TRAIN)),
        "checkpoints": checkpoints(session, desk),
        "scored": [each for each in releases if can_learn_from(study, each)],
    }


def can_learn_from(study: Study, release: ReleaseView) -> bool:
    """Whether it has people's preferences; of pairs, the release of scores has none."""
    kind = KINDS[study.kind]
    return kind.has_preferences and release.manifest["kind"] == kind.releases[-1].name


Commands = Callable[[ReleaseView, str, Sequence[str]], list[list[str]]]
"""The commands of a job, for a release, a checkpoint and the options that name the images."""


def score(desk: Desk) -> Said:
    """Score a release, and compare the scores with people."""

    def commands(release: ReleaseView, checkpoint: str, images: Sequence[str]) -> list[list[str]]:
        folder = str(release.folder)
        return [
            scoring(folder, checkpoint, "scorer", images),
            ["analyze", folder, "--metric", "scorer", *WITH_REPORT],
        ]

    about = "Does this scorer agree with people? {release}"
    return learn(desk, SCORE, about, commands)


def train(desk: Desk) -> Said:
    """Train a checkpoint further on a release, and compare it with before on what it held out."""

    def commands(release: ReleaseView, checkpoint: str, images: Sequence[str]) -> list[list[str]]:
        if "split" not in release.manifest:
            raise Refused("this release holds nothing out", remedy="make one that does")
        folder, run = str(release.folder), f"{FOLDER}/run"
        trained = ["train", "preference", "--release", folder, "--checkpoint", checkpoint]
        metrics = ["--metric", "before", "--metric", "retrained", "--part", "test"]
        return [
            [*trained, "--out", run, *images],
            scoring(folder, run, "retrained", images),
            scoring(folder, checkpoint, "before", images),
            ["analyze", folder, *metrics, *WITH_REPORT],
        ]

    return learn(desk, TRAIN, "Train further and compare: {release}", commands)


WITH_REPORT = ("--report", f"{FOLDER}/{REPORT}", "--force")


def scoring(release: str, checkpoint: str, name: str, images: Sequence[str]) -> list[str]:
    return ["score", release, "--checkpoint", checkpoint, "--name", name, *images, "--force"]


def learn(desk: Desk, kind: str, about: str, commands: Commands) -> Said:
    with desk.database.writing() as session:
        study = study_of(session, number_in(desk.place["study_id"]))
        wanted = desk.text("release")
        found = [each for each in releases_of(session, desk, study) if each.folder.name == wanted]
        if not found or not can_learn_from(study, found[0]):
            raise Refused("there is no such release")
        checkpoint = chosen_checkpoint(desk)
        root = session.scalar(
            select(Dataset.image_root).where(Dataset.name == config_of(study).queries.dataset)
        )
        images = ["--images", root] if root and "://" not in root else []
        line = desk.t(about, release=found[0].title)
        add_job(
            session,
            desk.actor,
            kind,
            line,
            commands(found[0], checkpoint, images),
            study_id=study.id,
        )
    return Said(desk.t("It begins as soon as no other job runs."))


def chosen_checkpoint(desk: Desk) -> str:
    """The folder that was entered, or else the one that was chosen."""
    path = Path(desk.text("folder").strip() or desk.text("checkpoint"))
    if not path.is_absolute() or not (path / "best.json").is_file():
        raise Refused("no checkpoint is in this folder", remedy="name a folder of hsfiq train")
    return str(path)


LEARNING_ACTS: Mapping[str, Act] = {
    "learn": lambda desk: train(desk) if desk.text("further") else score(desk)
}
