"""The client against real servers: example, restarted, slow, loading, refusing, and none."""

from __future__ import annotations

import json
import threading
import time
import tracemalloc
from collections.abc import Callable
from itertools import product
from typing import Any, BinaryIO

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from hsfiq.errors import UnreadableInput
from hsfiq.live.client import AT_ONCE, LiveRetriever
from hsfiq.live.protocol import (
    ComposedQuery,
    RankRequest,
    RetrieverFaulty,
    RetrieverRefused,
    RetrieverUnavailable,
    Search,
    TargetRank,
    Turn,
)
from tests.hostile_retrievers import (
    BOMB,
    HEAD,
    Answer,
    announced_body,
    bomb,
    drip_body,
    drip_head,
    endless_body,
    endless_continue,
    gzip_bomb,
    hang,
    hostile,
)
from tests.live_servers import example_app, serving

RED = Search(turns=(Turn(reference="s2", text="is red"),))


def test_lists_and_ranks() -> None:
    asked = RED.model_copy(update={"exclude": ("s2",), "targets": ("s1",)})
    with serving(example_app()) as url, LiveRetriever(url) as retriever:
        assert retriever.system().name == "words"
        assert retriever.corpus()[0] == "d1"
        (ranked,) = retriever.rank([asked], "mean", 2)
        assert retriever.compose([ComposedQuery(reference="s2", text="")]) is None
    assert ranked.image_ids == ("s3", "d2")
    assert ranked.scores == (4.0, 3.0)
    assert ranked.targets == (TargetRank(image_id="s1", rank=3, ties=1),)


def test_more_searches_than_a_request_holds_are_split() -> None:
    with serving(example_app()) as url, LiveRetriever(url) as retriever:
        (alone,) = retriever.rank([RED], "mean", 3)
        assert retriever.rank([RED] * 19, "mean", 3) == [alone] * 19


def test_a_kept_connection_survives_a_restart() -> None:
    with serving(example_app()) as url:
        retriever = LiveRetriever(url)
        before = retriever.rank([RED], "mean", 3)
    port = int(url.rpartition(":")[2])
    with serving(example_app(), port):
        assert retriever.rank([RED], "mean", 3) == before
    with pytest.raises(RetrieverUnavailable, match="cannot be reached"):
        retriever.rank([RED], "mean", 3)
    retriever.close()


def answering(rank: Any) -> Starlette:
    return Starlette(routes=[Route("/v1/rank", rank, methods=["POST"])])


async def loading(_: Request) -> Response:
    error = {"where": "server", "what": "is loading", "remedy": "ask again"}
    return JSONResponse({"error": error}, 503, {"Retry-After": "7"})


async def page(_: Request) -> Response:
    return PlainTextResponse("<h1>It works</h1>")


async def redirect(_: Request) -> Response:
    return Response(status_code=302, headers={"Location": "http://127.0.0.1:1/"})


async def no_lists(_: Request) -> Response:
    reply = {"lists": [], "version": "1", "corpus_sha256": "0" * 64, "seconds": 0.0}
    return JSONResponse(reply)


def test_a_server_that_loads_says_when_to_ask_again() -> None:
    with serving(answering(loading)) as url:
        problem = problem_at(url, rank)
    assert "is loading" in str(problem)
    assert getattr(problem, "retry_after", 0) == 7


@pytest.mark.parametrize("handler", [page, redirect, no_lists])
def test_an_answer_outside_the_protocol_is_no_answer(handler: Any) -> None:
    with serving(answering(handler)) as url:
        assert isinstance(problem_at(url, rank), RetrieverUnavailable)


def test_a_refusal_names_the_place_and_the_status() -> None:
    unknown = RankRequest(searches=(Search(turns=(Turn(reference="x9", text=""),)),), k=1)
    with serving(example_app()) as url:
        problem = problem_at(url, lambda retriever: retriever.rank_once(unknown))
    assert isinstance(problem, RetrieverRefused)
    assert "unknown image" in str(problem)
    assert problem.status == 422


