"""The owner's questions at the end: asked once, stored once, shown, released and forgotten."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fastapi.testclient import TestClient
from playwright.sync_api import expect
from sqlalchemy import select

from hsfiq.annotate.app import build_app, plain_app
from hsfiq.annotate.handlers import Services
from hsfiq.annotate.owner.tables import participant_page
from hsfiq.annotate.texts import entry_texts
from hsfiq.collect import owner
from hsfiq.collect.progress import participants_of
from hsfiq.collect.studies import list_studies
from hsfiq.db.engine import Database
from hsfiq.db.tables import Participant, QuestionnaireAnswers
from hsfiq.releases.content import build
from hsfiq.releases.filters import Filters
from hsfiq.study.config import Questionnaire
from hsfiq.study.instrument import ExtraQuestion
from tests.annotate.page_requests import answer_body, view
from tests.annotate.question_page import OpenPage, answer, expect_step, press
from tests.annotate.served_studies import (
    Place,
    ThreadServer,
    begin,
    browser_of,
    enrol,
    make_study,
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


@pytest.fixture
def asking(place: Place) -> Iterator[Database]:
    recruitment = {"completion_code": "C0DE"}
    database = make_study(place, questionnaire=ASKED, recruitment=recruitment, **ONE_QUESTION)
    yield database
    database.close()


def new_client(database: Database) -> TestClient:
    return browser_of(plain_app(Services.of(database)))


def rows(database: Database) -> list[dict[str, object]]:
    with database.reading() as session:
        return list(session.scalars(select(QuestionnaireAnswers.answers)))


def test_the_answers_are_stored_once_before_the_code_is_shown(asking: Database) -> None:
    client = enrol(new_client(asking), asking)
    reply = client.post("/submit", json=answer_body(view(client))).json()
    shown = reply["view"]
    assert (shown["step"], shown["note"]) == ("questionnaire", "You may leave out your age.")
    assert [question["name"] for question in shown["questions"]] == ["age", "often"]
    assert "C0DE" not in str(reply)
    assert shown["back"] == 1
    assert view(client, 1)["earlier"] is not None

    assignment = shown["assignment"]
    for wrong in ({}, {"age": 30}, {"often": 3}, {"often": 1, "age": "x"}, {"often": 1, "b": 1}):
        payload = {"assignment": assignment, "answers": wrong}
        assert client.post("/questionnaire", json=payload).status_code == 422, wrong
    assert client.post("/questionnaire", json={"answers": {"often": 1}}).status_code == 422
    assert rows(asking) == []

    payload = {"assignment": assignment, "answers": {"often": 2}}
    done = client.post("/questionnaire", json=payload).json()
    assert (done["step"], done["code"]) == ("done", "C0DE")
    again = client.post("/questionnaire", json={**payload, "answers": {"often": 1}})
    assert again.json()["step"] == "done"
    assert rows(asking) == [{"often": 2}]


def test_nobody_answers_before_the_end_or_for_somebody_else(asking: Database) -> None:
    first, second = (enrol(new_client(asking), asking) for _ in range(2))
    end = first.post("/submit", json=answer_body(view(first))).json()["view"]
    payload = {"assignment": end["assignment"], "answers": {"often": 1}}
    assert second.post("/questionnaire", json=payload).status_code == 403
    set_status(asking, "paused")
    paused = first.post("/questionnaire", json=payload).json()
    assert (paused["step"], paused["kind"], "code" in paused) == ("farewell", "paused", False)
    set_status(asking, "closed")
    closed = first.post("/questionnaire", json=payload).json()
    assert (closed["step"], closed["code"]) == ("done", "C0DE")
    assert rows(asking) == []


def test_who_has_answered_all_but_the_questions_at_the_end_has_not_finished(
    asking: Database,
) -> None:
    def standing() -> str:
        with asking.reading() as session:
            (row,) = participants_of(session, list_studies(session)[0])
            return row.standing

    client = enrol(new_client(asking), asking)
    assert standing() == "active"
    end = client.post("/submit", json=answer_body(view(client))).json()["view"]
    assert standing() == "at the questions at the end"
    payload = {"assignment": end["assignment"], "answers": {"often": 1}}
    assert client.post("/questionnaire", json=payload).json()["code"] == "C0DE"
    assert standing() == "finished"


def test_the_consent_page_says_how_many_there_are(asking: Database) -> None:
    client = begin(new_client(asking), asking)
    text = view(client)["text"]
    assert "Further questions at the end: 2" in text
    assert "your answers, also those to further questions" in text
    for untrue in ("nothing else", "any other information", "do not reveal who you are"):
        assert untrue not in text + entry_texts("en")["data_stored"]


def test_the_dashboard_and_the_release_have_them_until_they_are_forgotten(
    asking: Database,
) -> None:
    clients = [enrol(new_client(asking), asking) for _ in range(2)]
    ends = [client.post("/submit", json=answer_body(view(client))).json() for client in clients]
    payload = {"assignment": ends[0]["view"]["assignment"], "answers": {"often": 2, "age": 40.5}}
    assert clients[0].post("/questionnaire", json=payload).status_code == 200
    with asking.reading() as session:
        study = list_studies(session)[0]
        assert 'How often do you shop?</dt><dd dir="auto">Never' in participant_page(
            session, study.name, "p1"
        )
        assert "not answered" not in participant_page(session, study.name, "p2")
        release = build(session, study, "hp", Filters(), schema_revision="x")
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
    place: Place, asking: Database, open_page: OpenPage
) -> None:
    server = ThreadServer(place, asking, build_app(asking))
    server.start()
    page = open_page(server)
    expect_step(page, "question", "1 / 1")
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
    server.stop()
