"""Texts and languages of a study are about what the study has; each answer records its language."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import pytest
from fastapi.testclient import TestClient
from playwright.sync_api import expect
from sqlalchemy import select, update

from hsfiq.annotate import drawn_practice
from hsfiq.annotate.texts import standard_consent, standard_guidelines, study_texts
from hsfiq.answer_rules import ImageStates
from hsfiq.collect.participant_row import StudyRow
from hsfiq.collect.participants import invite
from hsfiq.collect.studies import list_studies
from hsfiq.db.engine import Database
from hsfiq.db.source_tables import Dataset, Image, Query, Triplet
from hsfiq.db.tables import Participant, Study
from hsfiq.kinds import Rules
from hsfiq.kinds.ranking import RANKING
from hsfiq.study.config import (
    Checks,
    Design,
    Presentation,
    QueryForm,
    Questionnaire,
    StudyConfig,
    Translation,
    query_form,
)
from hsfiq.study.instrument import ExtraQuestion
from hsfiq.study.languages import (
    FOLDER,
    LANGUAGES,
    leaves,
    preferred,
    read,
    standard_texts,
    worded_texts,
)
from tests.annotate.page_requests import (
    answer_body,
    answer_until,
    begin_form,
    stored,
    token_of,
    view,
)
from tests.annotate.question_page import OpenPage, answer, boxes, expect_step, press, resize
from tests.annotate.served_studies import (
    K,
    Place,
    Serve,
    ServeStudy,
    Visit,
    all_of,
    begin,
    make_study,
    plain_browser,
    update_all,
)
from tests.studies import NOW

GERMAN = Translation(
    title="Welche Auswahl passt?",
    consent="Ich nehme teil.",
    texts={"name": "Deutsch", "entry": {"begin": "Beginnen"}},
)
TWO_LANGUAGES = {"languages": ("en", "de"), "translations": {"de": GERMAN}}
BY_PARTICIPANT = select(Participant.language).order_by(Participant.id)


@pytest.fixture
def in_two_languages(visit: Visit) -> tuple[TestClient, Database]:
    """A browser for a study in English and German."""
    return visit(presentation=TWO_LANGUAGES)


def test_the_welcome_page_offers_the_languages_of_the_study(
    in_two_languages: tuple[TestClient, Database],
) -> None:
    client, _ = in_two_languages
    german = client.get("/", headers={"Accept-Language": "de-AT,en;q=0.5"}).text
    assert "Welche Auswahl passt?" in german
    assert 'lang="de" dir="ltr" hreflang="de" aria-current="true">Deutsch</a>' in german
    assert 'lang="en" dir="ltr" hreflang="en">English</a>' in german
    assert '<input type="hidden" name="language" value="de">' in german
    english = client.get("/?language=en", headers={"Accept-Language": "de"}).text
    assert '<input type="hidden" name="language" value="en">' in english
    assert '<input type="hidden" name="language" value="en">' in client.get("/?language=fr").text


def test_each_answer_records_the_language_of_its_page(
    in_two_languages: tuple[TestClient, Database],
) -> None:
    client, database = in_two_languages
    client.post("/enrol", data=begin_form(client, language="de"))
    assert "Ich nehme teil." in view(client)["text"]
    assert "Welche Auswahl passt?" in client.get("/").text
    update_all(database, language=None)  # of a participant of before: the first language
    assert "You are invited" in view(client)["text"]
    update_all(database, language="de")
    client.post("/consent", json={"agrees": True})
    question = client.post("/practice", json={}).json()
    update_all(database, language="en")
    assert client.post("/submit", json=answer_body(question)).status_code == 200
    assert [row.language for row in stored(database)] == ["de"]


def test_links_follow_the_browser_unless_the_invitation_names_a_language(
    in_two_languages: tuple[TestClient, Database],
) -> None:
    client, database = in_two_languages
    with database.writing() as session:
        study = list_studies(session)[0]
        tokens = [
            invite(session, study.id, 1, now=NOW, language=language)[0].token
            for language in (None, "en", None)
        ]
    for token in tokens[:2]:
        client.cookies.clear()
        client.get(f"/start/{token}", headers={"Accept-Language": "de"})
    assert all_of(database, BY_PARTICIPANT) == ["de", "en", None]


def test_another_language_can_be_chosen_at_any_step(
    in_two_languages: tuple[TestClient, Database],
) -> None:
    client, database = in_two_languages
    begin(client, database)
    german = client.post("/language", json={"language": "de", "number": None}).json()
    assert (german["step"], german["language"]) == ("consent", "de")
    assert "Ich nehme teil." in german["text"]
    client.post("/consent", json={"agrees": True})
    question = client.post("/practice", json={}).json()
    client.post("/submit", json=answer_body(question))
    first = client.post("/language", json={"language": "en", "number": 1}).json()
    assert (first["number"], first["language"]) == (1, "en")
    assert first["earlier"] is not None
    assert all_of(database, BY_PARTICIPANT) == ["en"]
    languages = client.get("/opening").json()["study"]["languages"]
    named = [(each["tag"], each["name"]) for each in languages]
    assert named == [("en", "English"), ("de", "Deutsch")]
    for payload in ({"language": "fr", "number": None}, {"language": "de"}):
        assert client.post("/language", json=payload).status_code == 422
    assert all_of(database, BY_PARTICIPANT) == ["en"]


@pytest.mark.browser
def test_changing_the_language_keeps_what_was_entered(
    serve_study: ServeStudy, open_page: OpenPage
) -> None:
    arabic = Translation(texts={"name": "العربية", "page": {"next": "التالي"}})
    server = serve_study(presentation={"languages": ("en", "ar"), "translations": {"ar": arabic}})
    page = open_page(server, is_ready=False)
    page.locator(".consent .languages button").click()
    expect(page.locator(".page")).to_have_attribute("dir", "rtl")
    expect(page.locator(".page[data-step=consent]")).to_be_visible()
    page.locator(".consent .languages button").click()
    expect(page.locator(".page")).to_have_attribute("dir", "ltr")
    page = open_page(server)
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
    (row,) = stored(server.database)
    assert (row.score_1, row.score_2, row.preferred, row.language) == (4, 2, 1, "ar")


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
    anchors = standard_texts("en", "papers")["page"]["anchors"]
    assert anchors[:3] == [
        "Does not match at all",
        "Does not match",
        "Matches to an average degree",
    ]
    assert anchors[3:] == ["Matches", "Matches very well"]


@pytest.mark.parametrize(("accepted", "language"), [
    ("", "en"), ("ko-KR,ko;q=0.9,en;q=0.8", "ko"), ("de, EN-gb;q=0.5, ko;q=0.1", "en"), ("*", "en"),
])  # fmt: skip
def test_an_unknown_browser_gets_its_own_language(accepted: str, language: str) -> None:
    assert preferred(accepted, LANGUAGES) == language


GARMENT_WORDS = ("dress", "sleeve", "garment", "shop", "mall", "원피스", "소매")


def practised(database: Database, language: str = "en") -> dict[str, Any]:
    """A new participant's practice question, with the names of the sets."""
    client = begin(plain_browser(database), database)
    client.post("/language", json={"language": language, "number": None})
    shown: dict[str, Any] = client.post("/consent", json={"agrees": True}).json()
    return shown | client.get("/opening").json()["study"]


