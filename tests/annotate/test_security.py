"""Only participants reach the study, and only the routes that its page uses."""

from __future__ import annotations

import re
from typing import Any

import pytest
from fastapi.testclient import TestClient

from hsfiq.annotate.cookies import COOKIE
from hsfiq.annotate.texts import entry_texts
from hsfiq.db.engine import Database
from tests.annotate.page_requests import KEY, begin_form, stored
from tests.annotate.served_studies import enrol, gradio_page, set_status

NOWHERE: dict[str, Any] = {
    "assignment": "question:1:0.x",
    "submit_key": KEY,
    "skip": True,
    "images": {"reference": "shown", "sets": [["shown"], ["shown"]]},
}


def gradio_paths(routes: list[Any]) -> set[str]:
    """The paths of these routes and of the routers among them, parameters filled in."""
    paths: set[str] = set()
    for route in routes:
        if hasattr(route, "original_router"):
            paths |= gradio_paths(route.original_router.routes)
        else:
            paths.add("/study" + re.sub(r"\{.*?\}", "x", route.path))
    return paths


def test_welcome_needs_no_cookie(new_browser: TestClient) -> None:
    answer = new_browser.get("/")
    assert answer.status_code == 200
    assert f">{entry_texts('en')['begin']}</button>" in answer.text
    assert "Which shop understood you?" in answer.text


def test_every_study_route_refuses_an_unknown_browser(new_browser: TestClient) -> None:
    (mount,) = [route for route in new_browser.app.routes if route.path == "/study"]  # type: ignore[attr-defined]
    paths = gradio_paths(gradio_page(mount).app.routes)
    assert "/study/gradio_api/upload" in paths
    for route in [*paths, "/study", "/study//", "/study/%2e%2e/study/config"]:
        for method in ("GET", "POST"):
            answer = new_browser.request(method, route)
            assert answer.status_code == 401, f"{method} {route}: {answer.status_code}"


@pytest.mark.parametrize("path", ["/question", "/question/1", f"/image/{'0' * 32}"])
def test_views_and_images_refuse_an_unknown_browser(new_browser: TestClient, path: str) -> None:
    assert new_browser.get(path).status_code == 401


def test_answers_of_an_unknown_browser_are_refused(
    new_browser: TestClient, database: Database
) -> None:
    assert new_browser.post("/submit", json=NOWHERE).status_code == 401
    assert new_browser.post("/check", json={"assignment": "x", "given": "1"}).status_code == 401
    assert stored(database) == []


def test_an_unknown_browser_gets_a_link_to_the_welcome_page(new_browser: TestClient) -> None:
    answer = new_browser.get("/study/", headers={"Accept": "text/html"})
    assert answer.status_code == 401
    assert entry_texts("en")["unknown_browser"] in answer.text


@pytest.mark.parametrize("forge", [
    lambda cookie: cookie[:-1] + ("0" if cookie[-1] != "0" else "1"),
    lambda cookie: "x" + cookie,
    lambda cookie: cookie.split(".")[0],
    lambda cookie: cookie.split(".")[0] + ".",
    lambda cookie: cookie[:0],
])  # fmt: skip
def test_a_forged_cookie_is_refused(annotator: TestClient, forge: Any) -> None:
    cookie = annotator.cookies[COOKIE]
    assert annotator.get("/question").status_code == 200
    for path in ("/question", "/study/", "/study/config"):
        forged = {"Cookie": f"{COOKIE}={forge(cookie)}"}
        annotator.cookies.clear()
        assert annotator.get(path, headers=forged).status_code == 401


def test_scripts_cannot_read_the_cookie(new_browser: TestClient, database: Database) -> None:
    answer = new_browser.post("/enrol", data=begin_form(new_browser))
    assert answer.headers["location"] == "study/"
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=lax" in cookie


def test_pressing_begin_twice_makes_one_participant(
    annotator: TestClient, database: Database
) -> None:
    cookie = annotator.cookies[COOKIE]
    enrol(annotator, database)
    assert annotator.cookies[COOKIE] == cookie
    assert f">{entry_texts('en')['continue']}</a>" in annotator.get("/").text


def test_a_full_or_unknown_study_refuses_enrolment(
    new_browser: TestClient, database: Database
) -> None:
    form = begin_form(new_browser)
    for _ in range(2):  # twelve questions, six for each
        enrol(new_browser, database)
        new_browser.cookies.clear()
    for study in (1, 999, 10**30):
        answer = new_browser.post("/enrol", data=form | {"study": study})
        assert answer.status_code == 410
        assert entry_texts("en")["full"] in answer.text
        assert COOKIE not in new_browser.cookies
    set_status(database, "closed")
    assert f">{entry_texts('en')['begin']}</button>" not in new_browser.get("/").text


def test_uploads_files_and_proxies_are_not_reachable(annotator: TestClient) -> None:
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
