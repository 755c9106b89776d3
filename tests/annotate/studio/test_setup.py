"""The steps' frame: fields that save themselves, undo, two tabs, the study's file; the launch."""

from __future__ import annotations

import json
import tomllib
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import select

from hsfiq.actors import OWNER
from hsfiq.collect.owner import perform, prepare
from hsfiq.collect.studies import find_study
from hsfiq.db.source_tables import Query
from hsfiq.db.studio_tables import DraftChange, Job
from hsfiq.drafts import DraftFile, change_draft, draw
from hsfiq.study.config import config_of
from hsfiq.study.images import BrokenImages
from tests.annotate.studio.conftest import TITLE, StudioClient, fill

STEPS = ("images", "systems", "question", "design", "people", "launch")


def test_every_step_is_shown_without_and_with_data(studio: StudioClient) -> None:
    token = studio.new_draft()
    for step in STEPS:
        assert studio.get(f"draft/{token}/{step}").status_code == 200
    fill(studio, token)
    for step in STEPS:
        assert studio.get(f"draft/{token}/{step}").status_code == 200


def test_a_field_saves_itself_and_can_be_undone(studio: StudioClient) -> None:
    token = studio.new_draft()
    assert studio.save(token, "question", "study.title", "First").status_code == 200
    assert studio.save(token, "question", "study.title", "Second").status_code == 200
    assert studio.draft(token).title == "Second"
    undone = studio.act(f"draft/{token}/question", "undo").json()
    assert (undone["say"], studio.draft(token).title) == ("The last change was undone.", "First")
    studio.act(f"draft/{token}/question", "undo")
    assert studio.draft(token).title == "New study"
    assert studio.act(f"draft/{token}/question", "undo").status_code == 422


@pytest.mark.parametrize(
    ("value", "kind", "stored"),
    [
        ("7", "int", 7),
        (" 7 ", "int", 7),
        ("1,5", "float", 1.5),
        ("seven", "int", "seven"),
        ("", "int", None),
        (True, "bool", True),
        ("a\r\n b \n\n", "list", ["a", "b"]),
        ("a\r\nb", "text", "a\nb"),
    ],
)
def test_values_are_stored_as_study_toml_has_them(
    studio: StudioClient, value: Any, kind: str, stored: Any
) -> None:
    token = studio.new_draft()
    studio.save(token, "design", "design.k", value, type=kind)
    assert studio.draft(token).content.value("design.k", None) == stored


def test_what_is_not_valid_is_kept_and_blocks_the_launch(studio: StudioClient) -> None:
    token = studio.new_draft()
    fill(studio, token)
    page = studio.save(token, "design", "design.k", "many", type="int").json()["page"]
    assert studio.draft(token).content.value("design.k") == "many"
    assert "is not a whole number" in studio.get(f"draft/{token}/launch").text
    refused = studio.act(f"draft/{token}/launch", "open")
    assert (refused.status_code, page != "") == (422, True)


def test_another_tab_does_not_overwrite_a_change(studio: StudioClient) -> None:
    token = studio.new_draft()
    studio.save(token, "question", "study.title", "One")
    late = studio.save(token, "question", "study.title", "Two", seen="New study")
    assert late.status_code == 409
    assert (late.json()["value"], late.json()["by"]) == ("One", "owner")
    assert studio.draft(token).title == "One"
    other = studio.save(token, "question", "study.contact", "a@example.org", seen=None)
    assert other.status_code == 200


def test_the_same_value_again_is_no_conflict_and_no_change(studio: StudioClient) -> None:
    token = studio.new_draft()
    studio.save(token, "question", "study.title", "One")
    assert studio.save(token, "question", "study.title", "One", seen="New study").status_code == 200
    with studio.database.reading() as session:
        assert len(session.scalars(select(DraftChange)).all()) == 1


@pytest.mark.parametrize(
    "given",
    [
        {"field": 5, "value": "x"},
        {"field": "study.title", "value": "a\0b"},
        {"field": "study.title", "value": "\ud800"},
        {"field": "questionnaire.at_end.7.text", "value": "x"},
        {"field": "a." * 2000, "value": "x"},
        {},
    ],
)
def test_hostile_fields_are_refused_or_harmless(
    studio: StudioClient, given: dict[str, Any]
) -> None:
    token = studio.new_draft()
    reply = studio.client.post(
        f"/owner/draft/{token}/question",
        content=json.dumps({"act": "save", "type": "text", **given}),
    )
    assert reply.status_code in (200, 409, 422)
    assert studio.get(f"draft/{token}/question").status_code == 200


