"""Workers of Mechanical Turk: links, tickets in addresses, HITs, and the frame in Chromium."""

from __future__ import annotations

import secrets
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from html import escape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import product
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode

import pytest
from fastapi.testclient import TestClient
from playwright.sync_api import Browser, FrameLocator, Page, Request, expect
from sqlalchemy import select

from hsfiq.annotate.app import build_app, plain_app
from hsfiq.annotate.cookies import COOKIE
from hsfiq.annotate.handlers import Services
from hsfiq.annotate.mturk import FramedPages
from hsfiq.annotate.security import StudyMiddleware
from hsfiq.annotate.texts import entry_texts
from hsfiq.collect import owner
from hsfiq.collect.places import allow_people
from hsfiq.db.engine import Database
from hsfiq.db.tables import Form, Participant, Study, WorkedHit
from hsfiq.public_url import parsed_url
from tests.annotate.enrolment.visits import MTURK, PROLIFIC, the_participant
from tests.annotate.page_requests import answer_body, check_body, stored
from tests.annotate.question_page import TEXT
from tests.annotate.served_studies import (
    Place,
    ThreadServer,
    Visit,
    all_of,
    count,
    make_study,
    set_status,
    the_one,
)
from tests.annotate.serving.proxies import SERVER, free_port, make_certificate, nginx
from tests.browser import new_context_of
from tests.conftest import QUIET, installed_chromium

ENTRY = entry_texts("en")
SITES = "https://www.mturk.com https://workersandbox.mturk.com https://worker.mturk.com"
FRAMED = f"frame-ancestors {SITES};"


@pytest.fixture
def visit(place: Place) -> Iterator[Visit]:
    """A browser for a study with one participant's places, and the study's database."""
    with ExitStack() as stack:

        def start(**recruitment: Any) -> tuple[TestClient, Database]:
            design = {"questions_per_form": 2, "forms_per_participant": 1}
            recruitment = {"mode": "mturk", "participants": 1, **recruitment}
            database = make_study(place, recruitment=recruitment, **design)
            stack.callback(database.close)
            services = Services.of(database)
            app = plain_app(services)
            app.add_middleware(StudyMiddleware, pages={})
            app.add_middleware(FramedPages, signer=services.signer)
            client = TestClient(app, follow_redirects=False)
            return stack.enter_context(client), database

        yield start


def begin(client: TestClient, link: Mapping[str, str] = MTURK) -> str:
    """Press Begin; the address of the app under the worker's ticket."""
    begun = client.post("/start", params=link)
    assert begun.status_code == 303, begun.text
    assert "set-cookie" not in begun.headers
    return f"/{begun.headers['location'].removesuffix('study/')}"


def answer_all(client: TestClient, root: str) -> dict[str, Any]:
    """Agree and answer everything; the last view."""
    client.post(f"{root}consent", json={"agrees": True})
    shown: dict[str, Any] = client.post(f"{root}practice", json={}).json()
    while shown["step"] in ("question", "check"):
        if shown["step"] == "check":
            shown = client.post(f"{root}check", json=check_body(shown)).json()["view"]
        else:
            key = secrets.token_hex(8)
            shown = client.post(f"{root}submit", json=answer_body(shown, key)).json()["view"]
    return shown


def the_hit(database: Database) -> tuple[str, str, str]:
    hit = the_one(database, select(WorkedHit))
    return hit.assignment_id, hit.hit_id, hit.submit_to


def forms_taken(database: Database) -> int:
    return len(all_of(database, select(Form).where(Form.participant_id.is_not(None))))


# ------------------------------------------------------------------------------ before enrolment


def test_a_preview_shows_the_task_and_takes_no_place(visit: Visit) -> None:
    client, database = visit()
    preview = MTURK | {"assignmentId": "ASSIGNMENT_ID_NOT_AVAILABLE"}
    for link in (preview, {"assignmentId": preview["assignmentId"], "hitId": "x"}):
        for ask in (client.get, client.post):
            answer = ask("/start", params=link)
            assert answer.status_code == 200
            assert ENTRY["preview"] in answer.text
            assert "<h3>What to do</h3>" in answer.text
            assert FRAMED in answer.headers["content-security-policy"]
    assert (count(database), forms_taken(database)) == (0, 0)


