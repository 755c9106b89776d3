"""The client against real servers: example, restarted, slow, loading, refusing, and none."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from hsfiq.errors import UnreadableInput
from hsfiq.live.client import LiveRetriever
from hsfiq.live.protocol import (
    ComposedQuery,
    RankRequest,
    RetrieverRefused,
    RetrieverUnavailable,
    Search,
    TargetRank,
    Turn,
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


async def slow(_: Request) -> Response:
    await asyncio.sleep(1)
    return PlainTextResponse("late")


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


def test_a_slow_server_is_given_up_after_the_timeout() -> None:
    with serving(answering(slow)) as url, LiveRetriever(url, timeout=0.2) as retriever:
        began = time.monotonic()
        with pytest.raises(RetrieverUnavailable, match="did not answer in time"):
            retriever.rank([RED], "mean", 3)
        assert time.monotonic() - began < 0.9  # one attempt alone


def test_a_server_that_loads_says_when_to_ask_again() -> None:
    with (
        serving(answering(loading)) as url,
        LiveRetriever(url) as retriever,
        pytest.raises(RetrieverUnavailable, match="is loading") as caught,
    ):
        retriever.rank([RED], "mean", 3)
    assert caught.value.retry_after == 7


@pytest.mark.parametrize("handler", [page, redirect, no_lists])
def test_an_answer_outside_the_protocol_is_no_answer(handler: Any) -> None:
    with (
        serving(answering(handler)) as url,
        LiveRetriever(url) as retriever,
        pytest.raises(RetrieverUnavailable),
    ):
        retriever.rank([RED], "mean", 3)


def test_a_refusal_names_the_place_and_the_status() -> None:
    unknown = Search(turns=(Turn(reference="x9", text=""),))
    with (
        serving(example_app()) as url,
        LiveRetriever(url) as retriever,
        pytest.raises(RetrieverRefused, match="unknown image") as caught,
    ):
        retriever.rank_once(RankRequest(searches=(unknown,), k=1))
    assert caught.value.status == 422


@pytest.mark.parametrize("url", ["127.0.0.1:8100", "ftp://host", "http://me:secret@host", ""])
def test_other_addresses_are_refused_without_their_secrets(url: str) -> None:
    with pytest.raises(UnreadableInput) as caught:
        LiveRetriever(url)
    assert "secret" not in str(caught.value)
