"""Retrievers that are slow, broken or hostile, while other people use the same server."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from socket import create_connection
from typing import Any

import httpx
import pytest

from hsfiq.collect import retrievers
from tests.drawn_retriever import DrawnRetriever
from tests.hostile_retrievers import (
    Answer,
    HostileServer,
    endless_body,
    gzip_bomb,
    hang,
    hostile,
)
from tests.question_kinds.drawn_catalogue import Catalogue
from tests.question_kinds.search_pages import SearchPage, create_search, image_names

MORE_THAN_THREADS = 60


class Gated(DrawnRetriever):
    """Answers only while its gate is open; `most` is how many requests waited at the same time."""

    def __init__(self, image_ids: list[str]) -> None:
        self.gate, self.is_asked = threading.Event(), threading.Event()
        self.lock, self.waiting, self.most = threading.Lock(), 0, 0
        super().__init__(image_ids)

    def rank(self, body: bytes) -> dict[str, Any]:
        answer = super().rank(body)
        with self.lock:
            self.waiting += 1
            self.most = max(self.most, self.waiting)
        self.is_asked.set()
        self.gate.wait()
        with self.lock:
            self.waiting -= 1
        return answer


@pytest.fixture
def gated(catalogue: Catalogue) -> Iterator[Gated]:
    made = Gated(image_names(catalogue))
    yield made
    made.gate.set()
    made.stop()


@contextmanager
def searching(catalogue: Catalogue, retriever: DrawnRetriever, name: str) -> Iterator[SearchPage]:
    """A participant of a new study, which is closed afterwards."""
    study = create_search(catalogue, retriever, name)
    try:
        with closing(SearchPage(catalogue, study)) as page:
            yield page
    finally:
        catalogue.close(study)


@contextmanager
def turned(catalogue: Catalogue, answer: Answer) -> Iterator[tuple[SearchPage, HostileServer]]:
    """A participant whose retriever answers so, after it was honest when the study was created."""
    honest = DrawnRetriever(image_names(catalogue))
    with searching(catalogue, honest, f"turned-{answer.__name__.replace('_', '-')}") as page:
        honest.stop()
        with hostile(answer, honest.port) as server:
            yield page, server


@contextmanager
def asking_often(page: SearchPage) -> Iterator[list[Future[dict[str, Any]]]]:
    """Ask for the same lists more often than the server has threads."""
    payload = {"assignment": page.view["assignment"]}
    url, cookies = page.http.base_url, dict(page.http.cookies)
    with (
        ThreadPoolExecutor(MORE_THAN_THREADS) as people,
        httpx.Client(base_url=url, cookies=cookies, timeout=600) as http,
    ):

        def ask() -> dict[str, Any]:
            view: dict[str, Any] = http.post("/search/list", json=payload).json()
            return view

        yield [people.submit(ask) for _ in range(MORE_THAN_THREADS)]


def test_a_slow_retriever_delays_nobody_else(
    catalogue: Catalogue, gated: Gated, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retrievers, "TIMEOUT", 600.0)
    with searching(catalogue, gated, "slow") as page, asking_often(page) as asked:
        gated.is_asked.wait()
        assert page.current()["awaits_list"]
        assert page.http.get("/readyz").json()["threads"] == "ok"
        assert not any(each.done() for each in asked)
        gated.gate.set()
        views = [each.result() for each in asked]
        assert all(view == views[0] for view in views)
        assert views[0]["turns"][0]["lists"]
        assert gated.most == 1  # a late request may be sent again, once the first has ended


def test_a_participant_who_leaves_and_comes_back_has_one_request(
    catalogue: Catalogue, gated: Gated, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retrievers, "TIMEOUT", 600.0)
    with searching(catalogue, gated, "leaving") as page:
        for _ in range(MORE_THAN_THREADS):
            leave(page)
        with ThreadPoolExecutor(1) as people:
            gated.is_asked.wait()
            again = people.submit(page.list)
            assert page.current()["awaits_list"]
            gated.gate.set()
            assert again.result()["turns"][0]["lists"]
        assert gated.most == 1  # a late request may be sent again, once the first has ended


def leave(page: SearchPage) -> None:
    """Ask for the list, and go before it is there."""
    body = json.dumps({"assignment": page.view["assignment"]}).encode()
    cookies = "; ".join(f"{name}={value}" for name, value in page.http.cookies.items())
    address = page.http.base_url
    head = (
        f"POST /search/list HTTP/1.1\r\nHost: {address.netloc.decode()}\r\nCookie: {cookies}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    with create_connection((address.host, address.port or 80)) as connection:
        connection.sendall(head.encode() + body)


@pytest.mark.parametrize("answer", [hang, endless_body, gzip_bomb])
def test_a_hostile_retriever_is_given_up_and_the_search_can_be_stopped(
    catalogue: Catalogue,
    answer: Answer,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(retrievers, "TIMEOUT", 0.5)
    with turned(catalogue, answer) as (page, server), caplog.at_level(logging.WARNING):
        assert page.list()["is_unavailable"]
        assert len(server.requests) == 1
        assert page.stop()["ending"] == "stopped"
    assert all(record.getMessage().isprintable() for record in caplog.records)
