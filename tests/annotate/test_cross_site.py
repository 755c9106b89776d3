"""Requests that another site makes a participant's browser send change nothing."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

import pytest
from fastapi.testclient import TestClient
from playwright.sync_api import BrowserContext
from sqlalchemy import func, select
from starlette.datastructures import Headers

from hsfiq.annotate.cookies import COOKIE
from hsfiq.annotate.security import is_same_origin
from hsfiq.annotate.texts import entry_texts
from hsfiq.db.engine import Database
from hsfiq.db.tables import Participant
from tests.annotate.page_requests import answer_body, begin_form, stored, view
from tests.annotate.served_studies import ThreadServer, newcomer

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


def count(database: Database) -> int:
    with database.reading() as session:
        return session.scalar(select(func.count(Participant.id))) or 0


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
    server: ThreadServer,
    foreign_site: ForeignSite,
    context: BrowserContext,
    host: str,
    other: str,
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
