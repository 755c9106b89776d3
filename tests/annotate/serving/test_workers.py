"""Several processes that answer at one address, while they are killed."""

from __future__ import annotations

import os
import shutil
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import httpx
import pytest
from playwright.sync_api import Page
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import select
from sqlalchemy.exc import TimeoutError as NoConnection

from hsfiq.annotate.cookies import signer_of
from hsfiq.annotate.owner import login
from hsfiq.annotate.owner.login import LoginThrottle
from hsfiq.atomic_files import locked
from hsfiq.collect.protocol import Opening
from hsfiq.db.engine import Database, connect, open_database
from hsfiq.db.tables import Response
from hsfiq.live.client import certificates
from hsfiq.simulate.client import CannotContinue, RefusedRequest, StudyClient
from tests.annotate.page_requests import answer_body, check_body
from tests.annotate.question_page import answer, expect_step
from tests.annotate.served_studies import PlaceOfKind, Server, make_study, newcomer
from tests.annotate.serving.forked_workers import run_with_forked_workers

WORKERS, PEOPLE = 2, 4

METRICS_TOKEN = "0123456789abcdef-token"


@pytest.fixture
def server(database_url: str, tmp_path: Path) -> Iterator[Server]:
    """A study on each kind of database, served by several processes."""
    place = PlaceOfKind(tmp_path / "study", database_url)
    make_study(place, queries=24).close()
    token = tmp_path / "token"
    token.write_text(METRICS_TOKEN)
    token.chmod(0o600)
    options = ("--workers", str(WORKERS), "--metrics-token-file", str(token))
    words = ("serve", "--database", place.url, *options)
    server = Server(place, *words, command=run_with_forked_workers)
    server.start()
    yield server
    server.kill()


def workers_of(server: Server) -> list[int]:
    """The processes that answer, once all have started."""
    assert server.process is not None
    while True:
        parents = parents_of_processes()
        children = [pid for pid, parent in parents.items() if parent == server.process.pid]
        workers = [pid for pid, parent in parents.items() if parent in children]
        if len(workers) == WORKERS:
            return workers
        time.sleep(0.05)


def parents_of_processes() -> dict[int, int]:
    """Each running process of this machine with its parent."""
    parents: dict[int, int] = {}
    for folder in Path("/proc").iterdir():
        with suppress(OSError, ValueError):
            _, _, fields = (folder / "stat").read_text().rpartition(") ")
            state, parent, *_ = fields.split()
            if state != "Z":
                parents[int(folder.name)] = int(parent)
    return parents


def kill(worker: int) -> None:
    os.kill(worker, signal.SIGKILL)
    while worker in parents_of_processes():
        time.sleep(0.05)


PATIENCE = 600.0
"""Seconds for which requests are repeated, on any machine."""


def answer_all(address: str, token: str, acknowledged: list[str], cancel: threading.Event) -> None:
    """Answer a whole study; requests are repeated until the server answers, as a page does."""
    with closing(StudyClient(address, cancel, PATIENCE)) as client:
        client.get(f"/start/{token}")
        view = opened(client)["view"]
        while view["step"] != "done":
            shown = cast("dict[str, Any]", view)
            if view["step"] == "check":
                try:
                    view = client.check(cast("Any", check_body(shown)))["view"]
                except RefusedRequest:  # it was stored, and its reply did not arrive
                    view = client.current_view()
            else:
                body = answer_body(shown, key=f"{token}-{shown['number']}")
                view = client.submit(cast("Any", body))["view"]
                acknowledged.append(body["submit_key"])


def opened(client: StudyClient) -> Opening:
    """What the page receives; a page that finds the database busy is loaded again."""
    while True:
        try:
            return client.open()
        except CannotContinue:
            client.wait(0.1)


def test_no_answer_is_lost_or_doubled_while_workers_are_killed(server: Server) -> None:
    acknowledged: list[str] = []
    tokens = [newcomer(server.place) for _ in range(PEOPLE)]
    with ThreadPoolExecutor(PEOPLE) as people:
        ends = [
            people.submit(answer_all, server.url, token, acknowledged, threading.Event())
            for token in tokens
        ]
        for number in range(3):
            while len(acknowledged) <= number and not any(end.done() for end in ends):
                time.sleep(0.01)
            kill(workers_of(server)[number % WORKERS])
        for end in ends:
            end.result()
    with closing(open_database(server.place.url)) as database, database.reading() as session:
        stored = Counter(session.scalars(select(Response.submit_key)))
    assert stored == Counter(acknowledged)
    assert len(stored) == PEOPLE * 6
    while server.log.read_text().count("a worker ended (signal 9); starting another") < 3:
        time.sleep(0.05)
    workers = workers_of(server)
    assert server.stop(signal.SIGTERM) == 0
    assert server.log.read_text().count("a worker ended") == 3
    assert not parents_of_processes().keys() & set(workers)


