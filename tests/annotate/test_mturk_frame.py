"""A worker in Chromium: the study in a frame of Mechanical Turk, without a cookie."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Browser, FrameLocator, Page, Request, expect
from sqlalchemy import select

from hsfiq.annotate.app import build_app
from hsfiq.annotate.texts import entry_texts
from hsfiq.collect import participants
from hsfiq.db.engine import Database
from hsfiq.db.tables import Form, Participant, WorkedHit
from hsfiq.public_url import parsed_url
from tests.annotate.mturk_site import Site, mechanical_turk
from tests.annotate.page_requests import stored
from tests.annotate.question_page import TEXT
from tests.annotate.served_studies import Place, ThreadServer, make_study
from tests.annotate.serving.proxies import SERVER, free_port, make_certificate, nginx
from tests.browser import new_context_of
from tests.conftest import QUIET, installed_chromium

STUDY = "https://study.example.org"
PROXY = SERVER.format(location="location / { proxy_pass http://127.0.0.1:7860; }")
IDS = {"workerId": "A1B2C3D4E5", "assignmentId": "3XYZ", "hitId": "30H4"}
PRODUCTION, SANDBOX = "https://www.mturk.com", "https://workersandbox.mturk.com"


@dataclass
class Workplace:
    site: Site
    database: Database
    page: Page
    requests: list[Request]

    def open(self, task: str = "https://worker.mturk.com", **changes: str) -> None:
        """Show the study in the frame of a worker's task."""
        parameters = {**IDS, "turkSubmitTo": PRODUCTION, **changes}
        self.site.framed = f"{STUDY}/start?{urlencode(parameters)}"
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

        def remember(request: Request) -> None:
            requests.append(request)

        page.on("request", remember)
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
    with database.reading() as session:
        assert session.scalars(select(Participant)).all() == []
        assert session.scalars(select(Form).where(Form.participant_id.is_not(None))).all() == []
    workplace.begin()
    frame.locator(".agree").click()
    expect(frame.locator(".page")).to_have_attribute("data-view", "practice")
    with database.writing() as session:
        person = session.scalars(select(Participant)).one()
        participants.finish_practice(person, now=person.created_at)
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
    fields = {"assignmentId": ["3XYZ"], "outcome": ["done"], "completionCode": ["C0DE"]}
    assert workplace.site.received == [("www.mturk.com/mturk/externalSubmit", fields)]
    assert workplace.site.referrers == [None]
    with database.reading() as session:
        hit = session.scalars(select(WorkedHit)).one()
        assert (hit.assignment_id, hit.hit_id, hit.submit_to) == ("3XYZ", "30H4", PRODUCTION)
    to_study = [each for each in workplace.requests if each.url.startswith(STUDY)]
    assert len(to_study) > 20
    assert not [each.url for each in to_study if "cookie" in each.all_headers()]
    assert {cookie["name"] for cookie in page.context.cookies()} == {"third"}


def test_a_worker_goes_on_with_another_hit_in_the_same_browser(workplace: Workplace) -> None:
    frame, database = workplace.frame, workplace.database
    workplace.open()
    workplace.begin()
    frame.locator(".agree").click()
    expect(frame.locator(".page")).to_have_attribute("data-view", "practice")
    workplace.open(assignmentId="4ABC")
    workplace.begin()
    expect(frame.locator(".page")).to_have_attribute("data-view", "practice")
    with database.reading() as session:
        assert session.scalars(select(WorkedHit.assignment_id)).all() == ["4ABC"]
