"""The owner's extra questions with each main answer: sent, stored, and shown again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient
from playwright.sync_api import Page, expect

from hsfiq.annotate.app import build_app
from hsfiq.annotate.owner.tables import participant_page, question_page
from hsfiq.collect.progress import answers_of
from hsfiq.collect.studies import list_studies
from hsfiq.db.engine import Database
from hsfiq.study.config import Questionnaire
from hsfiq.study.instrument import ExtraQuestion
from tests.annotate.page_requests import answer_body, stored, view
from tests.annotate.question_page import OpenPage, answer, expect_step, press
from tests.annotate.served_studies import Place, ThreadServer, browser_of, enrol, make_study

ASKED = Questionnaire(
    after_each=(
        ExtraQuestion("sure", "scale", "How sure?", ("Not at all", "", "Very"), required=True),
        ExtraQuestion("style", "choice", "Which style?", ("Old", "New")),
        ExtraQuestion("marks", "choices", "What counted?", ("Colour", "Cut", "Print")),
        ExtraQuestion("price", "number", "What would it cost?", min=0, max=500),
        ExtraQuestion("note", "text", "Anything else?"),
        ExtraQuestion("why", "choice", "Why?", ("Taste", "Price"), other=True),
        ExtraQuestion("where", "choices", "Where?", ("Shop", "Home"), other=True),
    )
)
GIVEN = {
    "sure": 3,
    "style": None,
    "marks": [3, 1, 3],
    "price": 12.5,
    "note": " a <b>bold</b> one ",
    "why": " a gift ",
    "where": [2, " market", 1],
}
KEPT = {
    "sure": 3,
    "marks": [1, 3],
    "price": 12.5,
    "note": "a <b>bold</b> one",
    "why": "a gift",
    "where": [1, 2, "market"],
}


@pytest.fixture
def asking(place: Place) -> Iterator[Database]:
    database = make_study(place, questionnaire=ASKED)
    yield database
    database.close()


@pytest.fixture
def page(place: Place, asking: Database, open_page: OpenPage) -> Iterator[Page]:
    """The question page of a participant."""
    server = ThreadServer(place, asking, build_app(asking))
    server.start()
    yield open_page(server)
    server.stop()


def body(question: dict[str, Any], extra: dict[str, Any], **changes: Any) -> dict[str, Any]:
    sent = answer_body(question, **changes)
    sent["answer"]["extra"] = extra
    return sent


def test_answers_are_stored_with_each_revision(asking: Database) -> None:
    client: TestClient = enrol(browser_of(build_app(asking)), asking)
    question = view(client)
    refused = client.post("/submit", json=answer_body(question))
    assert refused.status_code == 422
    assert "sure must be answered" in refused.json()["error"]
    for wrong in (
        {"sure": 4}, {"sure": "3"}, {"sure": True}, {"sure": [3]}, {"sure": 0}, {"other": 1},
        {"style": 1.0}, {"marks": 1}, {"marks": [4]}, {"price": "12"}, {"price": 1e16},
        {"note": 3}, {"note": "x" * 10_001}, {"note": {"a": 1}},
        {"price": -5}, {"price": 501}, {"style": "else"}, {"marks": ["else"]},
        {"why": " "}, {"why": 3}, {"why": "x" * 10_001}, {"where": ["a", "b"]}, {"where": "a"},
        {"where": [1, ""]}, {"why": [1]},
    ):  # fmt: skip
        reply = client.post("/submit", json=body(question, {"sure": 3, **wrong}))
        assert reply.status_code == 422, wrong
    assert stored(asking) == []

    assert client.post("/submit", json=body(question, GIVEN)).status_code == 200
    again = view(client, 1)
    assert again["earlier"]["extra"] == KEPT
    revised = body(again, {"sure": 1}, key="another-key-of-16")
    assert client.post("/submit", json=revised).status_code == 200
    assert [(row.revision, row.extra) for row in stored(asking)] == [(1, KEPT), (2, {"sure": 1})]

    with asking.reading() as session:
        study = list_studies(session)[0]
        (row,) = answers_of(session, study)
        for page in (
            participant_page(session, study.name, row.participant),
            question_page(session, study.name, row.question_id),
        ):
            assert "How sure?" in page
            assert "1 Not at all" in page


def test_a_study_without_extra_questions_takes_no_answers_to_them(
    annotator: TestClient, database: Database
) -> None:
    question = view(annotator)
    assert annotator.post("/submit", json=body(question, {"sure": 1})).status_code == 422
    assert annotator.post("/submit", json=body(question, {})).status_code == 200
    assert [row.extra for row in stored(database)] == [None]


@pytest.mark.browser
def test_the_page_keeps_and_sends_them(asking: Database, page: Page) -> None:
    expect_step(page, "question", "1 / 6")
    answer(page)
    press(page, "Enter")
    expect(page.locator(".notice-text")).to_have_text("Still missing: “How sure?”.")
    page.locator('[data-field="extra_sure"] .option').nth(2).click()
    page.locator('[data-field="extra_marks"] .option').nth(1).click()
    price, note = page.locator("[name=extra_price]"), page.locator("[name=extra_note]")
    price.fill("a lot")
    note.fill("1 x r")
    page.locator(".page .main").focus()
    press(page, "Enter")
    expect(page.locator(".notice-text")).to_contain_text("a number for “What would it cost?”")
    page.reload()
    expect(note).to_have_value("1 x r")
    price.fill("12,5")
    page.locator(".page .main").focus()
    press(page, "Enter")
    expect_step(page, "question", "2 / 6")
    expect(note).to_have_value("")
    assert [row.extra for row in stored(asking)] == [
        {"sure": 3, "marks": [2], "price": 12.5, "note": "1 x r"}
    ]
    page.locator(".button.back").click()
    expect_step(page, "question", "1 / 6")
    expect(price).to_have_value("12.5")
    expect(page.locator('[data-field="extra_marks"] input').nth(1)).to_be_checked()


@pytest.mark.browser
def test_the_page_takes_numbers_within_the_bounds_and_other_answers(
    asking: Database, page: Page
) -> None:
    press(page, "4", "Shift+Digit2", "q")
    expect(page.locator('[data-field="extra_price"] legend')).to_contain_text("(from 0 to 500)")
    page.locator('[data-field="extra_sure"] .option').nth(2).click()
    other, where = page.locator("[name=extra_why_other]"), page.locator("[name=extra_where_other]")
    expect(other).to_be_hidden()
    price = page.locator("[name=extra_price]")
    price.fill("-5")
    page.locator('[data-field="extra_why"] .option').nth(2).click()
    page.locator(".page .main").focus()
    press(page, "Enter")
    unanswered = page.locator(".unanswered").evaluate_all("all => all.map((e) => e.dataset.field)")
    assert unanswered == ["extra_price", "extra_why"]
    price.fill("5")
    other.fill("a gift")
    page.locator('[data-field="extra_where"] .option').nth(0).click()
    page.locator('[data-field="extra_where"] .option').nth(2).click()
    where.fill("market")
    page.reload()
    expect(other).to_have_value("a gift")
    page.locator(".page .main").focus()
    press(page, "Enter")
    expect_step(page, "question", "2 / 6")
    expect(other).to_be_hidden()
    (row,) = stored(asking)
    assert row.extra == {"sure": 3, "price": 5, "why": "a gift", "where": [1, "market"]}
    page.locator(".button.back").click()
    expect_step(page, "question", "1 / 6")
    expect(where).to_have_value("market")
    expect(page.locator('[data-field="extra_why"] input').nth(2)).to_be_checked()


@pytest.mark.browser
def test_they_are_answered_by_keys(asking: Database, page: Page) -> None:
    marked = page.locator(".current-extra")

    def digit(number: int) -> None:
        """Press it; pressed again if the page has only scrolled to the option."""
        page.keyboard.press(f"Digit{number}")
        if "scrolled" in (page.locator(".notice-text").text_content() or ""):
            page.keyboard.press(f"Digit{number}")

    press(page, "4", "Shift+Digit2", "q", "a")
    expect(marked).to_have_attribute("data-field", "extra_sure")
    digit(3)
    page.keyboard.press("Digit5")  # of the marked question, which has three options
    expect(page.locator('[name="score_1"][value="4"]')).to_be_checked()
    page.keyboard.press("a")
    digit(2)
    page.keyboard.press("a")
    digit(1)
    digit(3)
    digit(1)  # several options: again takes it back
    page.keyboard.press("a")
    expect(page.locator("[name=extra_price]")).to_be_focused()
    page.keyboard.type("12")
    page.keyboard.press("Enter")
    page.keyboard.press("a")
    expect(page.locator("[name=extra_note]")).to_be_focused()
    page.keyboard.type("a 1\n")
    page.keyboard.press("Escape")
    page.keyboard.press("a")
    digit(3)
    expect(page.locator("[name=extra_why_other]")).to_be_visible()
    page.keyboard.press("Tab")
    page.keyboard.type("a gift")
    page.keyboard.press("Escape")
    page.keyboard.press("a")
    expect(marked).to_have_attribute("data-field", "extra_where")
    page.keyboard.press("a")
    expect(marked).to_have_count(0)
    page.keyboard.press("a")
    expect(marked).to_have_attribute("data-field", "extra_sure")
    page.keyboard.press("Escape")
    expect(marked).to_have_count(0)
    press(page, "Enter")
    expect_step(page, "question", "2 / 6")
    (row,) = stored(asking)
    assert (row.score_1, row.score_2) == (4, 2)
    assert row.extra == {
        "sure": 3, "style": 2, "marks": [3], "price": 12, "note": "a 1", "why": "a gift"
    }  # fmt: skip


@pytest.mark.browser
def test_an_answer_elsewhere_ends_the_mark(asking: Database, page: Page) -> None:
    marked = page.locator(".current-extra")
    press(page, "a")
    expect(marked).to_have_count(1)
    page.locator('.set[data-side="2"] .option').nth(1).click()
    expect(marked).to_have_count(0)
