"""Only participants reach the study, and only the routes that its page uses."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi.testclient import TestClient

from hsfiq.annotate.cookies import COOKIE
from hsfiq.annotate.texts import entry_texts
from hsfiq.db.engine import Database
from tests.annotate.page_requests import KEY, begin_form, stored
from tests.annotate.served_studies import enrol, set_status

NOWHERE: dict[str, Any] = {
    "assignment": "question:1:0.x",
    "submit_key": KEY,
    "skip": True,
    "images": {"reference": "shown", "sets": [["shown"], ["shown"]]},
}


def test_welcome_needs_no_cookie(new_browser: TestClient) -> None:
    answer = new_browser.get("/")
    assert answer.status_code == 200
    assert f">{entry_texts('en')['begin']}</button>" in answer.text
    assert "Which shop understood you?" in answer.text


def test_every_study_route_refuses_an_unknown_browser(new_browser: TestClient) -> None:
    for route in ("/study/", "/study//", "/study/%2e%2e/study/", "/study/config"):
        for method in ("GET", "HEAD", "POST"):
            status = new_browser.request(method, route).status_code
            assert status in (401, 404, 405), f"{method} {route}: {status}"
            assert status == 401 or route != "/study/" or method == "POST"


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
    for path in ("/question", "/study/"):
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


def test_no_route_of_gradio_is_beside_the_page(annotator: TestClient) -> None:
    assert annotator.get("/study/").status_code == 200
    for path in ("config", "gradio_api/upload", "gradio_api/file=/etc/passwd", "gradio_api/info"):
        for method in ("GET", "POST"):
            assert annotator.request(method, f"/study/{path}").status_code == 404, path
    assert annotator.post("/gradio_api/upload", files={"files": b"x"}).status_code == 404


def test_no_docs_routes(annotator: TestClient) -> None:
    for path in ("/docs", "/redoc", "/openapi.json"):
        assert annotator.get(path).status_code == 404
