"""Which language a participant reads, and the language that each answer records."""

from __future__ import annotations

import re

import pytest
from fastapi.testclient import TestClient
from playwright.sync_api import expect
from sqlalchemy import select

from hsfiq.annotate.app import build_app, plain_app
from hsfiq.annotate.handlers import Services
from hsfiq.collect.participants import invite
from hsfiq.collect.studies import list_studies
from hsfiq.db.tables import Participant
from hsfiq.study.config import Translation
from hsfiq.study.languages import LANGUAGES, leaves, preferred, standard_texts
from tests.annotate.page_requests import answer_body, begin_form, stored
from tests.annotate.question_page import OpenPage, expect_step, press
from tests.annotate.served_studies import Place, ThreadServer, begin, make_study
from tests.studies import NOW

GERMAN = Translation(
    title="Welche Auswahl passt?",
    consent="Ich nehme teil.",
    texts={"name": "Deutsch", "entry": {"begin": "Beginnen"}},
)


def two_languages(place: Place) -> tuple[TestClient, Services]:
    """A study in English and German, and a browser without a cookie."""
    presentation = {"languages": ("en", "de"), "translations": {"de": GERMAN}}
    services = Services.of(make_study(place, presentation=presentation))
    return TestClient(plain_app(services), follow_redirects=False), services


def languages_of_participants(services: Services) -> list[str | None]:
    with services.database.reading() as session:
        return list(session.scalars(select(Participant.language).order_by(Participant.id)))


def test_the_welcome_page_offers_the_languages_of_the_study(place: Place) -> None:
    client, services = two_languages(place)
    german = client.get("/", headers={"Accept-Language": "de-AT,en;q=0.5"}).text
    assert "Welche Auswahl passt?" in german
    assert 'lang="de" dir="ltr" hreflang="de" aria-current="true">Deutsch</a>' in german
    assert 'lang="en" dir="ltr" hreflang="en">English</a>' in german
    assert '<input type="hidden" name="language" value="de">' in german
    english = client.get("/?language=en", headers={"Accept-Language": "de"}).text
    assert '<input type="hidden" name="language" value="en">' in english
    assert '<input type="hidden" name="language" value="en">' in client.get("/?language=fr").text
    services.database.close()


def test_each_answer_records_the_language_of_its_page(place: Place) -> None:
    client, services = two_languages(place)
    client.post("/enrol", data=begin_form(client, language="de"))
    assert "Ich nehme teil." in client.get("/question").json()["text"]
    assert "Welche Auswahl passt?" in client.get("/").text
    client.post("/consent", json={"agrees": True})
    question = client.post("/practice", json={}).json()
    with services.database.writing() as session:
        session.scalars(select(Participant)).one().language = "en"
    assert client.post("/submit", json=answer_body(question)).status_code == 200
    (row,) = stored(services.database)
    assert row.language == "de"
    services.database.close()


def test_links_follow_the_browser_unless_the_invitation_names_a_language(place: Place) -> None:
    client, services = two_languages(place)
    with services.database.writing() as session:
        study = list_studies(session)[0]
        tokens = [
            invite(session, study.id, 1, now=NOW, language=language)[0].token
            for language in (None, "en", None)
        ]
    for token in tokens[:2]:
        client.cookies.clear()
        client.get(f"/start/{token}", headers={"Accept-Language": "de"})
    assert languages_of_participants(services) == ["de", "en", None]
    services.database.close()


def test_a_participant_of_before_reads_the_first_language(place: Place) -> None:
    client, services = two_languages(place)
    begin(client, services.database)
    with services.database.writing() as session:
        session.scalars(select(Participant)).one().language = None
    assert "You are invited" in client.get("/question").json()["text"]
    services.database.close()


