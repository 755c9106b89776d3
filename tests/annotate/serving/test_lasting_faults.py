"""Faults that last or come back while people answer: what was acknowledged is stored once."""

from __future__ import annotations

import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Page, expect
from sqlalchemy import select

from benchmarks.nginx import Nginx
from benchmarks.tcp_proxy import TcpProxy, postgres_behind_proxy
from hsfiq.annotate.app import build_app
from hsfiq.db import limited_connection
from hsfiq.db.engine import open_database
from hsfiq.db.postgres import limit_waiting
from hsfiq.db.tables import Response
from tests.annotate.conftest import running
from tests.annotate.page_requests import answer_body, view
from tests.annotate.private_texts import quoted_in
from tests.annotate.question_page import TEXT, answer, expect_step
from tests.annotate.served_studies import PlaceOfKind, Server, ThreadServer, make_study, newcomer
from tests.annotate.serving.forked_workers import run_with_forked_workers
from tests.annotate.serving.proxies import WITHOUT_TLS, free_port, tool
from tests.annotate.serving.test_workers import answer_all

PEOPLE = 3
REASON = "telltale-reason"


def prepared(folder: Path, url: str) -> PlaceOfKind:
    """A study in this database."""
    place = PlaceOfKind(folder, url)
    make_study(place, queries=60).close()
    return place


def stored_keys(url: str) -> Counter[str]:
    with closing(open_database(url)) as database, database.reading() as session:
        return Counter(session.scalars(select(Response.submit_key)))


class People:
    """Participants who answer the whole study, and repeat what the server does not answer."""

    def __init__(self, place: PlaceOfKind, address: str) -> None:
        self.tokens = [newcomer(place) for _ in range(PEOPLE)]
        self.acknowledged: list[str] = []
        self._address, self._cancel = address, threading.Event()

    def __enter__(self) -> People:
        self._threads = ThreadPoolExecutor(PEOPLE)
        self._ends = [
            self._threads.submit(answer_all, self._address, token, self.acknowledged, self._cancel)
            for token in self.tokens
        ]
        return self

    def __exit__(self, *_: object) -> None:
        self._cancel.set()
        self._threads.shutdown()

    def wait_for_answers(self, number: int) -> None:
        """Wait until everybody has answered so many questions, or somebody has ended."""
        while not any(end.done() for end in self._ends):
            given = Counter(key.rpartition("-")[0] for key in self.acknowledged)
            if all(given[token] >= number for token in self.tokens):
                return
            time.sleep(0.01)

    def finish(self) -> Counter[str]:
        """Wait until they have answered everything; the keys of their answers."""
        for end in self._ends:
            end.result()
        assert len(self.acknowledged) == 6 * PEOPLE
        return Counter(self.acknowledged)


@pytest.fixture
def kind() -> str:
    """Only the connections to a database server can break."""
    return "postgresql"


@dataclass(frozen=True)
class Lab:
    """Two workers behind nginx, and PostgreSQL behind a proxy of the test."""

    place: PlaceOfKind
    server: Server
    nginx: Nginx
    postgres: TcpProxy

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.nginx.port}"


