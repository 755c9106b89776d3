"""Participants withdraw on their page, and the owner sees that."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from playwright.sync_api import Page, expect
from sqlalchemy import select

from hsfiq.collect.progress import participants_of
from hsfiq.db.engine import Database
from hsfiq.db.tables import AuditEntry, Participant, Response, Study
from tests.annotate.enrolment.visits import PROLIFIC, change, the_participant
from tests.annotate.page_requests import answer_body, answer_until, begin_form, stored, view
from tests.annotate.question_page import TEXT, OpenPage, answer, expect_step, tab_to
from tests.annotate.served_studies import (
    Place,
    ThreadServer,
    Visit,
    all_of,
    browser_of,
    enrol,
    set_status,
)
from tests.hsfiq.samples import hsfiq


def withdraw(client: TestClient, root: str = "/") -> dict[str, Any]:
    """Read what withdrawing means, and confirm; what was read."""
    read: dict[str, Any] = client.get(f"{root}withdrawal").json()
    confirmed = client.post(f"{root}withdrawal", json={"assignment": read["assignment"]})
    assert (confirmed.status_code, confirmed.json()) == (200, {})
    return read


def standings(database: Database) -> list[str]:
    with database.reading() as session:
        study = session.scalars(select(Study)).one()
        return [person.standing for person in participants_of(session, study)]


def test_withdrawing_deletes_everything_and_the_owner_sees_it(
    annotator: TestClient, database: Database
) -> None:
    annotator.post("/submit", json=answer_body(view(annotator)))
    annotator.post("/submit", json=answer_body(view(annotator), "another-key-1234"))
    read = withdraw(annotator)
    assert (read["name"], read["answers"], read["releases"], read["payment"]) == ("p1", 2, [], None)
    assert stored(database) == []
    person = the_participant(database)
    assert (person.status, person.consented_at, person.seen_at) == ("returned", None, None)
    assert annotator.get("/question").status_code == 401
    assert standings(database) == ["withdrew"]
    (entry,) = all_of(database, select(AuditEntry))
    told = (entry.actor, entry.action, entry.about)
    assert told == ("participant p1", "participant.withdraw", "p1")
    url = database.engine.url.render_as_string(hide_password=False)
    (_, row) = hsfiq("participant", "list", "--database", url).out.splitlines()
    assert row.split()[:2] == ["p1", "withdrew"]
    assert "participants withdrew: 1" in hsfiq("study", "status", "--database", url).out
    hsfiq("participant", "forget", "p1", "--yes", "--database", url)
    assert standings(database) == ["withdrew"]


@pytest.mark.parametrize("status", ["paused", "excluded", "returned", "screened-out"])
def test_people_who_may_not_answer_can_withdraw(
    annotator: TestClient, database: Database, status: str
) -> None:
    annotator.post("/submit", json=answer_body(view(annotator)))
    change(database, status)
    withdraw(annotator)
    assert (stored(database), standings(database)) == ([], ["withdrew"])


@pytest.mark.parametrize("status", ["paused", "closed"])
def test_people_can_withdraw_from_a_study_that_takes_no_answers(
    annotator: TestClient, database: Database, status: str
) -> None:
    answer_until(annotator, "done")
    set_status(database, status)
    withdraw(annotator)
    assert (stored(database), standings(database)) == ([], ["withdrew"])


def test_a_repeated_request_deletes_nobody_else(annotator: TestClient, database: Database) -> None:
    """The first reply may be lost, and the browser may have another participant."""
    annotator.post("/enrol", data=begin_form(annotator, different="true"))
    annotator.post("/continue", data={"participant": 1})
    assignment = annotator.get("/withdrawal").json()["assignment"]
    for _ in range(2):
        assert annotator.post("/withdrawal", json={"assignment": assignment}).status_code == 200
    assert standings(database) == ["withdrew", "active"]
    assert view(annotator)["step"] == "consent"


def test_nobody_can_withdraw_somebody_else(
    annotator: TestClient, app: FastAPI, database: Database
) -> None:
    other = enrol(browser_of(app), database)
    assignment = other.get("/withdrawal").json()["assignment"]
    for wrong in (assignment, f"{assignment}0", view(annotator)["assignment"]):
        answer = annotator.post("/withdrawal", json={"assignment": wrong})
        assert answer.status_code == 403
    assert standings(database) == ["active", "active"]


def test_the_releases_with_the_answers_are_named(visit: Visit, place: Place) -> None:
    """What was exported is on other people's disks."""
    client, database = visit()
    answer_until(enrol(client, database), "done")
    out = str(place.folder / "releases")
    assert hsfiq("export", "--database", place.url, "--out", out).code == 0
    releases = withdraw(client)["releases"]
    assert [release["version"] for release in releases] == ["1.0.0", "1.0.0"]
    assert all(release["name"].startswith("telltale-study") for release in releases)