@pytest.mark.postgres
@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
def test_a_page_needs_no_certain_worker(server: Server, open_page: Callable[..., Page]) -> None:
    page = open_page(server)
    for number in (1, 2):
        expect_step(page, "question", f"{number} / 6")
        answer(page)
    expect_step(page, "question", "3 / 6")  # the second answer is stored
    page.reload()
    expect_step(page, "question", "3 / 6")


def answered_questions(server: Server) -> tuple[dict[str, float], str]:
    """Of each status the number of `GET /question`, and all metrics, from whichever worker."""
    headers = {"Authorization": f"Bearer {METRICS_TOKEN}"}
    shown = httpx.get(f"{server.url}/metrics", headers=headers, timeout=600, verify=certificates())
    assert shown.status_code == 200
    counted = {
        sample.labels["status"]: sample.value
        for family in text_string_to_metric_families(shown.text)
        for sample in family.samples
        if sample.name == "hsfiq_requests_total" and sample.labels["route"] == "/question"
    }
    return counted, shown.text


def metrics_folder_of(worker: int) -> Path:
    """The folder of the metrics' files, which a worker maps while it starts."""
    maps = Path(f"/proc/{worker}/maps")
    while "hsfiq-metrics-" not in (mapped := maps.read_text()):
        time.sleep(0.05)
    names = [line.split()[-1] for line in mapped.splitlines()]
    (folder,) = {Path(name).parent for name in names if "hsfiq-metrics-" in name}
    return folder


@pytest.mark.parametrize("kind", ["sqlite"])
def test_metrics_are_those_of_all_workers(server: Server) -> None:
    first = workers_of(server)[0]
    while "hsfiq_workers 2.0" not in answered_questions(server)[1]:
        time.sleep(0.05)
    for number in range(1, 7):  # each on a connection of its own, which any worker may take
        unknown = httpx.get(f"{server.url}/question", timeout=600, verify=certificates())
        assert unknown.status_code == 401
        while (counted := answered_questions(server)[0]) != {"401": number}:
            assert counted == ({"401": number - 1} if number > 1 else {})  # counted after the reply
            time.sleep(0.05)
    folder = metrics_folder_of(first)
    assert folder.stat().st_mode & 0o077 == 0
    (folder / "histogram_0.db").touch()  # as of a worker that is creating the file, or died then
    kill(first)
    while "hsfiq_workers 2.0" not in answered_questions(server)[1]:
        time.sleep(0.05)
    counted, shown = answered_questions(server)
    assert counted == {"401": 6}
    families = {family.name for family in text_string_to_metric_families(shown)}
    assert {"hsfiq_answers", "hsfiq_build_info", "hsfiq_database_connections"} <= families
    assert [word for word in (METRICS_TOKEN, "pid=", "127.0.0.1") if word in shown] == []
    assert server.stop(signal.SIGTERM) == 0
    assert not folder.exists()


def test_workers_end_with_their_parent(server: Server) -> None:
    workers = workers_of(server)
    answered_questions(server)
    folder = metrics_folder_of(workers[0])
    with pytest.raises(OSError, match="temporarily unavailable"), locked(folder):
        pass
    server.stop(signal.SIGKILL)
    while parents_of_processes().keys() & set(workers):
        time.sleep(0.05)
    # The next server deletes it, after locking it; that of another test may have done so already.
    with suppress(FileNotFoundError), locked(folder):
        shutil.rmtree(folder)


def test_the_connections_of_a_process_have_a_limit(empty_postgres: str) -> None:
    engine = connect(empty_postgres, 2)
    engine.pool._timeout = 0.1  # type: ignore[attr-defined]
    with engine.connect(), engine.connect(), pytest.raises(NoConnection, match="QueuePool"):
        engine.connect()
    engine.dispose()


def test_guessing_passwords_is_no_faster_at_several_processes(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = datetime.now(UTC)
    monkeypatch.setattr(login, "time_of", lambda _session: now)
    databases = [Database(connect(database_url)) for _ in range(6)]
    throttles = [LoginThrottle(database, signer_of(database)) for database in databases]
    expected = [0.0, 0.25, 0.75, 1.75, 3.75, 7.75, 12.75, 17.75]
    with ThreadPoolExecutor(len(throttles)) as attackers:
        delays = attackers.map(
            lambda n: throttles[n % 6].delay_for("192.0.2.1", "owner"), range(20)
        )
        assert sorted(delay for delay in delays if delay is not None) == expected
    for throttle in throttles:
        assert throttle.delay_for("192.0.2.2", "owner") is not None
        throttle.succeeded("192.0.2.1")
    assert throttles[0].delay_for("192.0.2.1", "owner") == 0
    for database in databases:
        database.close()