def test_a_worker_takes_a_place_only_by_the_button(visit: Visit) -> None:
    client, database = visit(participants=2)
    assert client.get("/start", params=MTURK | {"study": "other"}).status_code == 404
    asked = client.get("/start", params=MTURK | {"study": "telltale-study"})
    assert asked.status_code == 200
    assert ENTRY["hit_accepted"] in asked.text
    assert FRAMED in asked.headers["content-security-policy"]
    assert asked.headers["referrer-policy"] == "no-referrer"
    assert "set-cookie" not in asked.headers
    assert (count(database), forms_taken(database)) == (0, 0)
    refused = client.post("/start", params=MTURK, headers={"Sec-Fetch-Site": "cross-site"})
    assert (refused.status_code, count(database)) == (403, 0)
    begin(client, MTURK | {"study": "telltale-study"})
    assert the_participant(database).source == "mturk"
    assert the_hit(database) == ("3XYZ", "30H4", "https://www.mturk.com")
    refused = client.post("/start", params=MTURK | {"workerId": "another"})
    assert (refused.status_code, count(database), forms_taken(database)) == (409, 1, 1)
    # A worker who has not agreed yet may change the HIT, here to one of the sandbox.
    sandbox = {"turkSubmitTo": "https://workersandbox.mturk.com/", "assignmentId": "4ABC"}
    begin(client, MTURK | sandbox)
    assert the_hit(database) == ("4ABC", "30H4", "https://workersandbox.mturk.com")


def test_a_link_that_is_not_mechanical_turks_is_refused(visit: Visit) -> None:
    client, database = visit()
    addresses = ("", "http://www.mturk.com", "https://www.mturk.com.evil.example",
                 "https://evil.example/https://www.mturk.com", "https://www.mturk.com/other",
                 "javascript:alert(1)")  # fmt: skip
    wrong = [{"turkSubmitTo": address} for address in addresses]
    wrong += [{"assignmentId": ""}, {"assignmentId": "<script>"}, {"hitId": "a b"}]
    wrong += [{"workerId": ""}]
    for changes, ask in product(wrong, (client.get, client.post)):
        answer = ask("/start", params=MTURK | changes)
        assert answer.status_code == 400, changes
        assert "frame-ancestors 'self'" in answer.headers["content-security-policy"]
    assert count(database) == 0


def test_studies_that_do_not_name_mechanical_turk_are_not_framed(visit: Visit) -> None:
    client, database = visit(mode="prolific", completion_code="C1")
    assert client.get("/start", params=MTURK).status_code == 404
    arrived = client.get("/start", params=PROLIFIC)
    assert (arrived.status_code, COOKIE in client.cookies) == (303, True)
    for path in ("/", "/question", "/start", "/opening"):
        policy = client.get(path).headers["content-security-policy"]
        assert "frame-ancestors 'self'; base-uri 'self'; form-action 'self'" in policy
    assert count(database) == 1


@pytest.mark.parametrize(("status", "title"), [
    ("open", "places_taken_title"), ("closed", "places_taken_title"), ("paused", "paused_title"),
])  # fmt: skip
def test_who_comes_too_late_returns_the_hit(visit: Visit, status: str, title: str) -> None:
    client, database = visit(completion_code="C0DE")
    begin(client, MTURK | {"workerId": "first", "assignmentId": "of-first"})
    set_status(database, status)
    for ask in (client.get, client.post):
        late = ask("/start", params=MTURK)
        assert late.status_code == 410
        assert ENTRY[title] in late.text
        assert ENTRY["return_hit"] in late.text
        assert "C0DE" not in late.text
        assert FRAMED in late.headers["content-security-policy"]
    assert count(database) == 1


# --------------------------------------------------------------------------------------- tickets


def test_the_ticket_takes_the_place_of_the_cookie(visit: Visit) -> None:
    client, database = visit()
    root = begin(client)
    assert client.get("/question").status_code == 401
    client.cookies.set(COOKIE, "other")  # of another participation in this browser
    answer = client.get(f"{root}question")
    assert (answer.status_code, answer.json()["step"]) == (200, "consent")
    assert answer.headers["referrer-policy"] == "no-referrer"
    policy = answer.headers["content-security-policy"]
    assert f"frame-ancestors {SITES}; base-uri 'self'; form-action 'self' {SITES}" in policy
    for headers in ({"Sec-Fetch-Site": "cross-site"}, {"Origin": "https://worker.mturk.com"}):
        sent = client.post(f"{root}consent", json={"agrees": True}, headers=headers)
        assert sent.status_code == 403
    assert the_participant(database).consented_at is None