@pytest.mark.parametrize(("recruitment", "link", "payment"), [
    ({"mode": "prolific"}, PROLIFIC, "prolific"),
    ({"completion_code": "CODE"}, None, "code"),
    ({}, None, None),
])  # fmt: skip
def test_what_it_means_for_payment(
    visit: Visit, recruitment: dict[str, str], link: dict[str, str] | None, payment: str | None
) -> None:
    client, database = visit(recruitment=recruitment)
    if link:
        client.get("/start", params=link)
    else:
        enrol(client, database)
    assert withdraw(client)["payment"] == payment
    assert all_of(database, select(Participant.external_id)) == [None]


# ---------------------------------------------------------------------------------- the browser


def read_and_cancel(page: Any) -> None:
    """Nothing is deleted by a key that continues elsewhere, or by Escape."""
    dialog = page.get_by_role("dialog", name=TEXT["withdraw_title"])
    expect(dialog).to_contain_text(TEXT["withdraw_no_release"])
    page.keyboard.press("Enter")
    page.keyboard.press("Space")
    expect(dialog).to_be_visible()
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()


@pytest.mark.browser
def test_withdrawing_by_keyboard_from_the_guidelines(page: Page, server: ThreadServer) -> None:
    answer(page)
    expect_step(page, "question", "2 / 6")
    page.keyboard.press("3")
    for is_meant in (False, True):
        page.keyboard.press("?")
        tab_to(page, ".guidelines .open-withdrawal")
        page.keyboard.press("Enter")
        if not is_meant:
            read_and_cancel(page)
            expect_step(page, "question", "2 / 6")
    deleted = TEXT["withdraw_deletes"].format(answers=1)
    expect(page.locator(".withdrawal-text")).to_contain_text(deleted)
    tab_to(page, ".confirm-withdrawal")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name=TEXT["withdrawn_title"])).to_be_focused()
    expect(page.locator(".live")).to_contain_text(TEXT["withdrawn"])
    page.go_back()
    expect(page.locator(".withdrawn")).to_be_visible()
    assert page.evaluate("JSON.stringify(sessionStorage)").count("hsfiq draft") == 0
    assert all_of(server.database, select(Response)) == []


@pytest.mark.browser
def test_withdrawing_by_touch_at_the_end(server: ThreadServer, open_page: OpenPage) -> None:
    page = open_page(server, 390, 844, has_touch=True, is_mobile=True)
    set_status(server.database, "closed")
    page.reload()
    expect_step(page, "farewell", "")
    page.locator(".farewell .open-withdrawal").tap()
    page.locator(".withdrawal .close").tap()
    page.locator(".farewell .open-withdrawal").tap()
    page.locator(".confirm-withdrawal").tap()
    expect(page.get_by_role("heading", name=TEXT["withdrawn_title"])).to_be_visible()
    assert standings(server.database) == ["withdrew"]


@pytest.mark.browser
def test_a_withdrawal_whose_reply_is_lost_is_repeated(page: Page) -> None:

    def deliver_but_hang_up(route: Any) -> None:
        if route.request.method == "POST":
            route.fetch()
            route.abort()
        else:
            route.continue_()

    page.route("**/withdrawal", deliver_but_hang_up)
    page.locator(".open-guidelines").click()
    page.locator(".guidelines .open-withdrawal").click()
    page.locator(".confirm-withdrawal").click()
    page.locator(".notice-action").wait_for()
    page.unroute("**/withdrawal")
    page.locator(".notice-action").click()
    expect(page.get_by_role("heading", name=TEXT["withdrawn_title"])).to_be_visible()
