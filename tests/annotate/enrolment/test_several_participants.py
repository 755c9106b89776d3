"""One browser, several participants: different people, several studies, links from elsewhere."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from playwright.sync_api import BrowserContext
from sqlalchemy import select

from hsfiq.annotate.cookies import COOKIE
from hsfiq.annotate.texts import entry_texts
from hsfiq.db.engine import Database
from hsfiq.db.source_tables import Query
from hsfiq.db.tables import Participant, Response, Study
from hsfiq.study.config import config_of
from hsfiq.study.design import draw_study
from tests.annotate.page_requests import answer_body, answer_until, begin_form, view
from tests.annotate.served_studies import (
    TITLE,
    Place,
    ThreadServer,
    browser_of,
    count,
    enrol,
    newcomer,
    update_all,
)

TEXT = entry_texts("en")
PROLIFIC = {"PROLIFIC_PID": "5f8e", "STUDY_ID": "64ab", "SESSION_ID": "77cd"}


def second_study(database: Database, **recruitment: object) -> int:
    """A study like the first one."""
    with database.writing() as session:
        first = config_of(session.scalars(select(Study).order_by(Study.id)).first())  # type: ignore[arg-type]
        config = replace(
            first,
            study=replace(first.study, name="second", title="The second study"),
            recruitment=replace(first.recruitment, **recruitment),  # type: ignore[arg-type]
        )
        return draw_study(session, config, session.scalars(select(Query.id)).all()).id


# ------------------------------------------------------------------------------ different people


def test_a_different_person_begins_anew_and_no_answer_is_lost(
    annotator: TestClient, database: Database
) -> None:
    annotator.post("/submit", json=answer_body(view(annotator)))
    page = annotator.get("/").text
    assert TEXT["different_person"] in page
    assert TEXT["answered_so_far"].format(name="p1", answered=1, total=6) in page
    form = begin_form(annotator, different="true")
    assert annotator.post("/enrol", data=form).status_code == 303
    assert view(annotator)["step"] == "consent"
    assert (count(database), count(database, Response)) == (2, 1)
    annotator.post("/consent", json={"agrees": True})
    annotator.post("/practice", json={})
    annotator.post("/submit", json=answer_body(view(annotator)))
    assert annotator.post("/continue", data={"participant": 1}).status_code == 303
    assert view(annotator)["number"] == 2
    annotator.post("/submit", json=answer_body(view(annotator), "another-key-12345"))
    assert count(database, Response) == 3
    assert view(annotator)["number"] == 3


def test_begin_continues_as_the_same_person_and_as_nobody_elses(
    annotator: TestClient, app: FastAPI, database: Database
) -> None:
    cookie = annotator.cookies[COOKIE]
    enrol(annotator, database)
    assert annotator.cookies[COOKIE] == cookie
    assert view(annotator)["step"] == "question"
    assert count(database) == 1
    other = enrol(browser_of(app), database)
    assert other.post("/continue", data={"participant": 1}).status_code == 401
    assert annotator.post("/continue", data={"participant": 2}).status_code == 401


def test_a_forgotten_participant_is_not_offered(annotator: TestClient, database: Database) -> None:
    annotator.post("/enrol", data=begin_form(annotator, different="true"))
    with database.writing() as session:
        session.get_one(Participant, 1).token_hash = "t" * 43
    assert annotator.get("/").text.count(TEXT["welcome_back"]) == 1
    assert annotator.post("/continue", data={"participant": 1}).status_code == 401
    assert view(annotator)["step"] == "consent"


def test_a_browser_takes_part_in_several_studies(annotator: TestClient, database: Database) -> None:
    second = second_study(database)
    page = annotator.get("/").text
    assert f"<h1>{TITLE}</h1>" in page
    assert "<h1>The second study</h1>" in page
    assert annotator.post("/enrol", data=begin_form(annotator, second)).status_code == 303
    assert view(annotator)["step"] == "consent"
    assert annotator.get("/").text.count(TEXT["welcome_back"]) == 2
    assert annotator.post("/enrol", data={"study": 1}).status_code == 303
    assert view(annotator)["step"] == "question"
    assert count(database) == 2


# -------------------------------------------------------------------------- links from elsewhere


def test_a_personal_link_does_not_replace_a_participant_silently(
    annotator: TestClient, copied: Place, database: Database
) -> None:
    link = f"/start/{newcomer(copied, is_ready=False)}"
    before = dict(annotator.cookies)
    answer = annotator.get(link)
    assert answer.status_code == 200
    assert TEXT["other_participation_title"] in answer.text
    assert '<form method="post">' in answer.text
    assert 'href="../study/"' in answer.text
    assert dict(annotator.cookies) == before
    with database.reading() as session:
        assert session.get_one(Participant, 2).enrolled_at is None
    assert annotator.post(link).headers["location"] == "../study/"
    assert view(annotator)["step"] == "consent"
    assert annotator.get(link).status_code == 303
    assert annotator.get("/").text.count(TEXT["welcome_back"]) == 2


def test_a_platform_link_does_not_replace_a_participant_silently(
    annotator: TestClient, database: Database
) -> None:
    second_study(database, mode="prolific")
    answer = annotator.get("/start", params=PROLIFIC)
    assert (answer.status_code, count(database)) == (200, 1)
    assert 'href="study/"' in answer.text
    assert view(annotator)["step"] == "question"
    assert annotator.post("/start", params=PROLIFIC).status_code == 303
    assert view(annotator)["step"] == "consent"
    assert count(database) == 2
    third = PROLIFIC | {"PROLIFIC_PID": "another"}
    assert annotator.get("/start", params=third).status_code == 200
    assert count(database) == 2


def test_same_person_of_platform_is_not_asked(new_browser: TestClient, database: Database) -> None:
    """Two studies on Prolific, one after the other, in one browser."""
    second_study(database, mode="prolific", platform_study_id="64ab")
    with database.writing() as session:
        first = session.get_one(Study, 1)
        first.design = first.design | {"recruitment": {"mode": "prolific"}}
        first.platform_study_id = "64cd"
    for study_id in ("64ab", "64cd", "64ab"):
        parameters = PROLIFIC | {"STUDY_ID": study_id}
        assert new_browser.get("/start", params=parameters).status_code == 303
    assert count(database) == 2


def test_who_has_finished_is_not_asked(annotator: TestClient, copied: Place) -> None:
    answer_until(annotator, "done")
    assert annotator.get(f"/start/{newcomer(copied)}").status_code == 303
    assert view(annotator)["step"] == "question"


@pytest.mark.browser
def test_a_person_decides_about_a_link(server: ThreadServer, context: BrowserContext) -> None:
    page = context.new_page()
    page.goto(server.url)
    page.get_by_role("button", name=TEXT["begin"]).click()
    page.locator('.page[data-step="consent"]').wait_for()
    link = f"{server.url}/start/{newcomer(server.place)}"
    page.goto(link)
    page.get_by_role("link", name=TEXT["keep_participation"].format(current=TITLE)).click()
    page.locator('.page[data-step="consent"]').wait_for()
    page.goto(link)
    page.get_by_role("button", name=TEXT["use_link"]).click()
    page.locator('.page[data-step="question"]').wait_for()
    page.goto(server.url)
    page.get_by_role("button", name=TEXT["continue"]).click()
    page.locator('.page[data-step="consent"]').wait_for()


# ------------------------------------------------------------------------------------ full studies


def test_a_full_study_is_not_offered(
    new_browser: TestClient, app: FastAPI, database: Database
) -> None:
    assert TEXT["begin"] in new_browser.get("/").text
    form = begin_form(new_browser)
    for _ in range(2):  # twelve questions, six for each
        other = enrol(browser_of(app), database)
    page = new_browser.get("/").text
    assert f"<h1>{TITLE}</h1>" in page
    assert TEXT["full"] in page
    assert TEXT["begin"] not in page
    for study in (1, 999, 10**30):
        answer = new_browser.post("/enrol", data=form | {"study": study})
        assert answer.status_code == 410
        assert TEXT["full"] in answer.text
        assert (TEXT["places_taken_title"] in answer.text) == (study == 1)
        assert COOKIE not in new_browser.cookies
    assert TEXT["different_person"] not in other.get("/").text
    with database.writing() as session:
        session.get_one(Participant, 1).seen_at = datetime.now(UTC) - timedelta(days=1)
    assert TEXT["begin"] in new_browser.get("/").text
    assert TEXT["different_person"] in other.get("/").text
    enrol(new_browser, database)
    update_all(database, Study, status="closed")
    assert f">{TEXT['begin']}</button>" not in new_browser.get("/").text