def test_a_ticket_opens_nothing_but_the_participants_page(visit: Visit) -> None:
    client, database = visit()
    root = begin(client)
    ticket = root.split("/")[2]
    text, signature = ticket.split(".")
    forged = signature[:-1] + ("0" if signature[-1] != "0" else "1")
    signed_cookie = Services.of(database).signer.sign(
        "participant", the_one(database, select(Participant.token_hash))
    )
    wrong = [
        *(f"{root}{path}" for path in ("", "owner/", "start", "framed/x", "healthz", "../owner/")),
        *(f"/framed/{each}/question" for each in (f"{text}.{forged}", f"x.{signature}")),
        f"/framed/{signed_cookie}/question",
        "/framed/",
    ]
    for address in wrong:
        answer = client.get(address)
        assert answer.status_code == 404, address
        assert "frame-ancestors 'self'" in answer.headers["content-security-policy"]
    assert client.post(f"{root}enrol", data={"study": 1}).status_code == 405
    with database.writing() as session:
        owner.forget(session, session.scalars(select(Participant)).one())
    assert client.get(f"{root}question").status_code == 401


# ------------------------------------------------------------------------------------------ HITs


def test_the_last_page_sends_the_hit(visit: Visit) -> None:
    client, database = visit(completion_code="C0DE", participants=0)
    done = answer_all(client, begin(client))
    assert done["step"] == "done"
    assert done["hit"] == {
        "action": "https://www.mturk.com/mturk/externalSubmit",
        "fields": {"assignmentId": "3XYZ", "outcome": "done", "completionCode": "C0DE"},
    }
    assert not {"code", "url"} & done.keys()
    set_recruitment(database, completion_code="", declined_code="N0")
    fields = answer_all(client, begin(client, ANOTHER))["hit"]["fields"]
    assert fields == {"assignmentId": "of-another", "outcome": "done"}
    root = begin(client, MTURK | {"workerId": "third", "assignmentId": "5DEF"})
    declined = client.post(f"{root}consent", json={"agrees": False}).json()
    fields = {"assignmentId": "5DEF", "outcome": "declined", "completionCode": "N0"}
    assert declined["hit"]["fields"] == fields


ANOTHER = MTURK | {"workerId": "another", "assignmentId": "of-another"}


def set_recruitment(database: Database, **changes: object) -> None:
    with database.writing() as session:
        study = session.scalars(select(Study)).one()
        recruitment = study.design["recruitment"] | changes
        study.design = study.design | {"recruitment": recruitment}


def test_a_worker_goes_on_with_another_hit_until_the_end(visit: Visit) -> None:
    client, database = visit()
    first, second = MTURK, MTURK | {"assignmentId": "4ABC", "hitId": "41J5"}
    root = begin(client, first)
    client.post(f"{root}consent", json={"agrees": True})
    assert client.get("/start", params=first).status_code == 303
    asked = client.get("/start", params=second)
    assert (asked.status_code, ENTRY["hit_accepted"] in asked.text) == (200, True)
    assert 'localStorage.getItem("hsfiq.ticket")' in asked.text
    again = client.post("/start", params=second | {"ticket": root.split("/")[2]})
    assert (again.status_code, f"/{again.headers['location']}") == (303, f"{root}study/")
    assert the_hit(database)[:2] == ("4ABC", "41J5")
    assert answer_all(client, root)["hit"]["fields"]["assignmentId"] == "4ABC"
    assert client.get("/start", params=second).status_code == 303
    refused = client.post("/start", params=first)
    assert refused.status_code == 409
    assert ENTRY["hit_refused_title"] in refused.text
    assert ENTRY["return_hit"] in refused.text
    assert FRAMED in refused.headers["content-security-policy"]
    assert the_hit(database)[0] == "4ABC"
    assert count(database) == 1


def test_a_workers_id_alone_opens_no_participation(visit: Visit) -> None:
    """Others may know it, but neither the assignment nor the ticket of the worker's page."""
    client, database = visit(participants=2)
    root = begin(client)
    client.post(f"{root}consent", json={"agrees": True})
    other = begin(client, ANOTHER)
    guessed = MTURK | {"assignmentId": "invented", "hitId": "invented"}
    tickets = ["", "x", other.split("/")[2], f"{root.split('/')[2]}x"]
    for link in (guessed | {"ticket": ticket} for ticket in tickets):
        asked = client.get("/start", params=link)
        assert (asked.status_code, "location" in asked.headers) == (200, False)
        refused = client.post("/start", params=link)
        assert (refused.status_code, "location" in refused.headers) == (409, False)
        assert ENTRY["hit_changed_title"] in refused.text
        assert FRAMED in refused.headers["content-security-policy"]
    worked = all_of(database, select(WorkedHit.assignment_id))
    assert sorted(worked) == ["3XYZ", "of-another"]


