"""People whom a panel sends by a link with ids, and takes back by an address with them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from fastapi.testclient import TestClient
from playwright.sync_api import BrowserContext, Route, expect
from sqlalchemy import select

from hsfiq.annotate.texts import entry_texts
from hsfiq.collect.places import allow_people
from hsfiq.db.engine import Database
from hsfiq.db.tables import Study
from hsfiq.study.config import Checks
from hsfiq.study.recruiting import Panel
from tests.annotate.enrolment.visits import MTURK, PROLIFIC, change, the_participant
from tests.annotate.page_requests import answer_until, view
from tests.annotate.question_page import TEXT
from tests.annotate.served_studies import (
    Place,
    ServeStudy,
    Visit,
    count,
    set_status,
    the_one,
)

ENTRY = entry_texts("en")
PANEL = Panel(
    name="CloudResearch <Connect>",
    person="participantId",
    study="projectId",
    session="assignmentId",
    complete="https://panel.test/{study}/complete?visit={session}",
    screen_out="https://panel.test/out?who={person}",
    quota_full="https://panel.test/full?who={person}",
)
LINK = {
    "study": "telltale-study",
    "participantId": "telltale-person",
    "projectId": "P7",
    "assignmentId": "telltale-visit",
}
ANOTHER = LINK | {"participantId": "another"}
RECRUITMENT = {"mode": "panel", "panel": PANEL}


def ids(database: Database) -> tuple[str | None, ...]:
    person = the_participant(database)
    return person.external_id, person.platform_study_id, person.platform_session_id


def arrive(client: TestClient, link: dict[str, str] = LINK) -> None:
    client.cookies.clear()
    answer = client.get("/start", params=link)
    assert (answer.status_code, answer.headers["location"]) == (303, "study/"), answer.text


def test_who_comes_twice_continues_and_returns_with_the_latest_visit(visit: Visit) -> None:
    client, database = visit(recruitment=RECRUITMENT)
    arrive(client)
    assert ids(database) == ("telltale-person", "P7", "telltale-visit")
    assert the_participant(database).source == "panel"
    arrive(
        client, LINK | {"assignmentId": "second", "unknown": "x", "complete": "https://evil.test"}
    )
    assert (count(database), ids(database)) == (1, ("telltale-person", "P7", "second"))
    client.post("/consent", json={"agrees": True})
    client.post("/practice", json={})
    done = answer_until(client, "done")
    assert (done["code"], done["url"]) == ("", "https://panel.test/P7/complete?visit=second")
    # A panel may pay for each visit, so a later one cannot be completed without any answer.
    arrive(client, LINK | {"assignmentId": "third"})
    assert view(client)["url"] == done["url"]
    assert ids(database) == ("telltale-person", "P7", "second")


def test_ids_that_no_address_needs_are_neither_stored_nor_asked_for(
    visit: Visit, place: Place
) -> None:
    panel = replace(PANEL, complete="https://panel.test/done?who={person}")
    client, database = visit(recruitment={"mode": "panel", "panel": panel})
    arrive(client)
    assert ids(database) == ("telltale-person", None, None)
    arrive(client, {"study": "telltale-study", "participantId": "telltale-person"})
    consent = view(client)["text"]
    stored = ENTRY["panel_id_stored"].format(platform=PANEL.name, ids=ENTRY["panel_person_id"])
    assert stored.replace("<", "&lt;").replace(">", "&gt;") in consent
    assert ENTRY["panel_session_id"] not in consent
    database.close()
    assert b"telltale-visit" not in place.file.read_bytes()


@pytest.mark.parametrize("language", ["en", "ko"])
@pytest.mark.parametrize("change", [
    *({name: None} for name in ("participantId", "assignmentId", "projectId")),
    *({"participantId": each} for each in ("", "a b", "a" * 65, "%SURVEY_CODE%")),
    *({"assignmentId": each} for each in ("x&cc=1", "x#y", "a\r\nLocation: https://evil.test")),
    *({"projectId": each} for each in ("../../evil", "\N{DRESS}", "https://evil.test/")),
])  # fmt: skip
def test_a_missing_or_hostile_id_is_refused_in_plain_words(
    visit: Visit, change: dict[str, str | None], language: str
) -> None:
    client, database = visit(recruitment=RECRUITMENT)
    link = {name: value for name, value in (LINK | change).items() if value is not None}
    answer = client.get("/start", params=link, headers={"Accept-Language": language})
    text = entry_texts(language)["on_platform"].format(platform=PANEL.name)
    assert answer.status_code == 400
    assert text.replace("<", "&lt;").replace(">", "&gt;") in answer.text
    assert "evil" not in answer.text
    assert count(database) == 0


def test_other_links_do_not_enter_a_study_with_a_panel(visit: Visit) -> None:
    client, database = visit(recruitment=RECRUITMENT)
    without_study = {name: value for name, value in LINK.items() if name != "study"}
    for link, status in (
        (without_study, 400),
        (PROLIFIC, 404),
        (MTURK, 404),
        (PROLIFIC | {"study": "telltale-study"}, 400),
        (LINK | {"study": "other"}, 400),
        *((LINK | {"study": each}, 400) for each in ("../x", "a\0b", "a" * 500, "\N{DRESS}")),
    ):
        assert client.get("/start", params=link).status_code == status, link
    assert f"Begin on {PANEL.name.split()[0]}" in client.get("/").text
    assert client.post("/enrol", data={"study": 1}).status_code == 410
    assert count(database) == 0
    with database.writing() as session:
        allow_people(session, session.scalars(select(Study)).one(), ["another"])
    assert client.get("/start", params=LINK).status_code == 403
    arrive(client, ANOTHER)


@pytest.mark.parametrize(("mode", "link"), [("prolific", PROLIFIC), ("panel", LINK)])
@pytest.mark.parametrize("language", ["en", "ko"])
def test_nothing_is_said_of_other_platforms(
    visit: Visit, mode: str, link: dict[str, str], language: str
) -> None:
    """Also beside the owner's own consent."""
    presentation = {"languages": (language,), "consent": "I take part."}
    recruitment = {"mode": mode, "panel": PANEL if mode == "panel" else None, "participants": 1}
    client, _ = visit(recruitment=recruitment, presentation=presentation)
    pages = [client.get("/").text]
    arrive(client, link)
    pages.append(view(client)["text"])
    client.cookies.clear()
    person = {"PROLIFIC_PID": "another", "participantId": "another"}
    pages.append(client.get("/start", params=link | person).text)
    name = {"prolific": "Prolific", "panel": "CloudResearch &lt;Connect&gt;"}[mode]
    others = {"prolific": "CloudResearch", "panel": "Prolific"}[mode]
    assert all(name in page for page in pages[:2])
    for word in ("HIT", "Mechanical Turk", others):
        assert not any(word in page for page in pages)


