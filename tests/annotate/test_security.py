"""Only participants reach the study, only its routes, and no site in their name."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from playwright.sync_api import BrowserContext
from starlette.datastructures import Headers

from hsfiq.annotate.cookies import COOKIE
from hsfiq.annotate.security import is_same_origin
from hsfiq.annotate.studio.recruiting import RECRUITING
from hsfiq.annotate.studio.shell import Page as StudioPage
from hsfiq.annotate.studio.watch import WATCH
from hsfiq.annotate.texts import entry_texts
from hsfiq.db.engine import Database, open_database
from tests.annotate.owner.studies_in_progress import log_in, set_owner
from tests.annotate.page_requests import (
    KEY,
    answer_body,
    answer_until,
    begin_form,
    check_body,
    stored,
    view,
)
from tests.annotate.served_studies import (
    Place,
    ThreadServer,
    browser_of,
    count,
    enrol,
    make_study,
    newcomer,
    plain_browser,
)
from tests.annotate.test_routes import ACCESS, PARTICIPANT, address_of, paths_of


def test_every_study_route_refuses_an_unknown_browser(new_browser: TestClient) -> None:
    for route in ("/study/", "/study//", "/study/%2e%2e/study/", "/study/config"):
        for method in ("GET", "HEAD", "POST"):
            status = new_browser.request(method, route).status_code
            assert status in (401, 404, 405), f"{method} {route}: {status}"
            assert status == 401 or route != "/study/" or method == "POST"


def test_an_unknown_browser_gets_a_link_to_the_welcome_page(new_browser: TestClient) -> None:
    answer = new_browser.get("/study/", headers={"Accept": "text/html"})
    assert answer.status_code == 401
    assert entry_texts("en")["unknown_browser"] in answer.text


FORGERIES: list[Callable[[str], str]] = [
    lambda cookie: cookie[:-1] + ("0" if cookie[-1] != "0" else "1"),
    lambda cookie: "9" + cookie,
    lambda cookie: cookie.rpartition(".")[0],
    lambda cookie: cookie.rpartition(".")[0] + ".",
    lambda _: "",
]
"""Ways to change a signed cookie."""


def test_a_forged_cookie_is_refused(annotator: TestClient) -> None:
    cookie = annotator.cookies[COOKIE]
    annotator.cookies.clear()
    for path in ("/question", "/study/"):
        genuine = {"Cookie": f"{COOKIE}={cookie}"}
        assert annotator.get(path, headers=genuine).status_code == 200
        for forge in FORGERIES:
            forged = {"Cookie": f"{COOKIE}={forge(cookie)}"}
            assert annotator.get(path, headers=forged).status_code == 401


def test_scripts_cannot_read_the_cookie(new_browser: TestClient) -> None:
    answer = new_browser.post("/enrol", data=begin_form(new_browser))
    assert answer.headers["location"] == "study/"
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=lax" in cookie


def test_no_route_of_gradio_is_beside_the_page(annotator: TestClient) -> None:
    assert annotator.get("/study/").status_code == 200
    for path in ("config", "gradio_api/upload", "gradio_api/file=/etc/passwd", "gradio_api/info"):
        for method in ("GET", "POST"):
            assert annotator.request(method, f"/study/{path}").status_code == 404, path
    assert annotator.post("/gradio_api/upload", files={"files": b"x"}).status_code == 404
    for path in ("/docs", "/redoc", "/openapi.json"):
        assert annotator.get(path).status_code == 404


def test_every_route_of_participants_refuses_an_unknown_browser(
    app: FastAPI, new_browser: TestClient, database: Database
) -> None:
    assignment: dict[str, Any] = {"assignment": "x"}
    key = assignment | {"submit_key": KEY}
    typed = {"text": "is red", "pasted": False, "first_key_seconds": None, "last_key_seconds": None}
    images = {"reference": "shown", "sets": [["shown"], ["shown"]]}
    bodies: dict[str, Any] = {
        "/submit": key | {"skip": True, "images": images},
        "/check": assignment | {"given": "1"},
        "/consent": {"agrees": True},
        "/practice": {},
        "/reconsider": {},
        "/messages-seen": {"messages": [1]},
        "/withdrawal": assignment,
        "/language": {"language": "en", "number": None},
        "/questionnaire": assignment | {"answers": {}},
        "/search/turn": key | {"opinion": None, "typed": typed},
        "/search/upload": key | {"picture": ""},
        "/search/list": assignment,
        "/search/stop": key | {"opinion": None, "declared": None},
    }
    assert new_browser.post("/continue", data={"participant": 1}).status_code == 401
    for path in sorted(ACCESS[PARTICIPANT] - {"/continue"}):
        for method in paths_of(app)[path] - {"HEAD"}:
            for address in {address_of(path), address_of(path.replace("{token}", "practice-1"))}:
                answer = new_browser.request(method, address, json=bodies.get(path))
                assert answer.status_code == 401, (method, path)
    assert stored(database) == []


# ----------------------------------------------------------------------------------- assignments


def test_another_participants_assignment_is_refused(
    annotator: TestClient, app: FastAPI, database: Database
) -> None:
    other = enrol(browser_of(app), database)
    own_view = view(annotator)
    assert other.post("/submit", json=answer_body(own_view)).status_code == 403
    assert view(other)["number"] == 1
    assert stored(database) == []
    own_check = answer_until(annotator, "check")
    assert other.post("/check", json=check_body(own_check)).status_code == 403


def test_an_altered_or_a_questions_assignment_is_refused(
    annotator: TestClient, database: Database
) -> None:
    shown = view(annotator)
    signature = shown["assignment"].rpartition(".")[2]
    for forged in (f"question:2:0.{signature}", f"check:1:0.{signature}", "", ".", "x" * 300):
        body = answer_body(shown) | {"assignment": forged}
        assert annotator.post("/submit", json=body).status_code == 403
    assert stored(database) == []
    check = {"assignment": shown["assignment"], "given": "12"}
    assert annotator.post("/check", json=check).status_code == 403


def test_a_later_question_cannot_be_seen(annotator: TestClient) -> None:
    assert annotator.get("/question/1").status_code == 200
    for number in (2, 6, 7, 0, -1, 10**30):
        assert annotator.get(f"/question/{number}").status_code == 403
    assert annotator.get("/question/x").status_code == 422


def test_the_signing_key_survives_a_restart(place: Place) -> None:
    database = make_study(place)
    before = enrol(plain_browser(database), database)
    body = answer_body(view(before))
    database.close()
    with closing(open_database(place.url)) as reopened:
        after = plain_browser(reopened)
        after.cookies = before.cookies
        assert after.post("/submit", json=body).status_code == 200


TELLTALE = re.compile(r"telltale|image_root")


def opening(client: TestClient) -> dict[str, Any]:
    """The data in the page when it is loaded."""
    (held,) = re.findall(r'class="opening">(.*?)</script>', client.get("/study/").text)
    return dict(json.loads(held))


def tokens_in(question: dict[str, Any]) -> set[str]:
    images = [question["reference"], *question["sets"][0], *question["sets"][1]]
    return {image["token"] for image in images} | set(question["next_images"])


def test_a_complete_participation_reveals_no_system(annotator: TestClient) -> None:
    texts = [annotator.get(path).text for path in ("/", "/study/")]
    current_view = opening(annotator)["view"]
    while current_view["step"] != "done":
        texts.append(json.dumps(current_view))
        if current_view["step"] == "check":
            answer = annotator.post("/check", json=check_body(current_view))
        else:
            for token in tokens_in(current_view):
                answers = [annotator.get(f"/image/{token}{end}") for end in ("", "/full")]
                texts += [str(sorted(answer.headers.items())) for answer in answers]
            answer = annotator.post("/submit", json=answer_body(current_view))
        texts += [answer.text, str(sorted(answer.headers.items()))]
        current_view = answer.json()["view"]
    for text in texts:
        assert not (match := TELLTALE.search(text)), f"{match}: {text[:300]}"


def test_a_view_has_no_other_keys(annotator: TestClient) -> None:
    shown = view(annotator)
    assert set(shown) == {
        "step", "number", "total", "answered", "back", "text", "reference", "sets", "earlier",
        "standing_at", "assignment", "draft", "next_images", "minutes_left", "reason_asked",
        "text_version", "messages", "language",
    }  # fmt: skip
    keys = {key for images in shown["sets"] for image in images for key in image}
    assert keys == {"token", "missing"}
    assert [len(images) for images in shown["sets"]] == [5, 5]
    following = annotator.post("/submit", json=answer_body(shown)).json()["view"]
    images = [following["reference"], *following["sets"][0], *following["sets"][1]]
    assert set(shown["next_images"]) == {image["token"] for image in images}
    assert set(opening(annotator)["study"]) == {
        "title", "kind", "points", "levels", "language", "direction", "guidelines", "set_names",
        "extra_questions", "ties_allowed", "confirm_difference", "shortest_reason",
        "longest_reason", "is_preview", "text_version", "languages",
    }  # fmt: skip


NO_ACTS = [
    b"", b"{", b"\xff", b"[" * 50_000, b"[]", b"null", b'"x"', b"{}", b'{"act": null}',
    b'{"act": ["note"]}', b'{"act": "no such act"}', b'{"act": "__class__"}',
]  # fmt: skip

VALUES = ["null", "{}", "[]", "1", "true", "1e999", "-1", "9" * 30, '"\\ud800"', '"x\\u0000"',
          f'"{"x" * 400}"', '"p1"', '"open"', '"<b>"']  # fmt: skip
"""What is sent for every value of an act, as JSON."""

NAMES = ("to", "seen", "person", "about", "text", "note", "answer", "count", "again", "pay",
         "answers", "reason", "message", "bonus", "field", "value", "q")  # fmt: skip


@pytest.fixture
def client(app: FastAPI, database: Database) -> TestClient:
    """A browser that may see the studio; an error of the app is one of the test."""
    set_owner(database)
    browser = browser_of(app)
    assert log_in(browser).status_code == 303
    return browser


@pytest.mark.parametrize("page", ["", "study/1/watch", "study/1/recruiting", "study/1/history"])
def test_what_is_no_act_is_refused(client: TestClient, page: str) -> None:
    for body in NO_ACTS:
        assert client.post(f"/owner/{page}", content=body).status_code == 422, body[:80]


@pytest.mark.slow
@pytest.mark.parametrize("page", [WATCH, RECRUITING], ids=["watch", "recruiting"])
def test_no_value_of_an_act_is_an_error_of_the_server(
    client: TestClient, page: StudioPage, caplog: pytest.LogCaptureFixture
) -> None:
    path = f"/owner/{page.path}".format(study_id=1)
    for act in page.acts:
        for value in VALUES:
            given = ", ".join(f'"{name}": {value}' for name in NAMES)
            body = f'{{"act": "{act}", {given}}}'.encode()
            status = client.post(path, content=body).status_code
            assert status in (200, 404, 409, 422), body
    assert [each for each in caplog.records if each.levelname == "ERROR"] == []


@pytest.mark.parametrize(
    "query",
    [
        *("q=%00", "page=x", "page=" + "9" * 30, "sort=%3Cb%3E", "show=x", "person=%3Cb%3E"),
        *("figures=2", "people=%2C%2C", "comments=-1"),
    ],
)
def test_no_address_is_an_error_of_the_server(client: TestClient, query: str) -> None:
    for page in ("watch", "recruiting", "history"):
        status = client.get(f"/owner/study/1/{page}?{query}").status_code
        assert status in (200, 404), page


NOT_TRUSTWORTHY = "study.test"
"""A name for 127.0.0.1. Over plain HTTP, browsers send no Sec-Fetch-Site to such names."""

FOREIGN_HEADERS = [
    {"Origin": "https://evil.example"},
    {"Origin": "null"},
    {"Origin": "http://testserver:8000"},
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
    {"Origin": "http://testserver", "Sec-Fetch-Site": "same-site"},
]

OWN_HEADERS = [
    {},
    {"Origin": "http://testserver"},
    {"Sec-Fetch-Site": "none"},
    {"Origin": "http://testserver", "Sec-Fetch-Site": "same-origin"},
    {"Origin": "https://study.example", "X-Forwarded-Host": "study.example"},
    # A proxy that replaces the host without saying so.
    {"Origin": "https://study.example", "Sec-Fetch-Site": "same-origin"},
]

FORM = """
<form method="post" action="{study}/enrol"><input name="study" value="1"></form>
<script>document.forms[0].submit()</script>
"""

SCRIPT = """
<script>
Promise.allSettled(["enrol", "consent", "practice", "submit", "check"].map((path) =>
  fetch("{study}/" + path, {{
    method: "POST", credentials: "include", mode: "no-cors", body: '{{"agrees": false}}',
  }})
)).then(() => document.title = "sent");
</script>
"""


# ---------------------------------------------------------------------------------------- headers


def test_which_requests_are_from_the_same_origin() -> None:
    for headers in FOREIGN_HEADERS:
        assert not is_same_origin(Headers({"Host": "testserver"} | headers)), headers
    for headers in OWN_HEADERS:
        assert is_same_origin(Headers({"Host": "testserver"} | headers)), headers


def test_enrolment_from_another_site_is_refused(
    new_browser: TestClient, database: Database
) -> None:
    """Browsers send no lax cookie with another site's form, so the participant is unknown."""
    form = begin_form(new_browser)
    for headers in FOREIGN_HEADERS:
        answer = new_browser.post("/enrol", data=form, headers=headers)
        assert answer.status_code == 403, headers
        assert "set-cookie" not in answer.headers
    assert count(database) == 0


