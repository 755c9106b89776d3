"""The requests of docs/guides/live-retrievers.md get the answers that it shows."""

from __future__ import annotations

import json
import re
from contextlib import redirect_stdout
from io import StringIO
from typing import Any

import httpx
import pytest

from hsfiq.images.decode import decoded
from hsfiq.live.protocol import RankRequest, read_request
from tests.live_servers import example_app, serving
from tests.studies import ROOT

PAGE = (ROOT / "docs" / "guides" / "live-retrievers.md").read_text(encoding="utf-8")

EXCHANGES = re.findall(
    r"```http\n(GET|POST) (\S+)\n(.*?)```.*?```json\n(.*?)```", PAGE, flags=re.DOTALL
)
"""Method, path, body and the answer that follows."""


@pytest.fixture(scope="module")
def url() -> Any:
    with serving(example_app()) as address:
        yield address


@pytest.mark.parametrize("exchange", EXCHANGES, ids=[exchange[1] for exchange in EXCHANGES])
def test_the_request_gets_the_answer_on_the_page(url: str, exchange: tuple[str, ...]) -> None:
    method, path, body, expected = exchange
    response = httpx.request(method, url + path, content=body)
    assert response.json() == json.loads(expected)


def test_every_request_of_the_protocol_is_on_the_page() -> None:
    assert [exchange[1] for exchange in EXCHANGES] == [
        "/v1/system",
        "/v1/corpus",
        "/v1/rank",
        "/v1/compose",
    ]


def test_the_image_of_the_example_can_be_decoded() -> None:
    (body,) = [
        each for each in re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL) if "own-1" in each
    ]
    (search,) = read_request(RankRequest, body.encode()).searches
    with decoded(search.files()["own-1"]) as image:
        assert image.format == "PNG"


def test_the_python_example_prints_a_list(url: str) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    output = StringIO()
    with redirect_stdout(output):
        exec(code.replace("http://127.0.0.1:8101", url), {})
    assert output.getvalue() == "('s2', 's3', 'd2') (4.0, 4.0, 3.0)\n"