def test_who_declines_or_is_screened_out_goes_back_with_the_id(visit: Visit) -> None:
    client, database = visit(recruitment=RECRUITMENT | {"completion_code": "C0DE"})
    arrive(client)
    declined = client.post("/consent", json={"agrees": False}).json()
    address = "https://panel.test/out?who=telltale-person"
    assert (declined["kind"], declined["code"], declined["url"]) == ("declined", "", address)
    change(database, "screened-out")
    assert view(client)["url"] == address


def test_who_comes_too_late_goes_back_without_a_code(visit: Visit) -> None:
    """The usual code or address would say that the study was completed."""
    recruitment = RECRUITMENT | {"participants": 1, "completion_code": "C0DE"}
    client, database = visit(recruitment=recruitment)
    arrive(client)
    client.cookies.clear()
    for _ in ("full", "closed"):
        late = client.get("/start", params=ANOTHER)
        assert (late.status_code, "C0DE" in late.text) == (410, False)
        assert 'href="https://panel.test/full?who=another"' in late.text
        set_status(database, "closed")
    set_status(database, "paused")
    assert "panel.test" not in client.get("/start", params=ANOTHER).text
    assert count(database) == 1


@pytest.mark.parametrize(("own", "code", "url"), [
    ({}, "", "https://panel.test/P7/complete?visit=telltale-visit"),
    ({"failed_checks": "https://panel.test/{person}"}, "", "https://panel.test/telltale-person"),
    ({"failed_checks_code": "FA1L"}, "FA1L", ""),
])  # fmt: skip
def test_who_fails_the_checks(visit: Visit, own: dict[str, str], code: str, url: str) -> None:
    panel = replace(PANEL, failed_checks=own.pop("failed_checks", ""))
    rule: dict[str, Any] = {"max_failed_checks": 0, "panel": panel, **own}
    checks = Checks(arithmetic=False, repeated=1)
    client, _ = visit(recruitment=RECRUITMENT | rule, checks=checks, forms_per_participant=1)
    arrive(client)
    client.post("/consent", json={"agrees": True})
    client.post("/practice", json={})
    # The repeated question shows the sets in the other order, so the same answer contradicts it.
    done = answer_until(client, "done")
    assert (done["code"], done["url"]) == (code, url)


def test_withdrawing_deletes_the_ids_and_names_the_panel(visit: Visit) -> None:
    client, database = visit(recruitment=RECRUITMENT)
    arrive(client)
    read = client.get("/withdrawal").json()
    assert (read["payment"], read["platform"]) == ("panel", PANEL.name)
    client.post("/withdrawal", json={"assignment": read["assignment"]})
    assert ids(database) == (None, None, None)


def test_somebody_with_a_personal_link_is_sent_to_no_panel(visit: Visit) -> None:
    client, database = visit(recruitment=RECRUITMENT)
    arrive(client)
    with database.writing() as session:
        person = session.merge(the_participant(database))
        person.source, person.platform_session_id = "invitation", None
    client.post("/consent", json={"agrees": True})
    client.post("/practice", json={})
    assert answer_until(client, "done")["url"] == ""


@pytest.mark.browser
def test_the_last_page_leads_back_to_the_panel(
    serve_study: ServeStudy, context: BrowserContext
) -> None:
    """A visit in Chromium, from the panel's link to its address."""
    server, page = serve_study(recruitment=RECRUITMENT), context.new_page()
    asked: list[str] = []

    def at_panel(route: Route) -> None:
        asked.append(route.request.url)
        route.fulfill(body="back")

    page.route("https://panel.test/**", at_panel)
    page.goto(f"{server.url}/start?{urlencode(LINK)}")
    expect(page.locator(".page")).to_have_attribute("data-step", "consent")
    assert "HIT" not in page.locator("body").inner_text()
    page.locator(".decline").click()
    page.locator(".leave").click()
    page.get_by_role("link", name=TEXT["finish"]).click()
    expect(page.locator("body")).to_have_text("back")
    parts = urlsplit(asked[0])
    assert (parts.netloc, parts.path) == ("panel.test", "/out")
    assert parse_qs(parts.query) == {"who": ["telltale-person"]}
    assert the_one(server.database, select(Study.status)) == "open"
