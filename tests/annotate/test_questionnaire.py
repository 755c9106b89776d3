"""The owner's extra questions, with each answer and at the end: stored, shown, released."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi.testclient import TestClient
from playwright.sync_api import Locator, expect
from sqlalchemy import select

from hsfiq.annotate.texts import entry_texts
from hsfiq.collect import owner
from hsfiq.collect.progress import answers_of, participants_of
from hsfiq.collect.studies import list_studies
from hsfiq.db.engine import Database
from hsfiq.db.tables import Participant, QuestionnaireAnswers
from hsfiq.releases.content import build
from hsfiq.study.config import Questionnaire
from hsfiq.study.filters import Filters
from hsfiq.study.instrument import ExtraQuestion
from tests.annotate.owner.studies_in_progress import panel_of
from tests.annotate.page_requests import answer_body, stored, view
from tests.annotate.question_page import OpenPage, answer, expect_step, press
from tests.annotate.served_studies import (
    Place,
    Serve,
    ServeStudy,
    ThreadServer,
    Visit,
    all_of,
    begin,
    enrol,
    plain_browser,
    set_status,
)

ASKED = Questionnaire(
    at_end=(
        ExtraQuestion("age", "number", "How old are you?"),
        ExtraQuestion(
            "often", "choice", "How often do you shop?", ("Often", "Never"), required=True
        ),
    ),
    note="You may leave out your age.",
)
ONE_QUESTION = {"questions_per_form": 1, "forms_per_participant": 1}


def rows(database: Database) -> list[dict[str, object]]:
    return all_of(database, select(QuestionnaireAnswers.answers))


@pytest.fixture
def asking(visit: Visit) -> Database:
    """The database of a study that asks questions at the end."""
    return visit(questionnaire=ASKED, recruitment={"completion_code": "C0DE"}, **ONE_QUESTION)[1]


def at_the_end(database: Database) -> tuple[TestClient, dict[str, Any]]:
    """A new participant who has answered everything else, and the view of the questions."""
    client = enrol(plain_browser(database), database)
    return client, client.post("/submit", json=answer_body(view(client))).json()["view"]


def sent(end: dict[str, Any], **answers: object) -> dict[str, Any]:
    return {"assignment": end["assignment"], "answers": answers}


def test_the_answers_are_stored_once_before_the_code_is_shown(asking: Database) -> None:
    client, shown = at_the_end(asking)
    assert (shown["step"], shown["note"]) == ("questionnaire", "You may leave out your age.")
    assert [question["name"] for question in shown["questions"]] == ["age", "often"]
    assert "C0DE" not in str(shown)
    assert shown["back"] == 1
    assert view(client, 1)["earlier"] is not None
    for wrong in ({}, {"age": 30}, {"often": 3}, {"often": 1, "age": "x"}, {"often": 1, "b": 1}):
        assert client.post("/questionnaire", json=sent(shown, **wrong)).status_code == 422, wrong
    assert client.post("/questionnaire", json={"answers": {"often": 1}}).status_code == 422
    assert rows(asking) == []
    done = client.post("/questionnaire", json=sent(shown, often=2)).json()
    assert (done["step"], done["code"]) == ("done", "C0DE")
    again = client.post("/questionnaire", json=sent(shown, often=1))
    assert again.json()["step"] == "done"
    assert rows(asking) == [{"often": 2}]


def test_nobody_answers_before_the_end_or_for_somebody_else(asking: Database) -> None:
    first, end = at_the_end(asking)
    second, payload = enrol(plain_browser(asking), asking), sent(end, often=1)
    assert second.post("/questionnaire", json=payload).status_code == 403
    set_status(asking, "paused")
    paused = first.post("/questionnaire", json=payload).json()
    assert (paused["step"], paused["kind"], "code" in paused) == ("farewell", "paused", False)
    set_status(asking, "closed")
    closed = first.post("/questionnaire", json=payload).json()
    assert (closed["step"], closed["code"]) == ("done", "C0DE")
    assert rows(asking) == []


def test_who_has_answered_all_but_questions_at_the_end_has_not_finished(asking: Database) -> None:
    def standing() -> str:
        with asking.reading() as session:
            (row,) = participants_of(session, list_studies(session)[0])
            return row.standing

    client = begin(plain_browser(asking), asking)
    text = view(client)["text"]
    assert "Further questions at the end: 2" in text
    assert "your answers, also those to further questions" in text
    for untrue in ("nothing else", "any other information", "do not reveal who you are"):
        assert untrue not in text + entry_texts("en")["data_stored"]
    enrol(client, asking)
    assert standing() == "active"
    end = client.post("/submit", json=answer_body(view(client))).json()["view"]
    assert standing() == "at the questions at the end"
    assert client.post("/questionnaire", json=sent(end, often=1)).json()["code"] == "C0DE"
    assert standing() == "finished"


def test_the_studio_and_the_release_have_them_until_they_are_forgotten(asking: Database) -> None:
    client, end = at_the_end(asking)
    at_the_end(asking)
    assert client.post("/questionnaire", json=sent(end, often=2, age=40.5)).status_code == 200
    with asking.reading() as session:
        study = list_studies(session)[0]
        release = build(session, study, "hp", Filters(), schema_revision="x")
    first, second = (panel_of(asking, name) for name in ("p1", "p2"))
    assert 'How often do you shop?</dt><dd dir="auto">Never' in first
    assert "not answered" not in second
    assert release.files["participant_answers.jsonl"].decode().splitlines() == [
        '{"participant_id": "p1", "field": "age", "number": 40.5, "value": null}',
        '{"participant_id": "p1", "field": "often", "number": 2.0, "value": "Never"}',
    ]
    assert b"once, at the end" in release.files["fields.jsonl"]
    with asking.writing() as session:
        owner.forget(session, session.scalars(select(Participant)).first())
    assert rows(asking) == []


@pytest.mark.browser
def test_the_page_keeps_a_draft_and_can_go_back(
    place: Place, asking: Database, serve: Serve, open_page: OpenPage
) -> None:
    page = open_page(serve(place))
    answer(page)
    press(page, "Enter")
    expect(page.locator(".page[data-step=questionnaire]")).to_be_visible()
    expect(page.locator(".questionnaire-note")).to_have_text("You may leave out your age.")
    page.locator("[name=extra_age]").fill("forty")
    page.locator(".send").click()
    notice = page.locator(".notice-text")
    expect(notice).to_have_text("Please answer the 2 highlighted questions.")
    page.locator("[name=extra_age]").fill("40")
    expect(notice).to_have_text("Still missing: “How often do you shop?”.")
    page.reload()
    expect(page.locator("[name=extra_age]")).to_have_value("40")
    page.locator(".to-last").click()
    expect_step(page, "question", "1 / 1")
    press(page, "Enter")
    expect(page.locator("[name=extra_age]")).to_have_value("40")
    page.locator("[data-field=extra_often] .option").nth(1).click()
    page.locator(".send").click()
    expect(page.locator(".page[data-step=done] .code")).to_contain_text("C0DE")
    assert rows(asking) == [{"age": 40, "often": 2}]
    page.reload()
    expect(page.locator(".page[data-step=done]")).to_be_visible()


AFTER_EACH = Questionnaire(
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


def test_answers_are_stored_with_each_revision(
    visit: Visit, annotator: TestClient, database: Database
) -> None:
    client, asking = visit(questionnaire=AFTER_EACH)
    question = view(enrol(client, asking))
    refused = client.post("/submit", json=answer_body(question))
    assert (refused.status_code, "sure" in refused.json()["error"]) == (422, True)
    for wrong in (
        {"sure": 4}, {"sure": "3"}, {"sure": True}, {"sure": [3]}, {"sure": 0}, {"other": 1},
        {"style": 1.0}, {"marks": 1}, {"marks": [4]}, {"price": "12"}, {"price": 1e16},
        {"note": 3}, {"note": "x" * 10_001}, {"note": {"a": 1}},
        {"price": -5}, {"price": 501}, {"style": "else"}, {"marks": ["else"]},
        {"why": " "}, {"why": 3}, {"why": "x" * 10_001}, {"where": ["a", "b"]}, {"where": "a"},
        {"where": [1, ""]}, {"why": [1]},
    ):  # fmt: skip
        reply = client.post("/submit", json=answer_body(question, extra={"sure": 3, **wrong}))
        assert reply.status_code == 422, wrong
    assert stored(asking) == []
    assert client.post("/submit", json=answer_body(question, extra=GIVEN)).status_code == 200
    again = view(client, 1)
    assert again["earlier"]["extra"] == KEPT
    revised = answer_body(again, "another-key-of-16", extra={"sure": 1})
    assert client.post("/submit", json=revised).status_code == 200
    assert [(row.revision, row.extra) for row in stored(asking)] == [(1, KEPT), (2, {"sure": 1})]
    with asking.reading() as session:
        study = list_studies(session)[0]
        (row,) = answers_of(session, study)
    panel = panel_of(asking, row.participant, answer=row.question_id)
    assert panel.count("How sure?") == 3  # in each revision, and among everybody's answers
    assert "1 Not at all" in panel
    # A study without extra questions takes no answers to them.
    usual = view(annotator)
    with_extra = answer_body(usual, extra={"sure": 1})
    assert annotator.post("/submit", json=with_extra).status_code == 422
    assert annotator.post("/submit", json=answer_body(usual, extra={})).status_code == 200
    assert [row.extra for row in stored(database)] == [None]


@pytest.fixture
def asking_server(serve_study: ServeStudy) -> ThreadServer:
    """A study that asks questions with each answer, served."""
    return serve_study(questionnaire=AFTER_EACH)


@pytest.mark.browser
def test_the_page_keeps_and_sends_them(asking_server: ThreadServer, open_page: OpenPage) -> None:
    page = open_page(asking_server)

    def press_next() -> None:
        page.locator(".page .main").focus()
        press(page, "Enter")

    def options(name: str) -> Locator:
        return page.locator(f'[data-field="extra_{name}"] .option')

    price, note, other, where = (
        page.locator(f"[name=extra_{name}]")
        for name in ("price", "note", "why_other", "where_other")
    )
    answer(page)
    press(page, "Enter")
    expect(page.locator(".notice-text")).to_have_text("Still missing: “How sure?”.")
    options("sure").nth(2).click()
    options("marks").nth(1).click()
    price.fill("a lot")
    note.fill("1 x r")
    press_next()
    expect(page.locator(".notice-text")).to_contain_text("a number for “What would it cost?”")
    expect(page.locator('[data-field="extra_price"] legend')).to_contain_text("(from 0 to 500)")
    expect(other).to_be_hidden()
    price.fill("-5")
    options("why").nth(2).click()
    press_next()
    unanswered = page.locator(".unanswered").evaluate_all("all => all.map((e) => e.dataset.field)")
    assert unanswered == ["extra_price", "extra_why"]
    price.fill("12,5")
    other.fill("a gift")
    options("where").nth(0).click()
    options("where").nth(2).click()
    where.fill("market")
    page.reload()
    expect(note).to_have_value("1 x r")
    expect(other).to_have_value("a gift")
    press_next()
    expect_step(page, "question", "2 / 6")
    expect(note).to_have_value("")
    expect(other).to_be_hidden()
    assert [row.extra for row in stored(asking_server.database)] == [{
        "sure": 3, "marks": [2], "price": 12.5, "note": "1 x r", "why": "a gift",
        "where": [1, "market"],
    }]  # fmt: skip
    page.locator(".button.back").click()
    expect_step(page, "question", "1 / 6")
    expect(price).to_have_value("12.5")
    expect(where).to_have_value("market")
    for name, place in (("marks", 1), ("why", 2)):
        expect(page.locator(f'[data-field="extra_{name}"] input').nth(place)).to_be_checked()


@pytest.mark.browser
def test_they_are_answered_by_keys(asking_server: ThreadServer, open_page: OpenPage) -> None:
    page = open_page(asking_server)
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
    press(page, "a")
    expect(marked).to_have_count(1)
    page.locator('.set[data-side="2"] .option').nth(1).click()  # an answer elsewhere ends it
    expect(marked).to_have_count(0)
    press(page, "Enter")
    expect_step(page, "question", "2 / 6")
    (row,) = stored(asking_server.database)
    assert (row.score_1, row.score_2) == (4, 2)
    assert row.extra == {
        "sure": 3, "style": 2, "marks": [3], "price": 12, "note": "a 1", "why": "a gift"
    }  # fmt: skip