@pytest.mark.parametrize("language", ["en", "ko"])
def test_a_study_of_own_data_does_not_speak_of_garments(visit: Visit, language: str) -> None:
    _, database = visit(presentation={"title": "Lamps", "languages": ("en", "ko")})
    shown = practised(database, language)
    texts = [shown["text"], *shown["explanation"], shown["guidelines"], *shown["set_names"]]
    said = " ".join(texts).lower()
    assert [word for word in GARMENT_WORDS if word in said] == []
    names = {"en": "Set {}", "ko": "세트 {}"}[language]
    assert shown["set_names"] == [names.format(1), names.format(2)]
    assert token_of(shown["reference"]) == drawn_practice.SHAPES.reference["token"]
    assert drawn_practice.image_content("practice-21") is not None


@pytest.mark.parametrize("dataset", ["fashioniq", "drawn"])
def test_a_study_of_garments_practises_with_garments(visit: Visit, dataset: str) -> None:
    _, database = visit()
    with database.writing() as session:
        session.scalars(select(Dataset)).one().name = dataset
        study = session.scalars(select(Study)).one()
        study.design = study.design | {"queries": study.design["queries"] | {"dataset": dataset}}
    shown = practised(database)
    assert shown["text"] == "is red and has long sleeves"
    assert token_of(shown["reference"]) == drawn_practice.GARMENTS.reference["token"]
    assert shown["set_names"] == ["Set 1", "Set 2"]


