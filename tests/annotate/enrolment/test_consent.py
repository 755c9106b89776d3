"""From the welcome page over consent and practice to the first question."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import select

from hsfiq.annotate.texts import entry_texts
from hsfiq.collect.participants import invite
from hsfiq.db.engine import Database
from hsfiq.db.tables import EnrolmentByAddress, Participant, Study
from tests.annotate.enrolment.visits import (
    CODE,
    PROLIFIC,
    Visit,
    the_participant,
)
from tests.annotate.page_requests import answer_body, stored, view
from tests.annotate.served_studies import (
    begin,
    enrol,
)


def test_from_the_welcome_page_to_the_first_question(
    new_browser: TestClient, database: Database
) -> None:
    begin(new_browser, database)
    current_view = view(new_browser)
    assert current_view["step"] == "consent"
    assert "voluntary" in json.dumps(current_view["text"])
    assert new_browser.get("/question/1").json()["step"] == "consent"
    current_view = new_browser.post("/consent", json={"agrees": True}).json()
    assert current_view["step"] == "practice"
    assert new_browser.post("/consent", json={"agrees": True}).json()["step"] == "practice"
    for image in [current_view["reference"], *current_view["sets"][0], *current_view["sets"][1]]:
        assert new_browser.get(f"/image/{image['token']}").status_code == 200
    assert new_browser.get("/image/practice-22").status_code == 404
    body = answer_body(current_view)
    assert new_browser.post("/submit", json=body).status_code == 403
    for _ in range(2):
        assert new_browser.post("/practice", json={}).json()["step"] == "question"
    participant = the_participant(database)
    assert participant.consented_at
    assert participant.practised_at
    assert stored(database) == []


def test_no_answer_before_consent(new_browser: TestClient, database: Database) -> None:
    enrol(new_browser, database)
    current_view = view(new_browser)
    with database.writing() as session:
        session.scalars(select(Participant)).one().consented_at = None
    assert new_browser.post("/submit", json=answer_body(current_view)).status_code == 403
    assert stored(database) == []


def test_declining_frees_the_place(visit: Visit) -> None:
    client, database = visit(recruitment={"mode": "prolific", "participants": 1, **CODE})
    client.get("/start", params=PROLIFIC)
    current_view = client.post("/consent", json={"agrees": False}).json()
    assert (current_view["step"], current_view["kind"]) == ("farewell", "declined")
    assert "code" not in current_view
    assert client.post("/consent", json={"agrees": True}).json()["kind"] == "declined"
    assert client.get("/start", params=PROLIFIC).status_code == 303
    assert view(client)["kind"] == "declined"
    assert the_participant(database).status == "screened-out"
    other_participant = PROLIFIC | {"PROLIFIC_PID": "another"}
    assert client.get("/start", params=other_participant).status_code == 303
    assert view(client)["step"] == "consent"


def test_declining_after_agreeing_is_refused(annotator: TestClient, database: Database) -> None:
    assert annotator.post("/consent", json={"agrees": False}).status_code == 409
    assert the_participant(database).status == "active"


@pytest.mark.parametrize("body", [{}, {"agrees": 1}, {"agrees": True, "x": 1}, [], "yes"])
def test_a_bad_consent_is_refused(
    new_browser: TestClient, database: Database, body: object
) -> None:
    begin(new_browser, database)
    assert new_browser.post("/consent", json=body).status_code in (400, 422)
    assert new_browser.post("/practice", json={"score_1": 5}).status_code == 422
    assert view(new_browser)["step"] == "consent"


def test_the_studys_own_texts(visit: Visit) -> None:
    client, database = visit(
        presentation={"consent": "# Ours\n\n<b>bold</b>", "languages": ("ko",)}
    )
    begin(client, database)
    shown = view(client)["text"]
    assert "Ours</h" in shown
    assert "<b>" not in shown
    assert '<html lang="ko" dir="ltr">' in client.get("/").text
    assert entry_texts("ko")["continue"] in client.get("/").text


@pytest.mark.parametrize("consent", ["", "Do you agree?"])
@pytest.mark.parametrize("language", ["en", "ko"])
def test_everybody_reads_before_they_agree_what_is_asked_and_kept(
    visit: Visit, consent: str, language: str
) -> None:
    presentation = {"consent": consent, "languages": (language,), "minutes": 42}
    client, _ = visit(presentation=presentation, recruitment={"mode": "prolific", **CODE})
    client.get("/start", params=PROLIFIC)
    shown, text = view(client)["text"], entry_texts(language)
    assert text["questions"].format(questions=6) in shown
    assert text["minutes_set"].format(minutes=42) in shown
    assert (text["data_stored"] in shown) == (consent != "")  # the standard text says it, too
    assert "Prolific" in shown
    assert consent == "" or text["prolific_id_stored"] in shown
    assert text["address_code_stored"] in shown


@pytest.mark.parametrize(
    ("recruitment", "is_stored"),
    [({"mode": "open"}, True), ({"mode": "open", "enrolments_per_address": 0}, False)],
)
def test_the_pages_say_whether_a_code_of_the_address_is_stored(
    visit: Visit, recruitment: dict[str, Any], is_stored: bool
) -> None:
    client, database = visit(recruitment=recruitment)
    text = entry_texts("en")["address_code_stored"]
    assert (text in client.get("/").text) == is_stored
    begin(client, database)
    assert (text in view(client)["text"]) == is_stored
    with database.reading() as session:
        assert len(session.scalars(select(EnrolmentByAddress)).all()) == is_stored


def test_of_people_with_a_personal_link_no_code_is_stored(visit: Visit) -> None:
    client, database = visit(recruitment={"mode": "invitation"})
    with database.writing() as session:
        study = session.scalars(select(Study)).one()
        (invited,) = invite(session, study.id, 1, now=datetime.now(UTC))
        link = f"/start/{invited.token}"
    assert client.get(link).status_code == 303
    assert entry_texts("en")["address_code_stored"] not in view(client)["text"]
    with database.reading() as session:
        assert session.scalars(select(EnrolmentByAddress)).all() == []


def test_the_welcome_page_says_how_long_it_takes(new_browser: TestClient) -> None:
    page, text = new_browser.get("/").text, entry_texts("en")
    assert text["questions"].format(questions=6) in page
    assert text["minutes_estimated"].format(minutes=6) in page
    assert text["data_stored"] in page