def test_who_declines_returns_the_hit_and_frees_the_place(visit: Visit) -> None:
    client, database = visit()
    declined = client.post(f"{begin(client)}consent", json={"agrees": False}).json()
    assert (declined["kind"], declined["hit"]) == ("declined", None)
    assert answer_all(client, begin(client, ANOTHER))["step"] == "done"
    assert client.post("/start", params=MTURK | {"assignmentId": "5DEF"}).status_code == 409
    assert count(database) == 2


def test_workers_from_before_hits_were_kept_see_the_code(visit: Visit) -> None:
    client, database = visit(completion_code="C0DE")
    root = begin(client)
    with database.writing() as session:
        session.delete(session.scalars(select(WorkedHit)).one())
    done = answer_all(client, root)
    assert (done["code"], "hit" in done) == ("C0DE", False)


def test_a_forgotten_worker_may_come_again(visit: Visit) -> None:
    client, database = visit(participants=0)
    begin(client)
    with database.writing() as session:
        owner.forget(session, session.scalars(select(Participant)).one())
        assert session.scalars(select(WorkedHit)).all() == []
    begin(client)
    assert count(database) == 2


def test_who_may_not_enrol_is_told_so_in_the_frame(visit: Visit) -> None:
    client, database = visit(participants=0, enrolments_per_address=1)
    begin(client)
    refused = client.post("/start", params=ANOTHER)
    assert (refused.status_code, "retry-after" in refused.headers) == (429, True)
    assert ENTRY["too_many_title"] in refused.text
    assert FRAMED in refused.headers["content-security-policy"]
    with database.writing() as session:
        allow_people(session, session.scalars(select(Study)).one(), ["other"])
    refused = client.post("/start", params=ANOTHER)
    assert refused.status_code == 403
    assert ENTRY["not_invited_title"] in refused.text
    assert FRAMED in refused.headers["content-security-policy"]
    assert count(database) == 1


def test_a_worker_withdraws_in_the_frame(visit: Visit) -> None:
    client, database = visit()
    root = begin(client)
    read = client.get(f"{root}withdrawal").json()
    assert read["payment"] == "mturk"
    confirmed = client.post(f"{root}withdrawal", json={"assignment": read["assignment"]})
    assert confirmed.status_code == 200
    assert client.get(f"{root}question").status_code == 401
    assert all_of(database, select(WorkedHit)) == []


FRAME = """<!doctype html><title>worker</title>
<iframe src="{url}" width="1200" height="900" style="border:0"></iframe>"""

SENT = '<!doctype html><p id="sent">sent</p>'


class Site(ThreadingHTTPServer):
    """`frames` is the address that it frames, `received` what was sent to it, by host and path."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.framed = ""
        self.received: list[tuple[str, dict[str, list[str]]]] = []
        self.referrers: list[str | None] = []


class Handler(BaseHTTPRequestHandler):
    server: Site

    def do_GET(self) -> None:
        is_task = self.path == "/task"
        self.answer(200, FRAME.format(url=escape(self.server.framed)) if is_task else SENT)

    def do_POST(self) -> None:
        """Store the form, and lead the worker on, on the site for workers."""
        body = self.rfile.read(int(self.headers["content-length"])).decode()
        address = f"{self.headers['host']}{self.path}"
        self.server.received.append((address, parse_qs(body)))
        self.server.referrers.append(self.headers["referer"])
        self.answer(302, "", location="https://worker.mturk.com/next")

    def answer(self, status: int, page: str, **headers: str) -> None:
        content = page.encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("content-type", "text/html")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_words: object) -> None:
        pass


@contextmanager
def mechanical_turk(certificate: Path) -> Iterator[Site]:
    """The site over TLS, on a port of this machine."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate / "study.pem", certificate / "study.key")
    with Site() as site:
        site.socket = context.wrap_socket(site.socket, server_side=True)
        thread = threading.Thread(target=site.serve_forever)
        thread.start()
        try:
            yield site
        finally:
            site.shutdown()
            thread.join()


STUDY = "https://study.example.org"
PROXY = SERVER.format(location="location / { proxy_pass http://127.0.0.1:7860; }")


@dataclass
class Workplace:
    site: Site
    database: Database
    page: Page
    requests: list[Request]

    def open(self, task: str = "https://worker.mturk.com", **changes: str) -> None:
        """Show the study in the frame of a worker's task."""
        self.site.framed = f"{STUDY}/start?{urlencode(MTURK | changes)}"
        self.page.goto(f"{task}/task")

    @property
    def frame(self) -> FrameLocator:
        return self.page.frame_locator("iframe")

    def begin(self) -> None:
        self.frame.get_by_role("button", name=entry_texts("en")["begin"]).click()

    def answer(self, count: str) -> None:
        """Answer the question at which the page shows this count."""
        expect(self.frame.locator(".page")).to_have_attribute("data-view", "question")
        expect(self.frame.locator(".count")).to_have_text(count)
        expect(self.frame.locator(".next.waiting")).to_have_count(0)
        for key in ("4", "Shift+Digit2", "q", "Enter"):
            self.frame.locator(".page .main").press(key)