@pytest.mark.parametrize(("language", "mall"), [("en", "Shopping Mall 1"), ("ko", "쇼핑몰 1")])
def test_the_instrument_of_the_papers_has_their_words(
    visit: Visit, language: str, mall: str
) -> None:
    papers = {"instrument": "papers", "languages": ("en", "ko")}
    _, database = visit(presentation=papers)
    with database.reading() as session:
        texts = study_texts(session, StudyRow.of(session.scalars(select(Study)).one()), language)
    assert texts.set_names[0] == mall
    assert texts.page["anchors"] == standard_texts(language, "papers")["page"]["anchors"]
    assert texts.page["anchors"] != standard_texts(language)["page"]["anchors"]
    assert ("choose the set that you prefer" in texts.guidelines) == (language == "en")
    assert ("어느 세트가 더 나은지" in texts.guidelines) == (language == "ko")


@pytest.mark.parametrize(("dataset", "names"), [
    ("drawn", ("Shopping Mall 1", "Shopping Mall 2")),
    ("lamps", ("Search results 1", "Search results 2")),
])  # fmt: skip
def test_studies_from_before_instruments_had_names_keep_their_words(
    visit: Visit, dataset: str, names: tuple[str, str]
) -> None:
    _, database = visit()
    with database.writing() as session:
        study = session.scalars(select(Study)).one()
        stored = dict(study.design["study"], set_names=["Shopping Mall 1", "Shopping Mall 2"])
        del stored["instrument"]
        queries = study.design["queries"] | {"dataset": dataset}
        study.design = study.design | {"study": stored, "queries": queries}
    with database.reading() as session:
        texts = study_texts(session, StudyRow.of(session.scalars(select(Study)).one()))
    assert (texts.set_names, texts.page["i_prefer"]) == (names, "I prefer")


def test_names_that_the_owner_gives_apply_to_every_dataset(visit: Visit) -> None:
    _, database = visit(presentation={"set_names": ("A", "B")})
    with database.reading() as session:
        study = session.scalars(select(Study)).one()
        assert study_texts(session, StudyRow.of(study)).set_names == ("A", "B")


# ------------------------------------------------------------------------------- the right answer


def test_the_right_answer_of_the_practice_question_is_on_a_random_side(visit: Visit) -> None:
    """Each participant has their own side, which stays."""
    _, database = visit(queries=24)
    for _ in range(4):
        client = begin(plain_browser(database), database)
        shown = client.post("/consent", json={"agrees": True}).json()
        side = shown["expected"]["better"]
        red = [token_of(image) for image in shown["sets"][side - 1]]
        assert red == [image["token"] for image in drawn_practice.SHAPES.sets[0]]
        assert shown["explanation"][2].startswith(f"Set {side} therefore matches")
        assert shown["sets"] == view(client)["sets"]
    sides = Counter(drawn_practice.places_of("composed", 2, f"token {n}")[1] for n in range(2000))
    assert abs(sides[1] - 1000) < 150


@pytest.mark.parametrize("form", ["composed", "text", "image"])
@pytest.mark.parametrize("n_sets", range(6))
def test_every_set_is_shown_once(form: Any, n_sets: int) -> None:
    places = drawn_practice.places_of(form, n_sets, "x")
    shown = drawn_practice.sets_of(drawn_practice.SHAPES, places, 5)
    assert len(shown) == n_sets
    if n_sets:
        best = drawn_practice.SHAPES.sets[drawn_practice.BETTER[form] - 1]
        place = places[drawn_practice.BETTER[form]]
        assert shown[place - 1] == best
        rules = Rules(points=5, k=5, n_sets=n_sets, ties=False)
        assert drawn_practice.expected_of(RANKING, rules, place) == {"order": [place]}


