"""The owner's preview: what an annotator sees, with the database left as it was."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from playwright.sync_api import BrowserContext, expect
from sqlalchemy import select

from hsfiq.annotate.app import plain_app
from hsfiq.annotate.cookies import signer_of
from hsfiq.annotate.handlers import Services
from hsfiq.annotate.preview import add_preview_routes, new_preview, preview_path
from hsfiq.collect.studies import list_studies
from hsfiq.db.engine import Database
from hsfiq.db.tables import METADATA
from tests.annotate.page_requests import answer_body, check_body, judged_body, stored, view
from tests.annotate.question_page import TEXT, answer, expect_step, press
from tests.annotate.served_studies import (
    Place,
    PlaceOfKind,
    ThreadServer,
    begin,
    browser_of,
    make_study,
    set_status,
)
from tests.hsfiq.samples import on_sqlite

JUDGEMENTS: dict[str, dict[str, object]] = {
    "single": {"score": 3},
    "ranking": {"ranks": [2, 1, 3]},
    "images": {"relevance": [0, 1, 0, 1, 1]},
    "query": {"verdict": "VALIDATED"},
}


def everything(database: Database) -> dict[str, list[tuple[Any, ...]]]:
    """Every row of every table."""
    with database.reading() as session:
        return {
            table.name: sorted((tuple(row) for row in session.execute(select(table))), key=repr)
            for table in METADATA.sorted_tables
        }


def link_to(database: Database, hours: float = 1) -> str:
    with database.reading() as session:
        place = new_preview(session, list_studies(session)[0], hours)
    return preview_path(Services.of(database).signer, place)


class PreviewBrowser:
    """A browser that has opened a preview."""

    def __init__(self, client: TestClient, link: str) -> None:
        self.client = client
        opened = client.get(link)
        assert (opened.status_code, opened.headers["location"]) == (303, "../study/")

    def view(self, number: int | None = None) -> dict[str, Any]:
        path = "/preview/question" if number is None else f"/preview/question/{number}"
        content: dict[str, Any] = self.client.get(path).json()
        return content

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        reply = self.client.post(f"/preview/{path}", json=body)
        assert reply.status_code == 200, reply.text
        content: dict[str, Any] = reply.json()
        return content


@pytest.fixture
def place(tmp_path: Path, database_url: str) -> PlaceOfKind:
    return PlaceOfKind(tmp_path / "study", database_url)


@pytest.fixture
def preview_database(place: PlaceOfKind) -> Iterator[Database]:
    database = make_study(
        place, recruitment={"completion_code": "THANKS"}, reason_every=4, image_order="shuffled"
    )
    yield database
    database.close()


def client_of(database: Database) -> TestClient:
    services = Services.of(database)
    app = plain_app(services)
    add_preview_routes(app, services)
    return browser_of(app)


@pytest.mark.parametrize("status", ["open", "draft"])
def test_a_preview_shows_every_page_and_changes_nothing(
    preview_database: Database, status: str
) -> None:
    set_status(preview_database, status)
    client = client_of(preview_database)
    before = everything(preview_database)
    browser = PreviewBrowser(client, link_to(preview_database))
    assert browser.view()["step"] == "consent"
    assert browser.post("consent", {"agrees": True})["step"] == "practice"
    current = browser.post("practice", {})
    steps = []
    while current["step"] != "done":
        steps.append((current["step"], current["number"], current["answered"]))
        if current["step"] == "check":
            wrong = browser.post("check", check_body(current, "0"))
            assert (wrong["passed"], wrong["view"]["step"]) == (False, "check")
            current = browser.post("check", check_body(current))["view"]
        else:
            for path in ("", "/full"):
                token = current["reference"]["token"]
                image = client.get(f"/preview/image/{token}{path}")
                assert image.headers["content-type"] == "image/webp"
            reason = "long enough" if current["reason_asked"] else None
            current = browser.post("submit", answer_body(current, reason=reason))["view"]
    assert steps == [
        *(("question", number, number - 1) for number in (1, 2, 3)),
        ("check", 4, 3),
        *(("question", number, number - 1) for number in (4, 5, 6)),
    ]
    assert (current["answered"], current["total"], current["code"]) == (6, 6, "THANKS")
    assert everything(preview_database) == before


@on_sqlite
def test_going_back_shows_the_question_without_an_answer(preview_database: Database) -> None:
    client = client_of(preview_database)
    browser = PreviewBrowser(client, link_to(preview_database))
    declined = browser.post("consent", {"agrees": False})
    assert (declined["step"], declined["kind"]) == ("farewell", "declined")
    assert browser.view()["step"] == "consent"
    browser.post("consent", {"agrees": True})
    first = browser.post("practice", {})
    second = browser.post("submit", answer_body(first))["view"]
    assert (second["number"], second["back"]) == (2, 1)
    third = browser.post("next-step", {})
    assert third["number"] == 3
    again = browser.view(1)
    assert (again["number"], again["earlier"], again["text"]) == (1, None, first["text"])
    assert browser.post("submit", answer_body(again))["view"]["number"] == 2
    assert browser.view()["number"] == 3
    assert client.get("/preview/question/4").status_code == 403
    assert browser.post("restart", {})["step"] == "consent"


@on_sqlite
def test_an_answer_is_checked_as_an_annotators_is(preview_database: Database) -> None:
    client = client_of(preview_database)
    browser = PreviewBrowser(client, link_to(preview_database))
    for _ in range(6):
        current = browser.post("next-step", {})
    assert (current["step"], current["number"], current["reason_asked"]) == ("question", 4, True)
    refused = client.post("/preview/submit", json=answer_body(current))
    assert refused.status_code == 422
    assert "reason" in refused.json()["error"]
    tied = answer_body(current, preferred=0, reason="long enough")
    assert client.post("/preview/submit", json=tied).status_code == 422


@on_sqlite
def test_a_participant_in_the_same_browser_is_left_alone(preview_database: Database) -> None:
    client = begin(client_of(preview_database), preview_database)
    assert view(client)["step"] == "consent"
    before = everything(preview_database)
    browser = PreviewBrowser(client, link_to(preview_database))
    browser.post("consent", {"agrees": True})
    question = browser.post("practice", {})
    assert browser.post("submit", answer_body(question))["view"]["number"] == 2
    assert everything(preview_database) == before
    assert view(client)["step"] == "consent"


def test_a_preview_of_assigned_forms_shows_nobodys_answer(preview_database: Database) -> None:
    """With every form assigned, the first participant's questions are previewed."""
    for _ in range(2):
        client = begin(client_of(preview_database), preview_database)
        client.post("/consent", json={"agrees": True})
        client.post("/practice", json={})
        client.post("/submit", json=answer_body(view(client)))
    before = everything(preview_database)
    browser = PreviewBrowser(client_of(preview_database), link_to(preview_database))
    browser.post("consent", {"agrees": True})
    question = browser.post("practice", {})
    assert (question["number"], question["earlier"], question["answered"]) == (1, None, 0)
    assert browser.post("submit", answer_body(question))["view"]["number"] == 2
    assert everything(preview_database) == before


