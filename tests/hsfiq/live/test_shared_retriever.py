"""One retriever that many people ask at the same time: outstanding requests, and its breaker."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing
from typing import BinaryIO

import pytest

from hsfiq.live.client import AT_ONCE, LiveRetriever
from hsfiq.live.protocol import RankRequest, RetrieverUnavailable, Search, Turn
from hsfiq.live.shared_retriever import FAILURES, REST, SharedRetriever
from tests.hostile_retrievers import HEAD, HostileServer, hostile

REQUEST = RankRequest(searches=(Search(turns=(Turn(reference="s2", text="is red"),)),), k=1)
REPLY = json.dumps(
    {
        "lists": [{"image_ids": ["s1"], "scores": [1.0]}],
        "version": "1",
        "corpus_sha256": "0" * 64,
        "seconds": 0.0,
    }
).encode()
ANSWER = HEAD + b"Content-Length: %d\r\n\r\n" % len(REPLY) + REPLY
BROKEN = HEAD + b"Content-Length: 2\r\n\r\n{}"


class Clock:
    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


class Asker:
    """A server that a test can change, asked through one `SharedRetriever`."""

    server: HostileServer
    shared: SharedRetriever

    def __init__(self) -> None:
        self.is_open = threading.Event()
        self.content = ANSWER
        self.clock = Clock()

    def answer(self, client: BinaryIO, _: threading.Event) -> None:
        self.is_open.wait()
        client.write(self.content)

    def ask(self, turn: int, person: int | None = None) -> bool:
        """Whether the answer for a turn can be used."""
        person = turn if person is None else person
        try:
            self.shared.require_ready(turn)
            return self.shared.ranking(turn, person, lambda: REQUEST).result().reply.version == "1"
        except RetrieverUnavailable:
            return False


@pytest.fixture
def asker() -> Iterator[Asker]:
    made = Asker()
    with hostile(made.answer) as server:
        made.server = server
        made.shared = SharedRetriever(LiveRetriever(server.url, timeout=600), made.clock)
        with closing(made.shared):
            yield made
        made.is_open.set()


def test_a_turn_has_one_request_however_often_it_is_asked(asker: Asker) -> None:
    def never() -> RankRequest:
        raise AssertionError

    awaited = [asker.shared.ranking(1, 1, lambda: REQUEST)]
    awaited += [asker.shared.ranking(1, 1, never) for _ in range(50)]
    asker.is_open.set()
    assert {each.result().reply.version for each in awaited} == {"1"}
    assert len(asker.server.requests) == 1
    assert asker.ask(1)  # it is over, so that a further one can be sent
    assert len(asker.server.requests) == 2


def test_people_are_answered_at_once_and_more_than_connections_wait_for_one(asker: Asker) -> None:
    assert AT_ONCE >= 60
    awaited = [asker.shared.ranking(turn, turn, lambda: REQUEST) for turn in range(AT_ONCE + 5)]
    while len(asker.server.requests) < AT_ONCE:
        assert not wait(awaited, 0.02).done
    asker.is_open.set()
    assert all(each.result().reply.version == "1" for each in awaited)


def test_a_retriever_that_fails_for_several_people_is_left_alone(asker: Asker) -> None:
    asker.is_open.set()
    asker.content = BROKEN
    for turn in range(FAILURES):
        assert not asker.ask(turn)
    n_asked = len(asker.server.requests)
    asker.content = ANSWER
    assert not asker.ask(100)
    with pytest.raises(RetrieverUnavailable, match=f"paused for {REST:.0f} s"):
        asker.shared.require_ready(101)
    assert len(asker.server.requests) == n_asked
    asker.clock.seconds += REST
    assert asker.ask(102)  # one request shows that it works again
    assert asker.ask(103)


def test_while_it_fails_one_request_at_a_time_tries_it(asker: Asker) -> None:
    asker.is_open.set()
    asker.content = BROKEN
    for turn in range(FAILURES):
        assert not asker.ask(turn)
    asker.clock.seconds += REST
    asker.is_open.clear()
    asker.shared.require_ready(10)
    tried = asker.shared.ranking(10, 10, lambda: REQUEST)
    with pytest.raises(RetrieverUnavailable):
        asker.shared.require_ready(11)
    asker.shared.require_ready(10)  # who asks again for the same turn waits for its answer
    asker.is_open.set()
    assert isinstance(tried.exception(), RetrieverUnavailable)
    assert not asker.ask(12)


def test_one_person_alone_does_not_end_the_service_for_others(asker: Asker) -> None:
    asker.is_open.set()
    asker.content = BROKEN
    for turn in range(5 * FAILURES):
        assert not asker.ask(turn, person=7)
    asker.content = ANSWER
    assert asker.ask(100, person=8)


def test_turns_that_begin_while_others_end_do_not_wait_for_each_other(asker: Asker) -> None:
    asker.is_open.set()
    with ThreadPoolExecutor(16) as people:
        assert all(people.map(asker.ask, range(400)))


def test_closing_tells_everybody_who_waits(asker: Asker) -> None:
    awaited = asker.shared.ranking(1, 1, lambda: REQUEST)
    while not asker.server.requests:
        assert not wait([awaited], 0.02).done
    asker.shared.close()
    assert isinstance(awaited.exception(), RetrieverUnavailable)