def test_a_participants_requests_from_another_site_are_refused(
    annotator: TestClient, database: Database
) -> None:
    requests = {
        "/submit": answer_body(view(annotator)),
        "/check": {"assignment": "x", "given": "1"},
        "/consent": {"agrees": True},
        "/practice": {},
        "/no/such/route": {},
    }
    for headers in FOREIGN_HEADERS:
        for path, body in requests.items():
            answer = annotator.post(path, json=body, headers=headers)
            assert answer.status_code == 403, (path, headers)
            assert answer.json() == {"error": "this request comes from another site"}
        assert annotator.put("/enrol", headers=headers).status_code == 403
    assert stored(database) == []


def test_requests_of_the_own_page_are_accepted(annotator: TestClient, database: Database) -> None:
    body = answer_body(view(annotator))
    for headers in OWN_HEADERS:
        assert annotator.post("/submit", json=body, headers=headers).status_code == 200, headers
        assert annotator.post("/enrol", data={"study": 1}, headers=headers).status_code == 303
    assert len(stored(database)) == 1


def test_a_browser_is_shown_an_explanation(new_browser: TestClient) -> None:
    headers = {"Accept": "text/html", "Sec-Fetch-Site": "cross-site", "Accept-Language": "ko"}
    answer = new_browser.post("/enrol", data={"study": 1}, headers=headers)
    assert answer.status_code == 403
    assert entry_texts("ko")["other_site"] in answer.text
    assert 'href="./"' in answer.text


