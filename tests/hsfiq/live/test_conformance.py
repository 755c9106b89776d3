"""`hsfiq retriever check` on the example's server, and on servers that each break one rule."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hsfiq.cli import run
from hsfiq.live.client import LiveRetriever
from hsfiq.live.conformance import check_conformance
from tests.hostile_retrievers import gzip_bomb, hostile
from tests.live_servers import example_app, serving

Edit = Callable[[str, Any], Any]
"""Changes the JSON that a path answers."""


class Edited:
    """An app whose answers are changed, and whose refusals are `status` if one is given."""

    def __init__(self, app: ASGIApp, edit: Edit, status: int | None = None) -> None:
        self.app, self.edit, self.status = app, edit, status

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        messages: list[Message] = []

        async def keep(message: Message) -> None:
            messages.append(message)

        await self.app(scope, receive, keep)
        start, *bodies = messages
        value = json.loads(b"".join(message.get("body", b"") for message in bodies))
        if start["status"] == 200:
            value = self.edit(scope["path"], value)
        else:
            start["status"] = self.status or start["status"]
        body = json.dumps(value).encode()
        start["headers"] = [(b"content-length", str(len(body)).encode())]
        await send(start)
        await send({"type": "http.response.body", "body": body})


def on(wanted: str, change: Callable[[Any], Any]) -> Edit:
    return lambda path, value: change(value) if path == wanted else value


def each_list(change: Callable[[dict[str, Any]], object]) -> Edit:
    def edit(reply: Any) -> Any:
        for ranked in reply["lists"]:
            change(ranked)
        return reply

    return on("/v1/rank", edit)


def reverse(ranked: dict[str, Any]) -> None:
    ranked["image_ids"].reverse()


def count_from_zero(ranked: dict[str, Any]) -> None:
    for target in ranked["targets"]:
        target["rank"] += 1


def forget_ties(ranked: dict[str, Any]) -> None:
    for target in ranked["targets"]:
        target["ties"] = 0


def alternating() -> Edit:
    """Lists that are cut at every other request."""
    calls: Iterator[int] = iter(range(10_000))

    def change(ranked: dict[str, Any]) -> None:
        if next(calls) % 2:
            ranked["image_ids"].append(ranked["image_ids"].pop(0))

    return each_list(change)


def unchanged(_: str, value: Any) -> Any:
    return value


BROKEN: dict[str, tuple[str, Edit]] = {
    "an id is missing": ("corpus", on("/v1/corpus", lambda v: {"image_ids": v["image_ids"][:-1]})),
    "lists are reversed": ("list", each_list(reverse)),
    "ranks are one too large": ("ranks", each_list(count_from_zero)),
    "ties are not counted": ("ranks", each_list(forget_ties)),
    "lists change": ("same-again", alternating()),
    "no version": ("system", on("/v1/system", lambda v: v | {"version": ""})),
    "another protocol": ("system", on("/v1/system", lambda v: v | {"protocol": 2})),
    "an answer is too long": ("limits", on("/v1/rank", lambda v: v | {"more": "x" * 500_000})),
    "a version is too long": ("system", on("/v1/system", lambda v: v | {"version": "x" * 201})),
    "scores are missing": ("list", each_list(lambda ranked: ranked["scores"].pop())),
}


def failed_rules(app: Any) -> list[str]:
    with serving(app) as url, LiveRetriever(url) as retriever:
        return [result.name for result in check_conformance(retriever).failed]


@pytest.mark.parametrize("what", BROKEN)
def test_a_server_that_breaks_a_rule_fails_it(what: str) -> None:
    rule, edit = BROKEN[what]
    assert rule in failed_rules(Edited(example_app(), edit))


def test_a_server_that_compresses_its_answers_fails() -> None:
    with hostile(gzip_bomb) as server, LiveRetriever(server.url) as retriever:
        (result,) = check_conformance(retriever).failed
    assert "is compressed" in result.came


def test_what_is_reported_is_one_short_line() -> None:
    def escape(ranked: dict[str, Any]) -> None:
        ranked["image_ids"] = [
            f"\u202e{place}{'x' * 390}" for place in range(len(ranked["scores"]))
        ]

    with serving(Edited(example_app(), each_list(escape))) as url, LiveRetriever(url) as retriever:
        failed = check_conformance(retriever).failed
    assert "list" in {result.name for result in failed}
    assert all(result.came.isprintable() and len(result.came) < 1_000 for result in failed)


def test_refusals_need_their_status() -> None:
    refusals = {"unknown-image", "unknown-key", "k", "excluded-target", "no-json", "other-path"}
    refusals.add("no-images")
    assert refusals <= set(failed_rules(Edited(example_app(), unchanged, status=418)))


def test_a_server_that_only_says_that_it_accepts_images_fails() -> None:
    says = on("/v1/system", lambda value: value | {"accepts_images": True})
    failed = failed_rules(Edited(example_app(), says, status=418))
    assert {"images", "images-refused"} <= set(failed)
    assert "no-images" not in failed


def test_the_command_reports_every_rule(capsys: pytest.CaptureFixture[str]) -> None:
    with serving(example_app()) as url:
        assert run(["retriever", "check", url]) == 0
        assert "\nnot tried  token: " in capsys.readouterr().out
        assert run(["retriever", "check", url, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["conforms"]
    assert {rule["outcome"] for rule in result["rules"]} == {"ok", "not tried"}

    with serving(Edited(example_app(), BROKEN["lists are reversed"][1])) as url:
        assert run(["retriever", "check", url]) == 1
    output = capsys.readouterr()
    assert "FAIL       list: " in output.out
    assert output.err.count("\n") == 1

    assert run(["retriever", "check", url]) == 1
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.count("\n") == 1
    assert "cannot be reached" in output.err