def send_no_cookies_to_frames(page: Page) -> None:
    """As browsers do whose users block the cookies of third parties."""
    options = ("disableThirdPartyCookieMetadata", "disableThirdPartyCookieHeuristics")
    tools = page.context.new_cdp_session(page)
    tools.send("Network.enable")
    tools.send(
        "Network.setCookieControls",
        {"enableThirdPartyCookieRestriction": True, **dict.fromkeys(options, True)},
    )


@pytest.fixture
def workplace(place: Place, tmp_path: Path, chromium: Browser) -> Iterator[Workplace]:
    """A study over TLS, and the site that frames it: each under its real name in Chromium."""
    recruitment = {"mode": "mturk", "completion_code": "C0DE"}
    design = {"questions_per_form": 2, "forms_per_participant": 1}
    database = make_study(place, recruitment=recruitment, **design)
    make_certificate(tmp_path)
    with ExitStack() as stack:
        site = stack.enter_context(mechanical_turk(tmp_path))
        app = build_app(database, public=parsed_url(STUDY, "--public-url"))
        server = ThreadServer(place, database, app)
        server.start()
        stack.callback(server.stop)
        port = free_port()
        stack.enter_context(nginx(tmp_path, tmp_path, PROXY, server.url, port))
        rules = (
            f"MAP *.mturk.com 127.0.0.1:{site.server_port}, MAP study.example.org 127.0.0.1:{port}"
        )
        flags = [*QUIET, f"--host-resolver-rules={rules}", "--ignore-certificate-errors"]
        browser = chromium.browser_type.launch(executable_path=installed_chromium(), args=flags)
        stack.callback(browser.close)
        context = new_context_of(browser)
        page = context.new_page()
        send_no_cookies_to_frames(page)
        requests: list[Request] = []
        page.on("request", lambda request: requests.extend([request]))
        yield Workplace(site, database, page, requests)
        context.close()


def test_a_worker_answers_everything_and_the_hit_is_sent(workplace: Workplace) -> None:
    page, frame, database = workplace.page, workplace.frame, workplace.database
    # A cookie of the study that would be sent if the frame were not of another site.
    page.context.add_cookies([
        {"name": "third", "value": "x", "url": STUDY, "sameSite": "None", "secure": True}
    ])  # fmt: skip
    workplace.open(assignmentId="ASSIGNMENT_ID_NOT_AVAILABLE")
    expect(frame.get_by_text(entry_texts("en")["preview"])).to_be_visible()
    workplace.open()
    expect(frame.get_by_text(entry_texts("en")["hit_accepted"])).to_be_visible()
    assert (count(database), forms_taken(database)) == (0, 0)
    workplace.begin()
    frame.locator(".agree").click()
    expect(frame.locator(".page")).to_have_attribute("data-view", "practice")
    workplace.open(assignmentId="4ABC")  # with another HIT in the same browser
    workplace.begin()
    expect(frame.locator(".page")).to_have_attribute("data-view", "practice")
    with database.writing() as session:
        person = session.scalars(select(Participant)).one()
        person.practised_at = person.created_at
    page.reload()
    workplace.answer("1 / 2")
    expect(frame.locator(".count")).to_have_text("2 / 2")
    page.reload()  # the link again, with the same ids: the worker goes on
    workplace.answer("2 / 2")
    expect(frame.locator(".page")).to_have_attribute("data-step", "done")
    assert len(stored(database)) == 2
    expect(frame.get_by_text(TEXT["send_hit_note"])).to_be_visible()
    expect(frame.locator(".stored")).to_be_hidden()
    frame.get_by_role("button", name=TEXT["send_hit"]).click()
    expect(frame.locator("#sent")).to_be_visible()
    fields = {"assignmentId": ["4ABC"], "outcome": ["done"], "completionCode": ["C0DE"]}
    assert workplace.site.received == [("www.mturk.com/mturk/externalSubmit", fields)]
    assert workplace.site.referrers == [None]
    assert the_hit(database) == ("4ABC", "30H4", "https://www.mturk.com")
    to_study = [each for each in workplace.requests if each.url.startswith(STUDY)]
    assert len(to_study) > 20
    assert not [each.url for each in to_study if "cookie" in each.all_headers()]
    assert {cookie["name"] for cookie in page.context.cookies()} == {"third"}
