"""Jobs: commands of hsfiq that the server runs for owners, one at a time, in a process of its own.

A job's folder holds what its commands write, their output (`log.txt`) and how far they are
(`progress.json`). A job that the end of the server interrupted begins again with the command that
was running.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from logging import getLogger
from pathlib import Path
from shutil import rmtree
from threading import Event, Thread
from time import monotonic, time
from typing import TypeVar
from urllib.parse import quote

from sqlalchemy import URL, select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from hsfiq.actors import Actor
from hsfiq.db.engine import Database, added
from hsfiq.db.postgres import lock_table, time_of
from hsfiq.db.sqlite import file_of
from hsfiq.db.studio_tables import Job
from hsfiq.errors import HsfiqError, Refused, Unavailable
from hsfiq.text import without_controls

T = TypeVar("T")

logger = getLogger(__name__)

FOLDER = "{folder}"
"""The placeholder for the job's folder in its commands."""

VARIABLE, PARENT, ACTOR = "HSFIQ_JOB", "HSFIQ_JOB_PARENT", "HSFIQ_JOB_ACTOR"
"""Pass to a command its job's folder, the process it ends with, and the actor who started the
job."""

HOME_VARIABLE = "HSFIQ_UPLOADS"
JOBS = "jobs"
LOCAL_HOSTS = (None, "", "localhost", "127.0.0.1", "::1")


def uploads_home(database: Database) -> Path:
    """Where what owners upload is kept, and what jobs write: beside a SQLite file by default."""
    return home_of(database.engine.url)


def home_of(url: URL) -> Path:
    """Databases have different folders, because the numbers of their jobs are the same."""
    named = os.environ.get(HOME_VARIABLE)
    if named:
        return Path(named)
    file = file_of(url) if url.get_backend_name() == "sqlite" else None
    if file is not None:
        return file.with_name(f"{file.name}.uploads")
    home = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    host = "localhost" if url.host in LOCAL_HOSTS else url.host
    name = quote(f"{host}-{url.port or 5432}-{url.database}", safe="")
    return Path(home) / "hsfiq" / "uploads" / name


def job_folder(database: Database, job_id: int) -> Path:
    return uploads_home(database) / JOBS / str(job_id)


# The queue.


def add_job(
    session: Session,
    actor: Actor,
    kind: str,
    about: str,
    commands: Sequence[Sequence[str]],
    *,
    study_id: int | None = None,
    draft_id: int | None = None,
    delay: timedelta = timedelta(0),
) -> Job:
    """Queue commands; a job of this kind for the same study or draft that waits or runs stays."""
    lock_table(session, Job)
    same = select(Job).where(
        Job.kind == kind,
        Job.study_id.is_not_distinct_from(study_id),
        Job.draft_id.is_not_distinct_from(draft_id),
        Job.state.in_(("waiting", "running")),
        Job.stop_asked.is_(False),
    )
    if session.scalar(same.limit(1)) is not None:
        raise Refused(
            f"{about} is already waiting or running", remedy="wait, or stop the job first"
        )
    now = time_of(session)
    job = added(
        session,
        Job(
            kind=kind,
            about=about,
            study_id=study_id,
            draft_id=draft_id,
            commands=[list(command) for command in commands],
            state="waiting",
            created_by=actor.name,
            created_at=now,
            not_before=now + delay,
        ),
    )
    # SQLite gives the number of a deleted job to another one.
    rmtree(home_of(session.get_bind().engine.url) / JOBS / str(job.id), ignore_errors=True)
    return job


def ask_to_stop(session: Session, job_id: int) -> Job:
    """Stop a job that waits; a running one ends within about a second."""
    job = session.get(Job, job_id, with_for_update=True)
    if job is None or job.state not in ("waiting", "running"):
        raise Refused("this job has already ended")
    job.stop_asked = True
    if job.state == "waiting":
        job.state, job.ended_at = "stopped", time_of(session)
    session.flush()
    return job


def try_again(session: Session, job_id: int) -> Job:
    """Queue a job that failed or was stopped again, from the command that did not end."""
    job = session.get(Job, job_id, with_for_update=True)
    if job is None or job.state not in ("failed", "stopped"):
        raise Refused("this job is waiting, running or done")
    job.state, job.stop_asked, job.result, job.ended_at = "waiting", False, None, None
    job.not_before = time_of(session)
    session.flush()
    return job