def test_the_study_file_has_what_was_entered(studio: StudioClient) -> None:
    token = studio.new_draft()
    fill(studio, token)
    studio.save(token, "question", "study.title", 'A "title"\nin two lines')
    reply = studio.get(f"draft/{token}/study.toml")
    assert tomllib.loads(reply.text)["study"]["title"] == 'A "title"\nin two lines'
    assert reply.headers["content-disposition"] == 'attachment; filename="study.toml"'


def opened(studio: StudioClient) -> str:
    """The token of a draft whose study is open."""
    token = studio.new_draft()
    fill(studio, token)
    name = draw(studio.database, token, OWNER)
    with studio.database.writing() as session:
        study = find_study(session, name)
        assert study is not None
        perform(session, prepare(study, "open"), OWNER)
    return token


def test_a_study_is_drawn_again_until_it_is_opened(studio: StudioClient) -> None:
    token = studio.new_draft()
    fill(studio, token)
    name = draw(studio.database, token, OWNER)
    first = studio.draft(token).study_id
    studio.save(token, "question", "study.title", "Another title")
    assert draw(studio.database, token, OWNER) == name
    with studio.database.reading() as session:
        study = find_study(session, name)
        assert study is not None
        assert (study.title, study.id != first) == ("Another title", True)
    assert studio.draft(token).study_id == study.id


def test_only_words_change_after_the_launch(studio: StudioClient) -> None:
    token = opened(studio)
    changed = studio.save(token, "question", "study.title", "A better title")
    assert changed.status_code == 200
    with studio.database.reading() as session:
        study = find_study(session, studio.draft(token).name)
        assert study is not None
        assert (config_of(study).study.title, study.text_version) == ("A better title", 2)
    assert studio.save(token, "design", "design.k", "3", type="int").status_code == 422
    assert studio.act(f"draft/{token}/question", "undo").status_code == 422
    assert studio.act(f"draft/{token}/launch", "open").status_code == 422


def test_opening_can_be_taken_back(studio: StudioClient) -> None:
    token = studio.new_draft()
    fill(studio, token)
    page = f"draft/{token}/launch"
    assert "Nothing is missing" in studio.get(page).text
    assert studio.act(page, "open").status_code == 200
    assert studio.act(page, "open").status_code == 422
    with studio.database.reading() as session:
        (job,) = session.scalars(select(Job))
    assert job.commands == [["draft", "draw", token, "--open"]]
    assert 8 < (job.not_before - datetime.now(UTC)).total_seconds() <= 10
    assert "Cancel the opening" in studio.get(page).text
    assert studio.act(page, "stop", job=job.id).json()["say"].startswith("Cancelled")
    assert studio.act(page, "open").status_code == 200


def test_the_launch_says_what_is_missing(studio: StudioClient) -> None:
    token = studio.new_draft()
    page = studio.get(f"draft/{token}/launch").text
    assert 'aria-disabled="true"' in page or "aria-disabled=true" in page
    assert studio.act(f"draft/{token}/launch", "open").status_code == 422


def test_a_study_from_a_file_opens_in_the_same_steps(studio: StudioClient) -> None:
    token = studio.new_draft()
    fill(studio, token)
    draw(studio.database, token, OWNER)
    assert studio.act("", "delete_draft", draft=token).status_code == 200
    with studio.database.reading() as session:
        study = find_study(session, "study")
    assert study is not None
    away = studio.client.get(f"/owner/study/{study.id}/setup")
    address = away.headers["location"].removeprefix("../../")
    assert TITLE in studio.get(address).text
    again = studio.client.get(f"/owner/study/{study.id}/setup")
    assert again.headers["location"] == away.headers["location"]


def test_files_may_change_after_an_attempt_to_draw_that_failed(studio: StudioClient) -> None:
    token = studio.new_draft()
    fill(studio, token)
    folder = studio.draft(token).folder
    broken = folder / "images" / "garment-03.png"
    picture = broken.read_bytes()
    broken.write_bytes(picture[:200])
    with pytest.raises(BrokenImages):
        draw(studio.database, token, OWNER)
    broken.write_bytes(picture)
    table = folder / "files" / "queries.csv"
    table.write_text(table.read_text().replace("is green", "is blue"), encoding="utf-8")
    with studio.database.writing() as session:
        file = DraftFile(name="queries.csv", role="queries", size=2)
        change_draft(session, token, OWNER, lambda content: content.with_file(file))
    assert draw(studio.database, token, OWNER) == "study"
    with studio.database.reading() as session:
        texts = session.scalars(select(Query.text)).all()
    assert ("is blue" in texts, "is green" in texts) == (True, False)
