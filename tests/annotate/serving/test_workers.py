"""Several processes that answer at one address, while they are killed."""

from __future__ import annotations

import os
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

import pytest
from playwright.sync_api import Page
from sqlalchemy import select
from sqlalchemy.exc import TimeoutError as NoConnection

from hsfiq.annotate.cookies import signer_of
from hsfiq.annotate.owner import login_throttle
from hsfiq.annotate.owner.login_throttle import LoginThrottle
from hsfiq.cli import run
from hsfiq.db.engine import Database, connect, open_database
from hsfiq.db.schema import upgrade
from hsfiq.db.tables import Response
from hsfiq.simulate.client import RefusedRequest, StudyClient
from tests.annotate.page_requests import answer_body, check_body
from tests.annotate.question_page import answer, expect_step
from tests.annotate.served_studies import PlaceOfKind, Server, make_study, newcomer

WORKERS, PEOPLE = 2, 4


@pytest.fixture
def server(empty_url: str, tmp_path: Path) -> Iterator[Server]:
    """A study on each kind of database, served by several processes."""
    engine = connect(empty_url)
    upgrade(engine)
    engine.dispose()
    place = PlaceOfKind(tmp_path / "study", empty_url)
    make_study(place, queries=24).close()
    server = Server(place, "serve", "--database", place.url, "--workers", str(WORKERS))
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


def answer_all(server: Server, token: str, acknowledged: list[str]) -> None:
    """Answer a whole study; requests are repeated until the server answers, as a page does."""
    with closing(StudyClient(server.url, threading.Event())) as client:
        client.get(f"/start/{token}")
        view = client.open()["view"]
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


def test_no_answer_is_lost_or_doubled_while_workers_are_killed(server: Server) -> None:
    acknowledged: list[str] = []
    tokens = [newcomer(server.place) for _ in range(PEOPLE)]
    with ThreadPoolExecutor(PEOPLE) as people:
        ends = [people.submit(answer_all, server, token, acknowledged) for token in tokens]
        for number in range(3):
            while len(acknowledged) <= number and not any(end.done() for end in ends):
                time.sleep(0.01)
            os.kill(workers_of(server)[number % WORKERS], signal.SIGKILL)
        for end in ends:
            end.result()
    with closing(open_database(server.place.url)) as database, database.reading() as session:
        stored = Counter(session.scalars(select(Response.submit_key)))
    assert stored == Counter(acknowledged)
    assert len(stored) == PEOPLE * 6
    workers = workers_of(server)
    log = server.log.read_text()
    assert server.stop(signal.SIGTERM) == 0
    assert log.count("a worker ended (signal 9); another is started") == 3
    assert not parents_of_processes().keys() & set(workers)


@pytest.mark.postgres
@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
def test_a_page_needs_no_certain_worker(server: Server, open_page: Callable[..., Page]) -> None:
    page = open_page(server)
    for number in (1, 2):
        expect_step(page, "question", f"{number} / 6")
        answer(page)
    page.reload()
    expect_step(page, "question", "3 / 6")


def test_metrics_of_several_workers_are_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    token = str(tmp_path / "token")
    assert run(["serve", "--workers", "2", "--metrics-token-file", token]) == 2
    assert capsys.readouterr().err.startswith("hsfiq: --workers: each worker has metrics of its")


def test_workers_end_with_their_parent(server: Server) -> None:
    workers = workers_of(server)
    server.stop(signal.SIGKILL)
    while parents_of_processes().keys() & set(workers):
        time.sleep(0.05)


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
    monkeypatch.setattr(login_throttle, "time_of", lambda _session: now)
    databases = [Database(connect(database_url)) for _ in range(6)]
    throttles = [LoginThrottle(database, signer_of(database)) for database in databases]
    expected = [0.0, 0.25, 0.75, 1.75, 3.75, 7.75, 12.75, 17.75]
    with ThreadPoolExecutor(len(throttles)) as attackers:
        delays = attackers.map(lambda n: throttles[n % 6].delay_for("192.0.2.1"), range(20))
        assert sorted(delay for delay in delays if delay is not None) == expected
    for throttle in throttles:
        assert throttle.delay_for("192.0.2.2") is not None
        throttle.succeeded("192.0.2.1")
    assert throttles[0].delay_for("192.0.2.1") == 0
    for database in databases:
        database.close()