def test_other_sites_may_link_to_the_study_but_read_nothing(annotator: TestClient) -> None:
    headers = {"Origin": "https://evil.example", "Sec-Fetch-Site": "same-site"}
    for path in ("/", "/question", "/study/"):
        answer = annotator.get(path, headers=headers)
        assert answer.status_code == 200
        assert not [name for name in answer.headers if name.startswith("access-control-")]
    preflight = headers | {"Access-Control-Request-Method": "POST"}
    answer = annotator.options("/submit", headers=preflight)
    assert answer.status_code == 403
    assert not [name for name in answer.headers if name.startswith("access-control-")]


# ---------------------------------------------------------------------------------- a real browser


@dataclass(frozen=True)
class ForeignSite:
    """A server whose page `/` is `page`."""

    server: ThreadingHTTPServer
    page: list[str]

    @property
    def port(self) -> int:
        return self.server.server_port


@pytest.fixture
def foreign_site() -> Iterator[ForeignSite]:
    page: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(page[-1].encode())

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield ForeignSite(server, page)
    server.shutdown()
    thread.join()
    server.server_close()


def cookie_of(context: BrowserContext, study: str) -> str | None:
    return next((c["value"] for c in context.cookies(study) if c["name"] == COOKIE), None)


@pytest.mark.browser
@pytest.mark.parametrize("host", ["127.0.0.1", NOT_TRUSTWORTHY])
@pytest.mark.parametrize("other", ["localhost", "evil.test", "the same host"])
def test_a_foreign_page_cannot_replace_a_participants_cookie(
    server: ThreadServer, foreign_site: ForeignSite, context: BrowserContext, host: str, other: str
) -> None:
    study = f"http://{host}:{urlsplit(server.url).port}"
    page = context.new_page()
    page.goto(f"{study}/start/{newcomer(server.place)}")
    page.locator('.page:not([data-step="loading"])').wait_for()
    cookie, enrolled = cookie_of(context, study), count(server.database)
    assert cookie
    evil = f"http://{host if other == 'the same host' else other}:{foreign_site.port}/"

    foreign_site.page.append(FORM.format(study=study))
    with page.expect_response(f"{study}/enrol") as answer:
        page.goto(evil)
    assert answer.value.status == 403
    page.get_by_text(entry_texts("en")["other_site"]).wait_for()

    foreign_site.page.append(SCRIPT.format(study=study))
    page.goto(evil)
    page.wait_for_function("document.title === 'sent'")

    assert cookie_of(context, study) == cookie
    assert count(server.database) == enrolled
    page.goto(f"{study}/study/")
    page.locator('.page[data-step="question"]').wait_for()


@pytest.mark.browser
@pytest.mark.parametrize("host", ["127.0.0.1", NOT_TRUSTWORTHY])
def test_the_welcome_page_enrols(server: ThreadServer, context: BrowserContext, host: str) -> None:
    """Also in browsers that send the server only the form's origin."""
    page = context.new_page()
    page.goto(f"http://{host}:{urlsplit(server.url).port}/")
    page.get_by_role("button", name=entry_texts("en")["begin"]).click()
    page.locator('.page[data-step="consent"]').wait_for()
    assert count(server.database) == 1
