"""Texts that the owner corrects while pages are open."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from hsfiq.annotate.app import plain_app
from hsfiq.annotate.cookies import Assignment, Signer, read_assignment
from hsfiq.annotate.handlers import Services
from hsfiq.collect.owner import perform_edit, prepare_edit
from hsfiq.collect.studies import list_studies
from hsfiq.db.engine import Database
from hsfiq.study.config import config_of
from tests.annotate.page_requests import answer_body, stored, view


@pytest.fixture
def app(database: Database) -> FastAPI:
    return plain_app(Services.of(database))


def correct(database: Database, **texts: Any) -> None:
    """Change texts of the study's table `study`."""
    with database.writing() as session:
        study = list_studies(session)[0]
        config = config_of(study)
        wanted = replace(config, study=replace(config.study, **texts))
        edit = prepare_edit(study, wanted, study.text_version)
        perform_edit(session, edit, datetime.now(UTC))


def test_an_open_page_answers_under_the_texts_that_it_shows(
    annotator: TestClient, database: Database
) -> None:
    first = view(annotator)
    assert first["text_version"] == 1
    correct(database, guidelines="*Corrected.*", set_names=("Left shop", "Right shop"))
    second = annotator.post("/submit", json=answer_body(first)).json()["view"]
    assert second["text_version"] == 2
    opening = annotator.get("/opening").json()
    assert (opening["study"]["text_version"], opening["view"]) == (2, second)
    assert opening["study"]["guidelines"] == "<p><em>Corrected.</em></p>\n"
    assert opening["study"]["set_names"] == ["Left shop", "Right shop"]
    annotator.post("/submit", json=answer_body(second))
    assert [row.text_version for row in stored(database)] == [1, 2]


def test_a_revised_answer_has_the_version_under_which_it_was_revised(
    annotator: TestClient, database: Database
) -> None:
    annotator.post("/submit", json=answer_body(view(annotator)))
    correct(database, title="Corrected")
    again = answer_body(view(annotator, 1), key="a" * 16, score_2=1)
    assert annotator.post("/submit", json=again).status_code == 200
    assert [(row.revision, row.text_version) for row in stored(database)] == [(1, 1), (2, 2)]


def test_a_page_from_before_versions_were_recorded_can_still_answer() -> None:
    signer = Signer(b"key")
    old = signer.sign("assignment of p", "question:7:1")
    assert read_assignment(signer, "p", old, "question") == Assignment("question", 7, 1)
    new = Assignment("question", 7, 1, 3)
    assert read_assignment(signer, "p", new.signed(signer, "p"), "question") == new