def test_another_language_can_be_chosen_at_any_step(place: Place) -> None:
    client, services = two_languages(place)
    begin(client, services.database)
    german = client.post("/language", json={"language": "de", "number": None}).json()
    assert (german["step"], german["language"]) == ("consent", "de")
    assert "Ich nehme teil." in german["text"]
    client.post("/consent", json={"agrees": True})
    question = client.post("/practice", json={}).json()
    client.post("/submit", json=answer_body(question))
    first = client.post("/language", json={"language": "en", "number": 1}).json()
    assert (first["number"], first["language"]) == (1, "en")
    assert first["earlier"] is not None
    assert languages_of_participants(services) == ["en"]
    opened = client.get("/opening").json()["study"]
    assert [(each["tag"], each["name"]) for each in opened["languages"]] == [
        ("en", "English"), ("de", "Deutsch"),
    ]  # fmt: skip
    for payload in ({"language": "fr", "number": None}, {"language": "de"}):
        assert client.post("/language", json=payload).status_code == 422
    assert languages_of_participants(services) == ["en"]
    services.database.close()


@pytest.mark.browser
def test_changing_the_language_keeps_what_was_entered(place: Place, open_page: OpenPage) -> None:
    arabic = Translation(texts={"name": "العربية", "page": {"next": "التالي"}})
    database = make_study(
        place, presentation={"languages": ("en", "ar"), "translations": {"ar": arabic}}
    )
    server = ThreadServer(place, database, build_app(database))
    server.start()
    page = open_page(server, is_ready=False)
    page.locator(".consent .languages button").click()
    expect(page.locator(".page")).to_have_attribute("dir", "rtl")
    expect(page.locator(".page[data-step=consent]")).to_be_visible()
    page.locator(".consent .languages button").click()
    expect(page.locator(".page")).to_have_attribute("dir", "ltr")
    page = open_page(server)
    expect_step(page, "question", "1 / 6")
    press(page, "4", "q")
    page.locator(".open-guidelines").click()
    page.locator(".guidelines .languages button").click()
    expect(page.locator(".page")).to_have_attribute("lang", "ar")
    expect(page.locator(".next-label")).to_have_text("التالي")
    expect(page.locator(".guidelines .languages button")).to_have_text("English")
    expect(page.locator(".notice")).to_be_hidden()
    page.locator(".guidelines .close").click()
    expect(page.locator("input[name=score_1][value='4']")).to_be_checked()
    expect(page.locator("input[name=preferred][value='1']")).to_be_checked()
    press(page, "Shift+Digit2", "Enter")
    expect_step(page, "question", "2 / 6")
    (row,) = stored(database)
    assert (row.score_1, row.score_2, row.preferred, row.language) == (4, 2, 1, "ar")
    server.stop()
    database.close()


def gaps(value: object) -> object:
    """The structure of texts: keys, lengths of lists, and placeholders."""
    if isinstance(value, dict):
        return {key: gaps(part) for key, part in value.items()}
    if isinstance(value, list):
        return [gaps(part) for part in value]
    return sorted(set(re.findall(r"\{\w+\}", str(value))))


def test_every_language_has_every_text() -> None:
    assert LANGUAGES == ("en", "ko")
    assert gaps(standard_texts("ko")) == gaps(standard_texts("en"))
    for language in LANGUAGES:
        assert all(str(text).strip() for _, text in leaves(standard_texts(language)))


def test_the_anchors_are_those_of_the_papers() -> None:
    assert standard_texts("en")["page"]["anchors"] == [
        "Does not match at all",
        "Does not match",
        "Matches to an average degree",
        "Matches",
        "Matches very well",
    ]


@pytest.mark.parametrize(("accepted", "language"), [
    ("", "en"), ("ko-KR,ko;q=0.9,en;q=0.8", "ko"), ("de, EN-gb;q=0.5, ko;q=0.1", "en"), ("*", "en"),
])  # fmt: skip
def test_an_unknown_browser_gets_its_own_language(accepted: str, language: str) -> None:
    assert preferred(accepted, LANGUAGES) == language
