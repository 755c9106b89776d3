"""The texts and the practice question of a study are about what the study has."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import select

from hsfiq.annotate import practice
from hsfiq.annotate.app import plain_app
from hsfiq.annotate.handlers import Services
from hsfiq.annotate.texts import study_texts
from hsfiq.db.engine import Database
from hsfiq.db.source_tables import Dataset
from hsfiq.db.tables import Study
from hsfiq.kinds import Rules
from hsfiq.kinds.ranking import RANKING
from hsfiq.study.config import SET_NAMES, Questionnaire, config_of, names_sets
from hsfiq.study.instrument import ExtraQuestion
from tests.annotate.page_requests import token_of, view
from tests.annotate.served_studies import Place, begin, browser_of, make_study

GARMENT_WORDS = ("dress", "sleeve", "garment", "shop", "mall", "원피스", "소매")


def practised(database: Database, language: str = "en") -> dict[str, Any]:
    """A new participant's practice question, with the names of the sets."""
    client = browser_of(plain_app(Services.of(database)))
    begin(client, database)
    client.post("/language", json={"language": language, "number": None})
    shown: dict[str, Any] = client.post("/consent", json={"agrees": True}).json()
    return shown | client.get("/opening").json()["study"]


@pytest.mark.parametrize("language", ["en", "ko"])
def test_a_study_of_own_data_does_not_speak_of_garments(place: Place, language: str) -> None:
    database = make_study(
        place, queries=24, presentation={"title": "Lamps", "languages": ("en", "ko")}
    )
    shown = practised(database, language)
    texts = [shown["text"], *shown["explanation"], shown["guidelines"], *shown["set_names"]]
    said = " ".join(texts)
    assert [word for word in GARMENT_WORDS if word in said.lower()] == []
    names = {"en": "Search results {}", "ko": "검색 결과 {}"}[language]
    assert shown["set_names"] == [names.format(1), names.format(2)]
    assert token_of(shown["reference"]) == practice.SHAPES.reference["token"]
    assert practice.image_content("practice-21") is not None
    database.close()


@pytest.mark.parametrize("dataset", ["fashioniq", "drawn"])
def test_a_study_of_garments_practises_with_garments(place: Place, dataset: str) -> None:
    database = make_study(place)
    with database.writing() as session:
        session.scalars(select(Dataset)).one().name = dataset
        study = session.scalars(select(Study)).one()
        study.design = study.design | {"queries": study.design["queries"] | {"dataset": dataset}}
    shown = practised(database)
    assert shown["text"] == "is red and has long sleeves"
    assert token_of(shown["reference"]) == practice.GARMENTS.reference["token"]
    assert shown["set_names"] == ["Shopping Mall 1", "Shopping Mall 2"]
    database.close()


def test_names_that_the_owner_gives_apply_to_every_dataset(place: Place) -> None:
    database = make_study(place, presentation={"set_names": ("A", "B")})
    with database.reading() as session:
        study = session.scalars(select(Study)).one()
        assert study_texts(session, study).set_names == ("A", "B")
        pair = config_of(study)
    assert names_sets(pair)
    assert not names_sets(replace(pair, study=replace(pair.study, set_names=SET_NAMES)))
    database.close()


# ------------------------------------------------------------------------------- the right answer


def test_the_right_answer_of_the_practice_question_is_on_a_random_side(place: Place) -> None:
    """Each participant has their own side, which stays."""
    database = make_study(place, queries=48, recruitment={"enrolments_per_address": 0})
    app, sides = plain_app(Services.of(database)), Counter[int]()
    for _ in range(8):
        client = browser_of(app)
        begin(client, database)
        shown = client.post("/consent", json={"agrees": True}).json()
        side = shown["expected"]["better"]
        red = [token_of(image) for image in shown["sets"][side - 1]]
        assert red == [image["token"] for image in practice.SHAPES.sets[0]]
        assert shown["explanation"][2].startswith(f"Search results {side} is therefore")
        assert shown["sets"] == view(client)["sets"]
        sides[side] += 1
    database.close()


def test_the_sides_are_balanced_over_participants() -> None:
    sides = Counter(practice.places_of("composed", 2, f"token {n}")[1] for n in range(2000))
    assert abs(sides[1] - 1000) < 150


@pytest.mark.parametrize("form", ["composed", "text", "image"])
@pytest.mark.parametrize("n_sets", range(6))
def test_every_set_is_shown_once(form: Any, n_sets: int) -> None:
    places = practice.places_of(form, n_sets, "x")
    shown = practice.sets_of(practice.SHAPES, places, 5)
    assert len(shown) == n_sets
    if n_sets:
        best = practice.SHAPES.sets[practice.BETTER[form] - 1]
        place = places[practice.BETTER[form]]
        assert shown[place - 1] == best
        rules = Rules(points=5, k=5, n_sets=n_sets, ties=False)
        assert practice.expected_of(RANKING, rules, place) == {"order": [place]}


# ------------------------------------------------------------------------------------- the consent


def consent(place: Place, **options: Any) -> str:
    database = make_study(place, **options)
    with TestClient(plain_app(Services.of(database)), follow_redirects=False) as client:
        mode = options.get("recruitment", {}).get("mode")
        if mode == "prolific":
            client.get("/start", params={"PROLIFIC_PID": "5f8e", "STUDY_ID": "64ab"})
        else:
            begin(client, database)
        text: str = view(client)["text"]
    database.close()
    return text


def test_the_consent_says_nothing_that_the_study_does_not_have(place: Place) -> None:
    text = consent(place)
    for absent in ("HIT", "worker", "Prolific", "platform", "further questions", "IDs"):
        assert absent not in text
    assert "choose the set that you prefer" in text
    assert "Withdraw from the study" in text


def test_the_consent_says_what_the_study_has(place: Place) -> None:
    asked = Questionnaire(at_end=(ExtraQuestion("age", "number", "How old are you?"),))
    text = consent(place, recruitment={"mode": "prolific"}, questionnaire=asked)
    assert "the IDs that Prolific sends" in text
    assert "without these IDs" in text
    assert "also those to further questions" in text
    assert "HIT" not in text