def jobs_of(
    session: Session, *, study_id: int | None = None, draft_id: int | None = None
) -> Sequence[Job]:
    """The jobs of a study or a draft, or else of all; the newest first."""
    query = select(Job).order_by(Job.id.desc()).limit(100)
    if study_id is not None:
        query = query.where(Job.study_id == study_id)
    if draft_id is not None:
        query = query.where(Job.draft_id == draft_id)
    return session.scalars(query).all()


# How far a command is, for the page that shows its job.


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a command; `total` is 0 if unknown."""

    label: str = ""
    done: int = 0
    total: int = 0
    seconds: float = 0.0

    @property
    def share(self) -> float | None:
        return self.done / self.total if self.total else None

    @property
    def minutes_left(self) -> float | None:
        """None before enough is done to tell."""
        if not self.total or self.done < 3 or self.seconds < 2:
            return None
        return self.seconds / self.done * (self.total - self.done) / 60


PROGRESS_FILE, LOG_FILE = "progress.json", "log.txt"
PROGRESS_SECONDS = 0.5


class JobProgress:
    """Writes the progress of a command to the folder of its job, at most twice a second."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._total = -1
        self._begun = self._written = 0.0

    def tell(self, label: str, done: int, total: int) -> None:
        """`label` describes the current step; another total restarts the time estimate."""
        now = monotonic()
        if total != self._total:
            self._total, self._begun, self._written = total, now, -PROGRESS_SECONDS
        if done < total and now - self._written < PROGRESS_SECONDS:
            return
        values = label, done, total, now - self._begun
        draft = self._folder / f".{PROGRESS_FILE}"
        draft.write_text(json.dumps(dict(zip(Progress.__slots__, values, strict=True))), "utf-8")
        draft.replace(self._folder / PROGRESS_FILE)
        self._written = now

    def track(self, rows: Sequence[T], label: str) -> Iterator[T]:
        for done, row in enumerate(rows):
            self.tell(label, done, len(rows))
            yield row
        self.tell(label, len(rows), len(rows))