@pytest.mark.parametrize("asked", list(JUDGEMENTS))
def test_every_kind_can_be_previewed(tmp_path: Path, asked: str) -> None:
    database = make_study(Place(tmp_path / "study"), kind=asked)
    browser = PreviewBrowser(client_of(database), link_to(database))
    before = everything(database)
    browser.post("consent", {"agrees": True})
    body = judged_body(browser.post("practice", {}), JUDGEMENTS[asked])
    assert browser.post("submit", body)["view"]["number"] == 2
    assert everything(database) == before
    database.close()


@on_sqlite
def test_links_that_are_not_signed_or_have_expired_open_nothing(
    preview_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, link = client_of(preview_database), link_to(preview_database, hours=1)
    signed = link.rpartition("/")[2]
    forged = signed.replace(":0::.", ":5::.")
    assert forged != signed
    for wrong in (forged, signed[:-1], "1:0:9999999999:0", "x"):
        answer = client.get(f"/preview/open/{wrong}")
        assert (answer.status_code, "set-cookie" in answer.headers) == (404, False)
    for path in ("question", "image/practice-0"):
        assert client.get(f"/preview/{path}").status_code == 401
    PreviewBrowser(client, link)
    now = time.time()
    monkeypatch.setattr("hsfiq.annotate.preview.time.time", lambda: now + 3700)
    assert client.get(link).status_code == 404
    assert client.get("/preview/question").status_code == 401


@pytest.mark.browser
def test_the_owner_answers_in_a_preview_without_storing_anything(
    server: ThreadServer, context: BrowserContext
) -> None:
    with server.database.reading() as session:
        place = new_preview(session, list_studies(session)[0])
    page = context.new_page()
    page.set_viewport_size({"width": 390, "height": 844})
    failed: list[str] = []
    page.on("pageerror", lambda error: failed.append(str(error)))
    page.goto(server.url + preview_path(signer_of(server.database), place))
    expect(page.locator(".page")).to_have_attribute("data-step", "consent")
    expect(page.locator(".preview")).to_contain_text(TEXT["preview"])
    page.locator(".agree").click()
    page.locator(".guidelines .close").click()
    page.get_by_role("button", name=TEXT["preview_next"]).click()
    expect_step(page, "question", "1 / 6")
    answer(page)
    expect_step(page, "question", "2 / 6")
    page.reload()
    expect_step(page, "question", "2 / 6")
    press(page, "b")
    expect_step(page, "question", "1 / 6")
    steps = [("question", "3 / 6"), ("check", "3 / 6")]
    for step, count in (*steps, *(("question", f"{number} / 6") for number in (4, 5, 6))):
        page.get_by_role("button", name=TEXT["preview_next"]).click()
        expect_step(page, step, count)
    page.get_by_role("button", name=TEXT["preview_next"]).click()
    expect(page.locator(".page")).to_have_attribute("data-step", "done")
    expect(page.locator(".preview")).to_be_visible()
    expect(page.locator(".stored")).to_be_hidden()
    page.get_by_role("button", name=TEXT["preview_restart"]).click()
    expect(page.locator(".page")).to_have_attribute("data-step", "consent")
    assert stored(server.database) == []
    assert failed == []