@pytest.mark.postgres
@pytest.mark.parametrize("fault", [TcpProxy.reset, TcpProxy.fall_silent])
def test_a_page_and_other_people_wait_for_postgresql(
    database_url: str,
    tmp_path: Path,
    fault: Callable[[TcpProxy], None],
    open_page: Callable[..., Page],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    place = prepared(tmp_path / "study", database_url)
    with ExitStack() as stack:
        url, proxy = stack.enter_context(postgres_behind_proxy(place.url, connect_timeout="5"))
        database = open_database(url)
        limit_waiting(database.engine)
        server = stack.enter_context(running(ThreadServer(place, database, build_app(database))))
        page = open_page(server)
        answer(page)
        expect_step(page, "question", "2 / 6")
        client = stack.enter_context(
            httpx.Client(base_url=server.url, timeout=600, trust_env=False)
        )
        token = newcomer(place)
        assert client.get(f"/start/{token}").status_code == 303
        body = answer_body(view(client), reason=REASON)
        people = stack.enter_context(People(place, server.url))
        people.wait_for_answers(1)
        with monkeypatch.context() as patch:
            patch.setattr(limited_connection, "ANSWER_SECONDS", 1.0)
            fault(proxy)
            answer(page)
            page.get_by_role("button", name=TEXT["retry"]).wait_for()
            assert client.post("/submit", json=body).status_code == 503
            assert client.get("/healthz").status_code == 200
            assert client.get("/readyz").status_code == 503
        expect_step(page, "question", "2 / 6")
        expect(page.locator(".set").nth(0).get_by_role("radio").nth(3)).to_be_checked()
        proxy.recover()
        page.get_by_role("button", name=TEXT["retry"]).click()
        expect_step(page, "question", "3 / 6")
        assert client.post("/submit", json=body).status_code == 200
        keys = people.finish()
        assert quoted_in(caplog.text, client, body, token, *people.tokens, [*keys]) == []
    assert "503 at POST /submit: " in caplog.text
    stored = stored_keys(place.url)
    assert stored.total() == len(stored) == len(keys) + 3
    assert stored >= keys


@pytest.fixture
def lab(database_url: str, tmp_path: Path) -> Iterator[Lab]:
    place = prepared(tmp_path / "study", database_url)
    with ExitStack() as stack:
        url, proxy = stack.enter_context(postgres_behind_proxy(place.url))
        words = ("serve", "--database", url, "--workers", "2")
        server = Server(place, *words, command=run_with_forked_workers)
        server.start()
        stack.callback(server.kill)
        port = free_port()
        block = WITHOUT_TLS.format(port=port, upstream=server.url)
        nginx = Nginx(tool("nginx"), tmp_path, block, port)
        nginx.start()
        stack.callback(nginx.stop)
        yield Lab(place, server, nginx, proxy)


def check_log(lab: Lab, people: People, *private: object) -> None:
    log = lab.server.log.read_text()
    sent = [*people.tokens, *people.acknowledged, *private]
    assert [text for text in sent if str(text) in log] == []
    assert "Traceback" not in log


@pytest.mark.postgres
def test_nginx_is_killed_and_started_again(lab: Lab, open_page: Callable[..., Page]) -> None:
    page = open_page(lab)
    with People(lab.place, lab.url) as people:
        for number in (1, 2, 3):
            people.wait_for_answers(number)
            lab.nginx.stop(signal.SIGKILL)
            if number == 1:
                answer(page)
                page.get_by_role("button", name=TEXT["retry"]).wait_for()
                expect_step(page, "question", "1 / 6")
            lab.nginx.start()
        page.get_by_role("button", name=TEXT["retry"]).click()
        expect_step(page, "question", "2 / 6")
        keys = people.finish()
    stored = stored_keys(lab.place.url)
    assert stored.total() == len(stored) == len(keys) + 1
    assert stored >= keys
    check_log(lab, people)


OUTAGE_SECONDS = 20.0


@pytest.mark.slow
@pytest.mark.postgres
def test_postgresql_is_unreachable_for_twenty_seconds(lab: Lab) -> None:
    """First no byte passes, then connections are refused."""
    with People(lab.place, lab.url) as people:
        people.wait_for_answers(1)
        lab.postgres.fall_silent()
        time.sleep(OUTAGE_SECONDS / 2)
        assert httpx.get(f"{lab.url}/healthz", timeout=600).status_code == 200
        assert httpx.get(f"{lab.url}/readyz", timeout=600).status_code == 503
        lab.postgres.reset()
        time.sleep(OUTAGE_SECONDS / 2)
        assert httpx.get(f"{lab.url}/", timeout=600).status_code == 503
        lab.postgres.recover()
        keys = people.finish()
    assert stored_keys(lab.place.url) == keys
    assert httpx.get(f"{lab.url}/readyz", timeout=600).status_code == 200
    check_log(lab, people)
    assert "503 at " in lab.server.log.read_text()