def progress_of(folder: Path) -> Progress:
    try:
        return Progress(**json.loads((folder / PROGRESS_FILE).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return Progress()


def log_of(folder: Path, longest: int = 20_000) -> str:
    """The end of what the commands have printed."""
    try:
        content = (folder / LOG_FILE).read_bytes()
    except OSError:
        return ""
    return without_controls(content[-longest:].decode("utf-8", "replace"))


# The worker.

LOST = timedelta(seconds=60)
"""A running job whose server has not been heard of for longer waits again."""

ALIVE_SECONDS = 10.0
WAIT_SECONDS = 0.5
END_SECONDS = 10.0


@contextmanager
def job_worker(database: Database) -> Iterator[None]:
    """Within the block, a thread runs the jobs of the database."""
    ended = Event()
    thread = Thread(target=Worker(database, ended).run, name="jobs")
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@dataclass(frozen=True, slots=True)
class Worker:
    database: Database
    ended: Event

    def run(self) -> None:
        is_tidy = False
        while not self.ended.wait(WAIT_SECONDS):
            try:
                if not is_tidy:
                    self.delete_left_over()
                    is_tidy = True
                job = self.next_job()
                if job is not None:
                    is_tidy = False
                    self.run_or_fail(job)
            except (HsfiqError, SQLAlchemyError, OSError) as error:  # the database is away: later
                logger.warning("jobs: %s", error, exc_info=not isinstance(error, Refused))
                self.ended.wait(ALIVE_SECONDS)

    def next_job(self) -> Job | None:
        """Take the job that waits for longest and is not being stopped, unless one runs."""
        with self.database.reading() as session:
            now = time_of(session)
            waits = Job.state.in_(("waiting", "running")), Job.not_before <= now
            if session.scalar(select(Job.id).where(*waits).limit(1)) is None:
                return None
        with self.database.writing() as session:
            lock_table(session, Job)
            now = time_of(session)
            for job in session.scalars(select(Job).where(Job.state == "running")):
                if job.alive_at is not None and job.alive_at >= now - LOST:
                    return None
                job.state, job.ended_at = ("stopped", now) if job.stop_asked else ("waiting", None)
            session.flush()
            due = select(Job).where(Job.state == "waiting", Job.not_before <= now)
            due = due.order_by(Job.not_before, Job.id).limit(1)
            first = session.scalar(due.with_for_update(skip_locked=True))
            if first is not None:
                first.state, first.started_at, first.alive_at = "running", now, now
            return first

    def delete_left_over(self) -> None:
        """Delete the folders of deleted jobs, such as the jobs of deleted studies."""
        folders = [path for path in (uploads_home(self.database) / JOBS).glob("*") if path.is_dir()]
        with self.database.reading() as session:
            known = {str(number) for number in session.scalars(select(Job.id))}
        for folder in folders:
            # A newer one may be that of a job which is just being added.
            if folder.name not in known and time() - folder.stat().st_mtime > LOST.seconds:
                rmtree(folder, ignore_errors=True)

    def run_or_fail(self, job: Job) -> None:
        try:
            self.run_job(job)
        except OSError as error:  # a full disk, or a folder that cannot be written
            self.note(job, state="failed", result=str(error))

    def run_job(self, job: Job) -> None:
        folder = job_folder(self.database, job.id)
        folder.mkdir(parents=True, exist_ok=True)
        for step in range(job.step, len(job.commands)):
            (folder / PROGRESS_FILE).unlink(missing_ok=True)
            command = [part.replace(FOLDER, str(folder.resolve())) for part in job.commands[step]]
            outcome = self.run_command(job, command)
            if outcome == "interrupted":
                return self.note(job, state="waiting")
            if outcome != "done":
                return self.note(job, state=outcome, result=last_line(folder))
            self.note(job, step=step + 1)
        return self.note(job, state="done", result=last_line(folder))

    def run_command(self, job: Job, command: Sequence[str]) -> str:
        """Run one command to its end: done, failed, stopped, or interrupted by the server's end."""
        folder = job_folder(self.database, job.id)
        with (folder / LOG_FILE).open("ab") as log:
            log.write(f"$ hsfiq {' '.join(command)}\n".encode())
            log.flush()
            process = subprocess.Popen(  # noqa: S603 -- our own command, without a shell
                [sys.executable, "-m", "hsfiq", *command],
                cwd=folder,
                env=self.environment(job, folder),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
            heard = monotonic()
            while True:
                with suppress(subprocess.TimeoutExpired):
                    return "done" if process.wait(WAIT_SECONDS) == 0 else "failed"
                if self.ended.is_set():
                    end(process)
                    return "interrupted"
                try:
                    if self.is_stopped(job):
                        end(process)
                        return "stopped"
                    if monotonic() - heard > ALIVE_SECONDS:
                        heard = monotonic()
                        self.update(job)
                except Refused as error:  # the database is away; the command goes on
                    logger.warning("jobs: %s", error)

    def environment(self, job: Job, folder: Path) -> Mapping[str, str]:
        """The address of the database is in no argument, which other users of the machine see."""
        url = self.database.engine.url
        file = file_of(url) if url.get_backend_name() == "sqlite" else None
        url = url if file is None else url.set(database=str(file.resolve()), query={})
        return os.environ | {
            "HSFIQ_DATABASE_URL": url.render_as_string(hide_password=False),
            HOME_VARIABLE: str(uploads_home(self.database).resolve()),
            VARIABLE: str(folder.resolve()),
            PARENT: str(os.getpid()),
            ACTOR: job.created_by,
        }

    def is_stopped(self, job: Job) -> bool:
        """Also if another server has not heard of this one, and has taken the job."""
        with self.database.reading() as session:
            stored = session.get(Job, job.id)
            return stored is None or stored.stop_asked or stored.started_at != job.started_at

    def note(self, job: Job, **values: object) -> None:
        """As `update`; if the database is unavailable, the result is neither lost nor repeated."""
        while True:
            try:
                return self.update(job, **values)
            except Unavailable as error:
                logger.warning("jobs: %s", error)
                if self.ended.wait(WAIT_SECONDS):
                    raise

    def update(self, job: Job, **values: object) -> None:
        """Publish the job's state, unless another server has taken the job."""
        with self.database.writing() as session:
            stored = session.get(Job, job.id, with_for_update=True)
            if stored is None or stored.started_at != job.started_at:
                return
            stored.alive_at = time_of(session)
            for name, value in values.items():
                setattr(stored, name, value)
            if stored.state in ("done", "failed", "stopped"):
                stored.ended_at = stored.alive_at


def end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def last_line(folder: Path) -> str:
    lines = [line for line in log_of(folder).splitlines() if line.strip()]
    return lines[-1] if lines and not lines[-1].startswith("$ ") else ""


def become_job() -> None:
    """In a command of a job: yield to other processes, and end when the server does."""
    parent = os.environ.get(PARENT)
    if not parent:
        return
    if hasattr(os, "nice"):
        os.nice(10)

    def watch() -> None:
        ended = Event()
        while os.getppid() == int(parent):
            ended.wait(1)
        os._exit(1)

    Thread(target=watch, daemon=True).start()
