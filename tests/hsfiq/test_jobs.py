"""Jobs: commands that the server runs for owners, one at a time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from threading import Event, Thread
from time import monotonic, sleep

import pytest
from sqlalchemy import make_url
from sqlalchemy.exc import OperationalError

from benchmarks.tcp_proxy import postgres_behind_proxy
from hsfiq import jobs
from hsfiq.actors import OWNER, command_line
from hsfiq.db.engine import Database, open_database
from hsfiq.db.studio_tables import Job
from hsfiq.errors import Refused, Unavailable
from hsfiq.jobs import (
    WAIT_SECONDS,
    JobProgress,
    Worker,
    add_job,
    ask_to_stop,
    home_of,
    job_folder,
    job_worker,
    jobs_of,
    log_of,
    progress_of,
    try_again,
)
from tests.annotate.serving.proxies import free_port
from tests.databases import PostgresServer
from tests.hsfiq.samples import hsfiq
from tests.studies import own_environment

SHORT = ["study", "list"]
LONGEST = 600


ON_BOTH = pytest.mark.parametrize(
    "kind", ["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)]
)
ON_POSTGRESQL = pytest.mark.parametrize(
    "kind", [pytest.param("postgresql", marks=pytest.mark.postgres)]
)


@pytest.fixture
def kind() -> str:
    """Only some tests need both kinds of database."""
    return "sqlite"


@pytest.fixture(autouse=True)
def uploads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HSFIQ_UPLOADS", str(tmp_path / "uploads"))


@pytest.fixture
def endless(tmp_path: Path) -> list[str]:
    """A command that does not end by itself: it serves another database."""
    url = f"sqlite:///{tmp_path / 'other.db'}"
    open_database(url).close()
    return ["serve", "--port", str(free_port()), "--database", url]


def queue(database: Database, *commands: list[str], kind: str = "report", hours: float = 0) -> int:
    with database.writing() as session:
        delay = timedelta(hours=hours)
        return add_job(session, OWNER, kind, "A report", commands, delay=delay).id


def stored(database: Database, number: int) -> Job:
    with database.reading() as session:
        return session.get_one(Job, number)


def run_next(database: Database) -> Job:
    worker = Worker(database, Event())
    job = worker.next_job()
    assert job is not None
    worker.run_job(job)
    return stored(database, job.id)


def wait_for(is_so: Callable[[], bool]) -> None:
    end = monotonic() + LONGEST
    while not is_so():
        assert monotonic() < end
        sleep(0.1)


def test_a_job_runs_its_commands_in_their_order(database: Database) -> None:
    number = queue(database, ["--version"], SHORT)
    job = run_next(database)
    assert (job.state, job.step, job.result) == ("done", 2, job.result)
    assert job.result is not None
    assert job.result.startswith("no study yet")
    log = log_of(job_folder(database, number))
    assert log.index("$ hsfiq --version") < log.index("$ hsfiq study list")
    assert job.ended_at is not None


def test_a_job_that_fails_says_why_and_can_be_tried_again(database: Database) -> None:
    number = queue(database, SHORT, ["export", "--study", "nobody"], ["--version"])
    job = run_next(database)
    assert (job.state, job.step) == ("failed", 1)
    assert job.result == "hsfiq: the database holds no study; import or create one first"
    with database.writing() as session:
        try_again(session, number)
        with pytest.raises(Refused):
            try_again(session, number)
    assert run_next(database).step == 1
    assert log_of(job_folder(database, number)).count("$ hsfiq study list") == 1


def test_a_job_waits_until_its_time(database: Database) -> None:
    queue(database, SHORT, hours=1)
    assert Worker(database, Event()).next_job() is None


def test_the_same_job_is_not_queued_twice(database: Database) -> None:
    queue(database, SHORT)
    with pytest.raises(Refused, match="already"):
        queue(database, SHORT)
    queue(database, SHORT, kind="release")


@ON_POSTGRESQL
def test_the_same_job_is_not_queued_by_two_servers_at_once(
    database: Database, postgres_server: PostgresServer
) -> None:
    refused: list[Refused] = []

    def queue_again() -> None:
        try:
            queue(database, SHORT)
        except Refused as error:
            refused.append(error)

    other = Thread(target=queue_again)
    with database.writing() as session:
        add_job(session, OWNER, "report", "A report", [SHORT])
        other.start()
        postgres_server.wait_for_a_lock(database.engine.url, other)
    other.join()
    with database.reading() as session:
        assert (len(jobs_of(session)), len(refused)) == (1, 1)


def test_a_job_that_waits_is_stopped_at_once(database: Database) -> None:
    number = queue(database, SHORT)
    with database.writing() as session:
        ask_to_stop(session, number)
    assert stored(database, number).state == "stopped"
    assert Worker(database, Event()).next_job() is None
    with database.writing() as session, pytest.raises(Refused):
        ask_to_stop(session, number)


def test_a_job_that_runs_is_stopped(database: Database, endless: list[str]) -> None:
    number = queue(database, endless)
    with job_worker(database):
        wait_for(lambda: "serving at" in log_of(job_folder(database, number)))
        assert hsfiq(
            "--database", str(database.engine.url), "study", "jobs", "--stop", str(number)
        ).out.startswith("job")
        wait_for(lambda: stored(database, number).state == "stopped")


def test_a_job_goes_on_after_the_server_has_ended(database: Database, endless: list[str]) -> None:
    number = queue(database, SHORT, endless)
    with job_worker(database):
        wait_for(lambda: "serving at" in log_of(job_folder(database, number)))
    job = stored(database, number)
    assert (job.state, job.step) == ("waiting", 1)
    with database.writing() as session:
        session.get_one(Job, number).commands = [SHORT, SHORT]
    assert run_next(database).state == "done"
    assert log_of(job_folder(database, number)).count("$ hsfiq study list") == 2


def started_server(database: Database) -> subprocess.Popen[bytes]:
    url = database.engine.url.render_as_string(hide_password=False)
    command = [sys.executable, "-m", "hsfiq", "serve", "--port", str(free_port())]
    return subprocess.Popen([*command, "--database", url], env=own_environment())


def process_of(argument: str) -> int | None:
    """The process with this argument."""
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if argument.encode() in (entry / "cmdline").read_bytes().split(b"\0"):
                return int(entry.name)
        except OSError:
            continue
    return None


@ON_BOTH
@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="needs /proc")
def test_a_job_survives_the_kill_of_its_server_and_runs_once(
    database: Database, endless: list[str]
) -> None:
    number = queue(database, endless)
    folder, argument = job_folder(database, number), endless[-1]
    server = started_server(database)
    try:
        wait_for(lambda: "serving at" in log_of(folder))
        first = process_of(argument)
        assert first is not None
        assert os.getpriority(os.PRIO_PROCESS, first) >= 10
        server.kill()
        wait_for(lambda: process_of(argument) is None)
    finally:
        server.kill()
        server.wait()
    assert stored(database, number).state == "running"
    assert Worker(database, Event()).next_job() is None  # its server may only be slow
    with database.writing() as session:
        job = session.get_one(Job, number)
        job.alive_at = datetime.now(UTC) - timedelta(minutes=5)
        job.commands = [SHORT]
    assert run_next(database).state == "done"


@ON_BOTH
def test_two_servers_run_one_job_at_a_time(database: Database) -> None:
    numbers = [queue(database, SHORT, kind=f"kind {n}") for n in range(4)]
    ended = Event()
    servers = [Thread(target=Worker(database, ended).run) for _ in range(2)]
    for server in servers:
        server.start()
    wait_for(lambda: all(stored(database, number).state == "done" for number in numbers))
    ended.set()
    for server in servers:
        server.join()
    done = [stored(database, number) for number in numbers]
    times = sorted((job.started_at, job.ended_at) for job in done if job.started_at)
    for (_, end), (start, _) in pairwise(times):
        assert end is not None
        assert end <= start
    assert [log_of(job_folder(database, n)).count("$ hsfiq") for n in numbers] == [1] * 4


@ON_BOTH
@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="needs /proc")
def test_a_server_that_was_not_heard_of_leaves_its_job_to_another(
    database: Database, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "nobody-writes.toml")
    waiting = ["study", "create", str(tmp_path / "nobody-writes.toml")]
    number = queue(database, waiting)
    slow, other = Worker(database, Event()), Worker(database, Event())
    job = slow.next_job()
    assert job is not None
    thread = Thread(target=slow.run_job, args=(job,))
    thread.start()
    wait_for(lambda: process_of(waiting[-1]) is not None)
    with database.writing() as session:
        session.get_one(Job, number).alive_at = datetime.now(UTC) - timedelta(minutes=5)
    taken = other.next_job()
    thread.join(LONGEST)
    assert (thread.is_alive(), process_of(waiting[-1])) == (False, None)
    assert taken is not None
    assert (stored(database, number).state, stored(database, number).ended_at) == ("running", None)
    assert stored(database, number).started_at == taken.started_at


def test_a_lost_job_that_was_to_stop_does_not_begin_again(database: Database) -> None:
    number = queue(database, SHORT)
    worker = Worker(database, Event())
    assert worker.next_job() is not None
    with database.writing() as session:
        ask_to_stop(session, number).alive_at = datetime.now(UTC) - timedelta(minutes=5)
    assert worker.next_job() is None
    assert stored(database, number).state == "stopped"


@ON_POSTGRESQL
def test_what_a_job_has_done_is_stored_when_the_database_is_back(database: Database) -> None:
    """The database server is away when the command ends, and refuses connections."""
    number = queue(database, ["--version"], SHORT)
    url = database.engine.url.render_as_string(hide_password=False)
    with postgres_behind_proxy(url) as (address, proxy):
        behind = open_database(address)
        worker = Worker(behind, Event())
        job = worker.next_job()
        assert job is not None
        thread = Thread(target=worker.run_job, args=(job,))
        proxy.reset()
        thread.start()
        wait_for(lambda: "hsfiq " in log_of(job_folder(database, number)).partition("\n")[2])
        sleep(2 * WAIT_SECONDS)  # for at least one attempt
        assert (stored(database, number).step, thread.is_alive()) == (0, True)
        proxy.recover()
        thread.join(LONGEST)
        behind.close()
    done = stored(database, number)
    assert (done.state, done.step) == ("done", 2)
    assert log_of(job_folder(database, number)).count("$ hsfiq --version") == 1


@pytest.mark.parametrize("error", [FileNotFoundError("deleted"), OperationalError("", {}, None)])
def test_jobs_run_after_an_error_of_the_server(
    database: Database, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    errors = [error]
    tidy = Worker.delete_left_over

    def delete_left_over(worker: Worker) -> None:
        if errors:
            raise errors.pop()
        tidy(worker)

    monkeypatch.setattr(Worker, "delete_left_over", delete_left_over)
    monkeypatch.setattr(jobs, "ALIVE_SECONDS", 0.1)
    number = queue(database, SHORT)
    with job_worker(database):
        wait_for(lambda: stored(database, number).state == "done")


def test_databases_have_different_folders(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HSFIQ_UPLOADS")
    urls = ["localhost/one", "localhost/two", "db.example.org/one", "localhost:5433/one"]
    homes = {home_of(make_url(f"postgresql://{url}")) for url in urls}
    assert len(homes) == len(urls)
    assert home_of(make_url("postgresql://kim@127.0.0.1:5432/one")) in homes


def test_an_interrupt_ends_a_job_with_the_server(database: Database, endless: list[str]) -> None:
    queue(database, endless)
    server = started_server(database)
    try:
        folder = job_folder(database, 1).resolve()
        wait_for(lambda: "serving at" in log_of(folder))
        server.send_signal(signal.SIGTERM)
        assert server.wait(LONGEST) == 0
    finally:
        server.kill()
        server.wait()
    assert stored(database, 1).state == "waiting"


def test_progress_is_written_twice_a_second_and_at_the_end(tmp_path: Path) -> None:
    progress = JobProgress(tmp_path)
    assert progress_of(tmp_path).share is None
    progress.tell("images", 0, 1_000)
    for done in range(1, 1_000):
        progress.tell("images", done, 1_000)
    assert progress_of(tmp_path).done < 1_000
    progress.tell("images", 1_000, 1_000)
    assert progress_of(tmp_path).share == 1
    assert list(progress.track(["a", "b"], "queries")) == ["a", "b"]
    assert (progress_of(tmp_path).label, progress_of(tmp_path).total) == ("queries", 2)


@pytest.mark.parametrize("content", [b"", b"[]", b'{"label": 5, "x": 1}', b"\xff"])
def test_broken_progress_is_none(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "progress.json").write_bytes(content)
    assert progress_of(tmp_path).total == 0


def test_folders_of_jobs_that_are_gone_are_deleted(database: Database) -> None:
    number = queue(database, SHORT)
    kept, new, gone = (job_folder(database, n) for n in (number, 77, 78))
    for folder in (kept, new, gone):
        folder.mkdir(parents=True)
    os.utime(gone, (0, 0))
    os.utime(kept, (0, 0))
    Worker(database, Event()).delete_left_over()
    assert [folder.is_dir() for folder in (kept, new, gone)] == [True, True, False]


def test_a_new_job_has_no_files_of_an_old_one(database: Database) -> None:
    folder = job_folder(database, 1)
    folder.mkdir(parents=True)
    (folder / "log.txt").write_text("of another job")
    assert queue(database, SHORT) == 1
    assert not folder.exists()


def test_commands_of_a_job_act_for_who_started_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HSFIQ_JOB_ACTOR", "kim")
    assert command_line().name == "kim"


def test_the_newest_jobs_are_first(database: Database) -> None:
    for kind in ("a", "b"):
        queue(database, SHORT, kind=kind)
    with database.reading() as session:
        assert [job.kind for job in jobs_of(session)] == ["b", "a"]
        assert jobs_of(session, study_id=5) == []


def test_a_job_whose_folder_cannot_be_written_fails_and_the_next_one_runs(
    database: Database,
) -> None:
    first, second = queue(database, SHORT, kind="a"), queue(database, SHORT, kind="b")
    folder = job_folder(database, first)
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.write_text("no folder")
    with job_worker(database):
        wait_for(lambda: stored(database, second).state == "done")
    failed = stored(database, first)
    assert (failed.state, "File exists" in (failed.result or "")) == ("failed", True)


def test_a_job_goes_on_while_the_database_is_away(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = iter([Unavailable("the database is away")])

    def is_stopped(_worker: Worker, _job: Job) -> bool:
        for error in asked:
            raise error
        return False

    monkeypatch.setattr(Worker, "is_stopped", is_stopped)
    number = queue(database, SHORT)
    assert run_next(database).state == "done"
    assert stored(database, number).result