# ------------------------------------------------------------------------------------- the consent


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_consent_names_who_carries_out_the_study(language: str) -> None:
    own = Presentation("s", "S", institution="Lab *X*", contact="x@lab.org", ethics="board 7")
    texts = standard_texts(language)
    entry, page = {"task": "Look."}, texts["page"]
    named = standard_consent(language, StudyConfig(own), entry, page)
    plain_text = named.replace("\\", "")
    assert all(text in plain_text for text in ("Lab *X*", "x@lab.org", "board 7"))
    assert "Lab *X*" not in named  # which would be emphasis
    without = standard_consent(language, StudyConfig(Presentation("s", "S")), entry, page)
    assert [line for line in named.splitlines() if line not in without.splitlines()] == [
        line for line in named.splitlines() if "Lab" in line or "lab" in line or "board" in line
    ]
    assert "\n\n\n" not in without


FILES = sorted(path.name for path in FOLDER.glob("guidelines.*.md"))

REASON, SUM, ORDER = "reason for your answer", "simple sum", "order of the images"


def written(name: str, checks: Checks | None = None, **design: int | bool) -> str:
    config = StudyConfig(Presentation("s", "S"), Design(**design), checks or Checks())  # type: ignore[arg-type]
    page = standard_texts(name.split(".")[-2])["page"]
    return standard_guidelines(name, config, ["Our *search*", "Theirs"], page)


@pytest.mark.parametrize("name", FILES)
def test_every_design_gives_complete_guidelines(name: str) -> None:
    for k in (1, 5, 10):
        for ties in (True, False):
            for reason_every in (0, 1, 7):
                text = written(name, k=k, preference_ties=ties, reason_every=reason_every)
                assert "{" not in text
                assert "\n\n\n" not in text
                assert "dataset" not in text
                assert "shop" not in text


@pytest.mark.parametrize(
    "name", ["guidelines.en.md", "guidelines.text.en.md", "guidelines.image.en.md"]
)
def test_notes_are_those_of_the_design(name: str) -> None:
    usual = written(name)
    assert "5 images" in usual
    assert ORDER in usual
    assert standard_texts("en")["page"]["tie"] not in usual
    assert f"Each question asks for the {REASON}" in written(name, reason_every=1)
    assert ORDER not in written(name, k=1)
    assert f'"{standard_texts("en")["page"]["tie"]}"' in written(name, preference_ties=True)


@pytest.mark.parametrize("name", [name for name in FILES if name.endswith(".en.md")])
def test_reasons_and_sums_are_announced_where_they_are_asked(name: str) -> None:
    assert REASON not in written(name)
    # Searches end with a remark instead.
    asks = name not in ("guidelines.search.en.md", "guidelines.arena.en.md")
    assert (f"Some questions ask for the {REASON}" in written(name, reason_every=7)) == asks
    assert "There is a " + SUM in written(name)
    assert SUM not in written(name, forms_per_participant=1)
    assert SUM not in written(name, Checks(arithmetic=False))


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_target_is_mentioned_where_it_is_shown(language: str) -> None:
    name, config = f"guidelines.query.{language}.md", StudyConfig(Presentation("s", "S"))
    page = standard_texts(language)["page"]
    verdict = page["verdicts"]["INVALID_TARGET_IMAGE"].split(":")[0]
    shown = standard_guidelines(name, config, ["The right one"], page)
    assert verdict in shown
    assert "The right one" in shown
    assert verdict not in standard_guidelines(name, config, [], page)
    assert page["tie"] in written(f"guidelines.{language}.md", preference_ties=True)