@pytest.mark.parametrize("url", ["127.0.0.1:8100", "ftp://host", "http://me:secret@host", ""])
def test_other_addresses_are_refused_without_their_secrets(url: str) -> None:
    with pytest.raises(UnreadableInput) as caught:
        LiveRetriever(url)
    assert "secret" not in str(caught.value)


def content(value: Any) -> Answer:
    """Answer with this JSON value, whatever is asked."""
    body = json.dumps(value).encode()

    def answer(client: BinaryIO, _: threading.Event) -> None:
        client.write(HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body)

    return answer


@pytest.mark.parametrize("answer", [hang, drip_head, drip_body, endless_continue])
def test_an_answer_that_does_not_end_is_given_up_at_the_deadline(answer: Answer) -> None:
    with (
        hostile(answer) as server,
        LiveRetriever(server.url, timeout=0.5) as retriever,
        pytest.raises(RetrieverUnavailable, match="did not answer in time"),
    ):
        retriever.rank([RED], "mean", 3)
    assert len(server.requests) == 1


@pytest.mark.parametrize("answer", [endless_body, announced_body])
def test_an_answer_of_too_many_bytes_is_given_up(answer: Answer) -> None:
    with hostile(answer) as server, LiveRetriever(server.url, timeout=60) as retriever:
        for ask in (retriever.system, lambda: retriever.rank([RED], "mean", 3)):
            with pytest.raises(RetrieverUnavailable, match=r"has more than [0-9,]+ bytes"):
                ask()


def test_a_compressed_answer_is_refused_before_it_is_decompressed() -> None:
    bomb()
    tracemalloc.start()
    try:
        with (
            hostile(gzip_bomb) as server,
            LiveRetriever(server.url, timeout=60) as retriever,
            pytest.raises(RetrieverUnavailable, match="is compressed"),
        ):
            retriever.rank([RED], "mean", 3)
        assert tracemalloc.get_traced_memory()[1] < BOMB / 10
    finally:
        tracemalloc.stop()
    assert b"accept-encoding: identity" in server.requests[0].lower()


def test_cookies_of_a_server_are_not_kept() -> None:
    def answer(client: BinaryIO, _: threading.Event) -> None:
        client.write(HEAD + b"Set-Cookie: kept=for-ever\r\nContent-Length: 2\r\n\r\n{}")

    with hostile(answer) as server, LiveRetriever(server.url) as retriever:
        for _ in range(2):
            retriever.request("GET", "/v1/system")
    assert not any(b"kept" in request for request in server.requests)


def test_a_server_that_recovers_is_asked_again_after_many_deadlines() -> None:
    recovered = threading.Event()

    def answer(client: BinaryIO, over: threading.Event) -> None:
        (content(REPLY) if recovered.is_set() else hang)(client, over)

    request = RankRequest(searches=(RED.model_copy(update={"targets": ("s1",)}),), k=1)
    with hostile(answer) as server, LiveRetriever(server.url, timeout=1) as retriever:
        for _ in range(4):
            waiting = [retriever.ranking(request) for _ in range(300)]
            for request_sent in waiting:
                assert isinstance(request_sent.exception(), RetrieverUnavailable)
        recovered.set()
        retriever._timeout = 60
        answered = [retriever.ranking(request) for _ in range(AT_ONCE)]
        assert [each.exception() for each in answered] == [None] * AT_ONCE


def test_closing_ends_what_is_awaited() -> None:
    with hostile(hang) as server:
        retriever = LiveRetriever(server.url, timeout=3600)
        awaited = retriever.ranking(RankRequest(searches=(RED,), k=1))
        while not server.requests:
            time.sleep(0.01)
        retriever.close()
        assert awaited.cancelled()


FORGED = "down\n2026-01-01 INFO logged in\x1b[31m\u202e" + "x" * 40_000

