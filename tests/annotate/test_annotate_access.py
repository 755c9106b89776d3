"""Who gets in: nobody without a cookie of ours, and nobody where they have no business."""

from __future__ import annotations

import re
from typing import Any

import pytest
from fastapi.testclient import TestClient

from hsfiq.annotate.cookies import COOKIE
from hsfiq.annotate.texts import entry_texts
from hsfiq.db.engine import Database
from tests.annotate.annotate_pages import KEY, stored
from tests.annotate.annotate_studies import enrol, set_status

NOWHERE: dict[str, Any] = {"assignment": "question:1:0.x", "submit_key": KEY, "skip": True}


def gradio_paths(routes: list[Any]) -> set[str]:
    """The paths of these routes and of the routers among them, parameters filled in."""
    paths: set[str] = set()
    for route in routes:
        if hasattr(route, "original_router"):
            paths |= gradio_paths(route.original_router.routes)
        else:
            paths.add("/study" + re.sub(r"\{.*?\}", "x", route.path))
    return paths


def test_welcome_needs_no_cookie(stranger: TestClient) -> None:
    answer = stranger.get("/")
    assert answer.status_code == 200
    assert f">{entry_texts('en')['begin']}</button>" in answer.text
    assert "Which shop understood you?" in answer.text


def test_every_study_route_refuses_a_stranger(stranger: TestClient) -> None:
    (mount,) = [route for route in stranger.app.routes if route.path == "/study"]  # type: ignore[attr-defined]
    paths = gradio_paths(mount.app.routes)
    assert "/study/gradio_api/upload" in paths
    for route in [*paths, "/study", "/study//", "/study/%2e%2e/study/config"]:
        for method in ("GET", "POST"):
            answer = stranger.request(method, route)
            assert answer.status_code == 401, f"{method} {route}: {answer.status_code}"


@pytest.mark.parametrize("path", ["/question", "/question/1", f"/image/{'0' * 32}"])
def test_views_and_images_refuse_a_stranger(stranger: TestClient, path: str) -> None:
    assert stranger.get(path).status_code == 401


def test_answers_of_a_stranger_are_refused(stranger: TestClient, database: Database) -> None:
    assert stranger.post("/submit", json=NOWHERE).status_code == 401
    assert stranger.post("/check", json={"assignment": "x", "given": "1"}).status_code == 401
    assert stored(database) == []


def test_the_stranger_is_told_where_to_begin(stranger: TestClient) -> None:
    answer = stranger.get("/study/", headers={"Accept": "text/html"})
    assert answer.status_code == 401
    assert entry_texts("en")["unknown_browser"] in answer.text


@pytest.mark.parametrize("forge", [
    lambda cookie: cookie[:-1] + ("0" if cookie[-1] != "0" else "1"),
    lambda cookie: "x" + cookie,
    lambda cookie: cookie.split(".")[0],
    lambda cookie: cookie.split(".")[0] + ".",
    lambda cookie: cookie[:0],
])  # fmt: skip
def test_a_forged_cookie_is_no_cookie(annotator: TestClient, forge: Any) -> None:
    cookie = annotator.cookies[COOKIE]
    assert annotator.get("/question").status_code == 200
    for path in ("/question", "/study/", "/study/config"):
        forged = {"Cookie": f"{COOKIE}={forge(cookie)}"}
        annotator.cookies.clear()
        assert annotator.get(path, headers=forged).status_code == 401


def test_the_cookie_is_out_of_reach_of_scripts(stranger: TestClient, database: Database) -> None:
    answer = stranger.post("/enrol", data={"study": 1})
    assert answer.headers["location"] == "study/"
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=lax" in cookie


def test_begin_twice_is_one_participant(annotator: TestClient, database: Database) -> None:
    cookie = annotator.cookies[COOKIE]
    enrol(annotator, database)
    assert annotator.cookies[COOKIE] == cookie
    assert f">{entry_texts('en')['continue']}</a>" in annotator.get("/").text


def test_a_full_or_unknown_study_takes_nobody(stranger: TestClient, database: Database) -> None:
    for _ in range(2):  # twelve questions, six for each
        enrol(stranger, database)
        stranger.cookies.clear()
    for study in (1, 999, 10**30):
        answer = stranger.post("/enrol", data={"study": study})
        assert answer.status_code == 410
        assert entry_texts("en")["full"] in answer.text
        assert COOKIE not in stranger.cookies
    set_status(database, "closed")
    assert f">{entry_texts('en')['begin']}</button>" not in stranger.get("/").text


def test_uploads_files_and_proxies_are_shut(annotator: TestClient) -> None:
    assert annotator.get("/study/").status_code == 200
    for path in (
        "upload",
        "file=/etc/passwd",
        "file/etc/passwd",
        "proxy=http://x/",
        "runs",
        "dev/reload",
    ):
        for method in ("GET", "POST"):
            answer = annotator.request(method, f"/study/gradio_api/{path}")
            assert answer.status_code == 404, path
    assert annotator.post("/study/gradio_api//upload", files={"files": b"x"}).status_code == 404


def test_no_docs_routes(annotator: TestClient) -> None:
    for path in ("/docs", "/redoc", "/openapi.json"):
        assert annotator.get(path).status_code == 404