def test_the_sets_have_their_names() -> None:
    assert r"Our \*search\* and Theirs: each contains 10 images" in written(
        "guidelines.en.md", k=10
    )
    assert "Theirs: each contains one image" in written("guidelines.en.md", k=1)


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
def test_answers_are_stored_with_states_of_images_there_are(place: Place, form: QueryForm) -> None:
    database = partial_study(place, form)
    client = plain_browser(database)
    assert worded_texts("en", form)["entry"]["task"] in client.get("/").text
    begin(client, database)
    practice_view = client.post("/consent", json={"agrees": True}).json()
    question = client.post("/practice", json={}).json()
    for shown in (practice_view, question):
        assert (shown["reference"] is None) == (form == "text")
        assert (shown["text"] == "") == (form == "image")
    # Images 12 to 16 are what the text asks for, the next five resemble the reference.
    better = practice_view["sets"][practice_view["expected"]["better"] - 1]
    numbers = {int(image["token"].removeprefix("practice-")) for image in better}
    assert numbers == set(range(17, 22) if form == "image" else range(12, 17))
    body = answer_body(question)
    wrong = body["images"] | {"reference": "shown" if form == "text" else None}
    assert client.post("/submit", json=body | {"images": wrong}).status_code == 422
    assert client.post("/submit", json=body).status_code == 200
    assert view(client)["number"] == 2
    (row,) = stored(database)
    sets = (("shown",) * K, ("shown",) * K)
    reference = None if form == "text" else "shown"
    assert ImageStates.from_letters(row.images or "") == ImageStates(reference, sets)
    with database.reading() as session:
        assert query_form(session, list_studies(session)[0].id) == form
    # With queries of both kinds, the wording is the general one.
    with database.writing() as session:
        query = session.scalars(select(Query)).first()
        assert query is not None
        query.text = "is red" if form == "image" else ""
        query.triplet.reference_id = session.scalars(select(Image.id)).first()
        assert query_form(session, list_studies(session)[0].id) == "composed"
    assert answer_until(client, "done")["answered"] == 6
    database.close()


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("form", FORMS)
def test_the_wording_replaces_texts_that_exist(form: QueryForm, language: str) -> None:
    usual, worded = (worded_texts(language, kind) for kind in ("composed", form))
    assert usual["page"].keys() == worded["page"].keys()
    assert usual["entry"].keys() == worded["entry"].keys()
    assert usual["page"]["shortcuts"].keys() == worded["page"]["shortcuts"].keys()
    assert len(usual["page"]["practice_explanation"]) == len(worded["page"]["practice_explanation"])
    assert usual["page"]["irrelevant_help"] != worded["page"]["irrelevant_help"]
    assert read(f"guidelines.{form}.{language}.md") != read(f"guidelines.{language}.md")
    assert (FOLDER / f"{form}_queries.{language}.json").is_file()


@pytest.mark.browser
@pytest.mark.parametrize(("form", "language"), [("text", "en"), ("image", "ko")])
def test_the_page_shows_what_the_query_has(
    place: Place, serve: Serve, open_page: OpenPage, form: QueryForm, language: str
) -> None:
    partial_study(place, form, language).close()
    page = open_page(serve(place), 1280, 800)
    words = worded_texts(language, form)["page"]
    text, reference = page.locator(".user-text"), page.locator(".reference")
    for number, (width, height) in enumerate(((1280, 800), (390, 844)), start=1):
        resize(page, width, height)
        expect_step(page, "question", f"{number} / 6")
        if form == "text":
            expect(reference).to_be_hidden()
            expect(page.locator(".user-text-label")).to_have_text(words["user_text"])
            (box,) = boxes(page, ".user-text")
            assert box.left < 60
        else:
            expect(text).to_be_hidden()
            expect(reference.locator("img")).to_be_visible()
        page.locator(".set .frame").first.click()
        expect(page.locator(".zoom-image img")).to_be_visible()
        assert page.locator(".zoom-reference").is_hidden() == (form == "text")
        page.keyboard.press("Escape")
        page.locator(".main:focus").wait_for()
        answer(page)
    expect_step(page, "question", "3 / 6")


def test_the_consent_says_what_the_study_has_and_nothing_else(visit: Visit) -> None:
    client, database = visit()
    text = view(begin(client, database))["text"]
    for absent in ("HIT", "worker", "Prolific", "platform", "further questions", "IDs"):
        assert absent not in text
    assert "choose the set that matches better" in text
    assert "Withdraw from the study" in text


def test_the_consent_says_what_platforms_send_and_what_is_asked_at_the_end(visit: Visit) -> None:
    asked = Questionnaire(at_end=(ExtraQuestion("age", "number", "How old are you?"),))
    client, _ = visit(recruitment={"mode": "prolific"}, questionnaire=asked)
    client.get("/start", params={"PROLIFIC_PID": "5f8e", "STUDY_ID": "64ab"})
    text = view(client)["text"]
    assert "the IDs that Prolific sends" in text
    assert "without these IDs" in text
    assert "also those to further questions" in text
    assert "HIT" not in text
