"""What people see of changes by the owner while the study is served: messages, texts, places."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from html import unescape
from typing import Any, Literal

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from playwright.sync_api import Page, expect
from sqlalchemy import select

from hsfiq.annotate.app import plain_app
from hsfiq.annotate.cookies import Assignment, Signer, read_assignment
from hsfiq.annotate.handlers import Services
from hsfiq.annotate.texts import entry_texts
from hsfiq.collect.messages import send_message
from hsfiq.collect.owner import extend, perform_edit, prepare_edit
from hsfiq.collect.studies import list_studies
from hsfiq.db.engine import Database
from hsfiq.db.tables import MessageRecipient, StatusChange
from hsfiq.errors import NotOpen
from hsfiq.study.config import Checks, config_of
from hsfiq.study.extension import MoreAnnotators
from hsfiq.study.languages import standard_texts
from tests.annotate.owner.studies_in_progress import panel_of
from tests.annotate.page_requests import answer_body, answer_until, stored, view
from tests.annotate.question_page import TEXT, OpenPage, answer, expect_step, press
from tests.annotate.served_studies import (
    ThreadServer,
    Visit,
    all_of,
    begin,
    browser_of,
    enrol,
    plain_browser,
    set_status,
)


def test_an_extended_study_is_offered_again(visit: Visit) -> None:
    first, database = visit(queries=6, recruitment={"participants": 1})
    second, third = plain_browser(database), plain_browser(database)
    answer_until(enrol(first, database), "done")
    assert "Begin" not in second.get("/").text
    assert second.post("/enrol", data={"study": 1}).status_code == 410
    with database.writing() as session:
        extend(session, list_studies(session)[0], MoreAnnotators(2), datetime.now(UTC))
    assert "Begin" in second.get("/").text
    assert first.get("/question").json()["step"] == "done"
    assert answer_until(enrol(second, database), "done")["total"] == 6
    assert third.post("/enrol", data={"study": 1}).status_code == 410


@pytest.mark.parametrize(("language", "on_failure"), [("en", "pause"), ("ko", "exclude")])
def test_failed_checks_stop_a_participant_who_was_told_so(
    visit: Visit, on_failure: Literal["pause", "exclude"], language: str
) -> None:
    client, database = visit(
        presentation={"languages": (language,)},
        recruitment={"max_failed_checks": 0, "failed_checks_code": "FA1L"},
        checks=Checks(repeated=1, on_failure=on_failure),
    )
    told = entry_texts(language)[f"checks_{on_failure}"].format(limit=0)
    assert told in unescape(client.get("/").text)
    begin(client, database)
    assert told in unescape(view(client)["text"])
    client.post("/consent", json={"agrees": True})
    client.post("/practice", json={})
    question = view(client)
    while question["step"] == "question":  # the same side every time fails the repeated pair
        sent = answer_body(question)
        reply = client.post("/submit", json=sent)
        question = reply.json()["view"]
    assert (question["kind"], question["code"]) == (f"checks-{on_failure}d", "FA1L")
    again = client.post("/submit", json=sent)
    assert (again.status_code, again.json()) == (200, reply.json())
    second_tab = client.post("/submit", json=sent | {"submit_key": "another-key-0000"})
    assert second_tab.status_code == NotOpen.status
    assert len(standard_texts(language)["page"]["farewell"][question["kind"]]) == 2
    assert len(all_of(database, select(StatusChange))) == 1
    panel = panel_of(database, "p1")
    assert f"active → {on_failure}d (by the rule: failed checks: 1" in panel


@pytest.fixture
def app(database: Database) -> FastAPI:
    return plain_app(Services.of(database))


def send(database: Database, text: str) -> None:
    with database.writing() as session:
        study = list_studies(session)[0]
        send_message(session, study, text, to=None, now=datetime.now(UTC))


def test_a_message_comes_with_the_next_view_until_it_was_seen(
    annotator: TestClient, database: Database
) -> None:
    first = view(annotator)
    assert first["messages"] == []
    send(database, "**Noon** <script>alert(1)</script>")
    second = annotator.post("/submit", json=answer_body(first)).json()["view"]
    (message,) = second["messages"]
    assert message["text"].startswith("<p><strong>Noon</strong> &lt;script&gt;")
    assert view(annotator)["messages"] == [message]
    set_status(database, "paused")
    paused = view(annotator)
    assert (paused["step"], paused["messages"]) == ("farewell", [message])
    set_status(database, "open")
    answer = annotator.post("/messages-seen", json={"messages": [message["id"]]})
    assert answer.status_code == 200
    assert view(annotator)["messages"] == []
    assert all_of(database, select(MessageRecipient.seen_at)) != [None]


def test_nobody_can_close_the_messages_of_others(
    annotator: TestClient, database: Database, app: FastAPI
) -> None:
    send(database, "Hello")
    (message,) = view(annotator)["messages"]
    other = enrol(browser_of(app), database)
    assert other.post("/messages-seen", json={"messages": [message["id"]]}).status_code == 200
    assert view(annotator)["messages"] == [message]
    assert other.post("/messages-seen", json={"messages": ["1"]}).status_code == 422
    assert other.post("/messages-seen", json={"messages": [2**63, -(2**70), 0]}).status_code == 200
    assert browser_of(app).post("/messages-seen", json={"messages": []}).status_code == 401


@pytest.mark.browser
def test_a_message_is_read_once_and_no_answer_key_closes_it(
    server: ThreadServer, open_page: OpenPage
) -> None:
    page = open_page(server, 390, 844)
    send(server.database, "**We restart** the server at noon.")
    answer(page)
    expect_step(page, "question", "2 / 6")
    message = page.locator("dialog.message")
    expect(message).to_contain_text("We restart the server at noon.")
    page.keyboard.press("1")
    page.keyboard.press("Enter")
    expect(message).to_be_visible()
    with page.expect_response("**/messages-seen"):
        message.locator(".close").click()
    expect(message).to_be_hidden()
    answer(page)
    expect_step(page, "question", "3 / 6")
    expect(message).to_be_hidden()
    assert all_of(server.database, select(MessageRecipient.seen_at)) != [None]


def correct(database: Database, **texts: Any) -> None:
    """Change texts of the study's table `study`."""
    with database.writing() as session:
        study = list_studies(session)[0]
        config = config_of(study)
        wanted = replace(config, study=replace(config.study, **texts))
        edit = prepare_edit(study, wanted, study.text_version)
        perform_edit(session, edit, datetime.now(UTC))


