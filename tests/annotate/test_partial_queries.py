"""Studies whose queries are a text or an image alone: wording, page and stored states."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from fastapi.testclient import TestClient
from playwright.sync_api import expect
from sqlalchemy import update

from hsfiq.annotate.app import plain_app
from hsfiq.annotate.handlers import Services
from hsfiq.answer_rules import ImageStates
from hsfiq.collect.studies import list_studies
from hsfiq.db.engine import Database
from hsfiq.db.source_tables import Query, Triplet
from hsfiq.study.config import QueryForm, query_form
from hsfiq.study.languages import FOLDER, LANGUAGES, read, worded_texts
from tests.annotate.page_requests import answer_body, answer_until, stored, view
from tests.annotate.question_page import OpenPage, answer, expect_step
from tests.annotate.served_studies import K, Place, ThreadServer, begin, enrol, make_study

Serve = Callable[[Place], ThreadServer]
FORMS: tuple[QueryForm, ...] = ("text", "image")


def partial_study(place: Place, form: QueryForm, language: str = "en") -> Database:
    database = make_study(place, presentation={"languages": (language,)})
    with database.writing() as session:
        if form == "text":
            session.execute(update(Triplet).values(reference_id=None))
        else:
            session.execute(update(Triplet).values(captions=[]))
            session.execute(update(Query).values(text=""))
    return database


@pytest.mark.parametrize("form", FORMS)
def test_answers_are_stored_with_the_states_of_the_images_there_are(
    place: Place, form: QueryForm
) -> None:
    database = partial_study(place, form)
    with TestClient(plain_app(Services.of(database)), follow_redirects=False) as client:
        assert worded_texts("en", form)["entry"]["task"] in client.get("/").text
        begin(client, database)
        practice = client.post("/consent", json={"agrees": True}).json()
        assert (practice["reference"] is None) == (form == "text")
        assert (practice["text"] == "") == (form == "image")
        # Images 12 to 16 are what the text asks for, the next five resemble the reference.
        better = practice["sets"][practice["expected"]["better"] - 1]
        numbers = {int(image["token"].removeprefix("practice-")) for image in better}
        assert numbers == set(range(17, 22) if form == "image" else range(12, 17))
        question = client.post("/practice", json={}).json()
        assert (question["reference"] is None) == (form == "text")
        assert (question["text"] == "") == (form == "image")
        body = answer_body(question)
        wrong = "shown" if form == "text" else None
        refused = client.post(
            "/submit", json=body | {"images": body["images"] | {"reference": wrong}}
        )
        assert refused.status_code == 422
        assert client.post("/submit", json=body).status_code == 200
        assert view(client)["number"] == 2
    (row,) = stored(database)
    sets = (("shown",) * K, ("shown",) * K)
    reference = None if form == "text" else "shown"
    assert ImageStates.from_letters(row.images or "") == ImageStates(reference, sets)
    with database.reading() as session:
        (study,) = list_studies(session)
        assert query_form(session, study) == form
    database.close()


def test_a_study_with_both_kinds_of_queries_has_the_general_wording(place: Place) -> None:
    database = make_study(place)
    with database.writing() as session:
        session.execute(update(Triplet).where(Triplet.id == 1).values(reference_id=None))
        session.execute(update(Query).where(Query.id == 2).values(text=""))
        (study,) = list_studies(session)
        assert query_form(session, study) == "composed"
    with TestClient(plain_app(Services.of(database)), follow_redirects=False) as client:
        enrol(client, database)
        assert answer_until(client, "done")["answered"] == 6
    assert len(stored(database)) == 6
    database.close()


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("form", FORMS)
def test_the_wording_replaces_texts_that_exist(form: QueryForm, language: str) -> None:
    usual, worded = (worded_texts(language, kind) for kind in ("composed", form))
    assert usual["page"].keys() == worded["page"].keys()
    assert usual["entry"].keys() == worded["entry"].keys()
    assert usual["page"]["shortcuts"].keys() == worded["page"]["shortcuts"].keys()
    assert len(usual["page"]["practice_explanation"]) == len(worded["page"]["practice_explanation"])
    assert usual["page"]["irrelevant"] != worded["page"]["irrelevant"]
    assert read(f"guidelines.{form}.{language}.md") != read(f"guidelines.{language}.md")
    assert (FOLDER / f"{form}_queries.{language}.json").is_file()


@pytest.mark.browser
@pytest.mark.parametrize(("form", "language"), [("text", "en"), ("image", "ko")])
@pytest.mark.parametrize(("width", "height"), [(1280, 800), (390, 844)])
def test_the_page_shows_what_the_query_has(
    place: Place,
    serve: Serve,
    open_page: OpenPage,
    form: QueryForm,
    language: str,
    width: int,
    height: int,
) -> None:
    partial_study(place, form, language).close()
    page = open_page(serve(place), width, height)
    words = worded_texts(language, form)["page"]
    text, reference = page.locator(".user-text"), page.locator(".reference")
    if form == "text":
        expect(text).to_be_visible()
        expect(reference).to_be_hidden()
        expect(page.locator(".user-text-label")).to_have_text(words["user_text"])
        box = text.bounding_box()
        assert box is not None
        assert box["x"] < 60
    else:
        expect(text).to_be_hidden()
        expect(reference.locator("img")).to_be_visible()
    page.locator(".set .frame").first.click()
    expect(page.locator(".zoom-image img")).to_be_visible()
    assert page.locator(".zoom-reference").is_hidden() == (form == "text")
    page.keyboard.press("Escape")
    page.locator(".main:focus").wait_for()
    answer(page)
    expect_step(page, "question", "2 / 6")
