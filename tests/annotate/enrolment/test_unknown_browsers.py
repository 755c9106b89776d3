"""What a browser without a cookie may do."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.testclient import TestClient

from tests.annotate.page_requests import KEY


def test_every_other_route_refuses_an_unknown_browser(
    app: FastAPI, new_browser: TestClient
) -> None:
    public = {"/", "/enrol", "/start", "/start/{token}", "/framed/{address:path}"}
    public |= {"/healthz", "/healthz/client", "/readyz", "/page/{version}/{name}"}
    public |= {"/study/"}  # the middleware of the whole app refuses it: test_security.py
    routes = {(method, route.path) for route in app.routes for method in route.methods}  # type: ignore[attr-defined]
    closed = [(method, path) for method, path in routes if path not in public]
    assert {path for _, path in closed} == {
        "/image/{token}", "/image/{token}/full", "/question", "/question/{number}", "/submit",
        "/check", "/consent", "/practice", "/continue", "/opening", "/messages-seen",
        "/questionnaire", "/withdrawal", "/reconsider",
        "/language", "/search/turn", "/search/list", "/search/stop",
        "/search/upload", "/image/upload/{token}",
    }  # fmt: skip
    assert new_browser.post("/continue", data={"participant": 1}).status_code == 401
    closed.remove(("POST", "/continue"))
    bodies: dict[str, Any] = {
        "/submit": {
            "assignment": "x",
            "submit_key": KEY,
            "skip": True,
            "images": {"reference": "shown", "sets": [["shown"], ["shown"]]},
        },
        "/check": {"assignment": "x", "given": "1"},
        "/consent": {"agrees": True},
        "/practice": {},
        "/reconsider": {},
        "/messages-seen": {"messages": [1]},
        "/withdrawal": {"assignment": "x"},
        "/language": {"language": "en", "number": None},
        "/questionnaire": {"assignment": "x", "answers": {}},
        "/search/turn": {
            "assignment": "x",
            "submit_key": KEY,
            "opinion": None,
            "typed": {
                "text": "is red",
                "pasted": False,
                "first_key_seconds": None,
                "last_key_seconds": None,
            },
        },
        "/search/upload": {"assignment": "x", "submit_key": KEY, "picture": ""},
        "/search/list": {"assignment": "x"},
        "/search/stop": {"assignment": "x", "submit_key": KEY, "opinion": None, "declared": None},
    }
    for method, path in closed:
        address = path.replace("{number}", "1")
        for token in ("practice-1", "0" * 32):
            answer = new_browser.request(
                method, address.replace("{token}", token), json=bodies.get(path)
            )
            assert answer.status_code == 401, (method, path)