def test_an_open_page_answers_under_the_texts_that_it_shows(
    annotator: TestClient, database: Database
) -> None:
    first = view(annotator)
    assert first["text_version"] == 1
    correct(database, guidelines="*Corrected.*", set_names=("Left shop", "Right shop"))
    second = annotator.post("/submit", json=answer_body(first)).json()["view"]
    assert second["text_version"] == 2
    opening = annotator.get("/opening").json()
    assert (opening["study"]["text_version"], opening["view"]) == (2, second)
    assert opening["study"]["guidelines"] == "<p><em>Corrected.</em></p>\n"
    assert opening["study"]["set_names"] == ["Left shop", "Right shop"]
    annotator.post("/submit", json=answer_body(second))
    again = answer_body(view(annotator, 1), key="a" * 16, score_2=1)
    assert annotator.post("/submit", json=again).status_code == 200
    rows = [(row.revision, row.text_version) for row in stored(database)]
    assert rows == [(1, 1), (1, 2), (2, 2)]


def test_a_page_from_before_versions_were_recorded_can_still_answer() -> None:
    signer = Signer(b"key")
    old = signer.sign("assignment of p", "question:7:1")
    assert read_assignment(signer, "p", old, "question") == Assignment("question", 7, 1)
    new = Assignment("question", 7, 1, 3)
    assert read_assignment(signer, "p", new.signed(signer, "p"), "question") == new


@pytest.mark.browser
def test_what_was_entered_survives_a_correction_and_the_next_question_has_it(
    page: Page, server: ThreadServer
) -> None:
    press(page, "4", "Shift+Digit2")
    correct(server.database, set_names=("Left shop", "Right shop"))
    page.reload()
    expect(page.locator(".set h3").first).to_contain_text("Left shop")
    expect(page.locator("[name=score_1][value='4']")).to_be_checked()
    expect(page.locator("[name=score_2][value='2']")).to_be_checked()
    press(page, "q", "Enter")
    expect_step(page, "question", "2 / 6")
    expect(page.locator("input:checked")).to_have_count(0)
    correct(server.database, guidelines="# Corrected", set_names=("Left", "Right"))
    answer(page)
    expect_step(page, "question", "3 / 6")
    expect(page.locator(".set h3").first).to_contain_text("Left")
    expect(page.locator(".notice-text")).to_have_text(TEXT["guidelines_changed"])
    page.locator(".notice-action").click()
    expect(page.locator(".guidelines-text")).to_contain_text("Corrected")
    page.locator(".guidelines .close").click()
    answer(page)
    expect_step(page, "check", "3 / 6")
    expect(page.locator(".notice")).to_be_hidden()
    assert [row.text_version for row in stored(server.database)] == [2, 2, 3]