SYSTEM = {
    "protocol": 1, "name": "words", "version": "1", "histories": ["mean"], "max_k": 6,
    "max_batch": 8, "corpus": {"name": "six", "size": 6, "sha256": "0" * 64},
}  # fmt: skip
TARGET = {"image_id": "s1", "rank": 1, "ties": 0}
REPLY: dict[str, Any] = {
    "lists": [{"image_ids": ["s1"], "scores": [1.0], "targets": [TARGET]}],
    "version": "1", "corpus_sha256": "0" * 64, "seconds": 0.0,
}  # fmt: skip


def problem_of(
    answer: Answer, ask: Callable[[LiveRetriever], object]
) -> RetrieverRefused | RetrieverUnavailable:
    """The error at what a server answers."""
    with hostile(answer) as server:
        return problem_at(server.url, ask)


def problem_at(
    url: str, ask: Callable[[LiveRetriever], object]
) -> RetrieverRefused | RetrieverUnavailable:
    with (
        LiveRetriever(url) as retriever,
        pytest.raises((RetrieverRefused, RetrieverUnavailable)) as caught,
    ):
        ask(retriever)
    return caught.value


def rank(retriever: LiveRetriever) -> None:
    retriever.rank([RED.model_copy(update={"targets": ("s1",)})], "mean", 3)


@pytest.mark.parametrize("text", ["x" * 201, "a\0b", "a\nb", "\x1b[31m"])
def test_texts_that_cannot_be_kept_or_shown_break_the_protocol(text: str) -> None:
    assert isinstance(problem_of(content(REPLY | {"version": text}), rank), RetrieverFaulty)
    corpus = {"name": text, "size": 6, "sha256": "0" * 64}
    for wrong in ({"version": text}, {"name": text}, {"corpus": corpus}):
        problem = problem_of(content(SYSTEM | wrong), LiveRetriever.system)
        assert isinstance(problem, RetrieverFaulty)


@pytest.mark.parametrize("image", ["a\0b", "a\x1bb", "a\nb", "x" * 401])
def test_ids_that_cannot_be_kept_or_shown_break_the_protocol(image: str) -> None:
    problem = problem_of(content({"image_ids": [image]}), LiveRetriever.corpus)
    assert isinstance(problem, RetrieverFaulty)
    ranked = REPLY["lists"][0] | {"image_ids": [image]}
    problem = problem_of(content(REPLY | {"lists": [ranked]}), rank)
    assert "image_ids" in str(problem)


@pytest.mark.parametrize(
    "changes",
    [
        {"scores": [10**400]},
        {"targets": [{"image_id": "s1", "rank": 2**31, "ties": 0}]},
        {"targets": [{"image_id": "s1", "rank": 1, "ties": 2**31}]},
    ],
)
def test_numbers_that_no_database_stores_break_the_protocol(changes: dict[str, Any]) -> None:
    problem = problem_of(content(REPLY | {"lists": [REPLY["lists"][0] | changes]}), rank)
    assert next(iter(changes)) in str(problem)


def test_what_a_server_says_is_one_short_line() -> None:
    """Also if it is no HTTP."""
    error = json.dumps({"error": {"where": "a\nb", "what": FORGED, "remedy": "\x1b[31m"}})
    answers = [b"HTTP/1.1 200 \x1b[31m forged" + b"\x00" * 50_000 + b"\r\n\r\n"]
    for status, body in product((422, 503), (error, FORGED, "{")):
        head = f"HTTP/1.1 {status} x\r\nRetry-After: 1e99\r\nContent-Length: {len(body.encode())}"
        answers.append(f"{head}\r\n\r\n{body}".encode())
    for sent in answers:
        problem = problem_of(lambda client, _, sent=sent: client.write(sent), rank)
        assert str(problem).isprintable()
        assert len(str(problem)) < 1_000
        assert getattr(problem, "retry_after", 0) == 0
