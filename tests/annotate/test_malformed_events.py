"""Events that no page sends are refused before Gradio, which would log a traceback."""

from __future__ import annotations

import json
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from hsfiq.db.engine import Database
from tests.annotate.owner.studies_in_progress import log_in, set_owner
from tests.annotate.served_studies import browser_of

BOARD = "/owner/board"

MALFORMED: list[Any] = [
    {"data": []}, {"data": [], "fn_index": 999}, {"data": [], "fn_index": -1},
    {"data": [], "fn_index": None}, {"data": [], "fn_index": True}, {"data": [], "fn_index": 0.5},
    {"data": [], "fn_index": [0]}, {"data": {}, "fn_index": 0}, {"data": [1] * 40, "fn_index": 0},
    {"fn_index": 0}, [], "x", None, 1,
]  # fmt: skip

NOT_JSON = [b"", b"{", b"\xff", b"[" * 50_000, b'{"data": [1e999], "fn_index": 0}']

VALUES: list[Any] = [None, {}, [], 1, True, "\ud800", "x" * 400, "x\0"]

DETAILS: list[Any] = [None, {}, "x", [1], {"name": 1}, {"name": {}}, {"name": "\ud800"}]


@pytest.fixture
def client(app: FastAPI, database: Database) -> TestClient:
    """A browser that may see the dashboard; an error of the app is one of the test."""
    set_owner(database)
    browser = browser_of(app)
    assert log_in(browser).status_code == 303
    return browser


def send(client: TestClient, body: bytes) -> int:
    headers = {"Content-Type": "application/json"}
    address = f"{BOARD}/gradio_api/run/predict"
    return int(client.post(address, content=body, headers=headers).status_code)


@pytest.mark.parametrize(
    "body", [*(json.dumps(each).encode() for each in MALFORMED), *NOT_JSON], ids=repr
)
def test_what_is_no_event_is_refused(client: TestClient, body: bytes) -> None:
    assert send(client, body) == 422


@pytest.mark.slow
def test_no_value_of_an_event_is_an_error_of_the_server(
    client: TestClient, caplog: pytest.LogCaptureFixture
) -> None:
    for event in client.get(f"{BOARD}/config").json()["dependencies"]:
        for value in VALUES:
            for details in DETAILS:
                data = [value] * len(event["inputs"])
                sent = {"data": data, "fn_index": event["id"], "event_data": details}
                status = send(client, json.dumps(sent | {"session_hash": "s"}).encode())
                assert status in (200, 422), sent
    assert caplog.records == []
