"""Assignments are private and signed for one participant."""

from __future__ import annotations

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from hsfiq.annotate.app import plain_app
from hsfiq.annotate.cookies import COOKIE
from hsfiq.annotate.handlers import Services
from hsfiq.db.engine import Database, open_database
from tests.annotate.page_requests import answer_body, answer_until, check_body, stored, view
from tests.annotate.served_studies import Place, enrol, make_study


@pytest.fixture
def app(database: Database) -> FastAPI:
    """The app without Gradio, which is slow to mount."""
    return plain_app(Services.of(database))


# ----------------------------------------------------------------------------------- assignments


def test_another_participants_assignment_is_refused(
    annotator: TestClient, database: Database
) -> None:
    own_view = view(annotator)
    with TestClient(plain_app(Services.of(database)), follow_redirects=False) as other_annotator:
        enrol(other_annotator, database)
        assert other_annotator.post("/submit", json=answer_body(own_view)).status_code == 403
        assert view(other_annotator)["number"] == 1
    assert stored(database) == []


def test_an_altered_assignment_is_refused(annotator: TestClient, database: Database) -> None:
    current_view = view(annotator)
    signature = current_view["assignment"].rpartition(".")[2]
    for forged in (f"question:2:0.{signature}", f"check:1:0.{signature}", "", ".", "x" * 300):
        body = answer_body(current_view) | {"assignment": forged}
        assert annotator.post("/submit", json=body).status_code == 403
    assert stored(database) == []


def test_a_later_question_cannot_be_seen(annotator: TestClient) -> None:
    assert annotator.get("/question/1").status_code == 200
    for number in (2, 6, 7, 0, -1, 10**30):
        assert annotator.get(f"/question/{number}").status_code == 403
    assert annotator.get("/question/x").status_code == 422


def test_a_checks_assignment_is_not_valid_for_a_question(
    annotator: TestClient, database: Database
) -> None:
    current_view = view(annotator)
    body = {"assignment": current_view["assignment"], "given": "12"}
    assert annotator.post("/check", json=body).status_code == 403


def test_the_signing_key_survives_a_restart(place: Place) -> None:
    database = make_study(place)
    with TestClient(plain_app(Services.of(database)), follow_redirects=False) as before:
        enrol(before, database)
        current_view, cookie = view(before), before.cookies[COOKIE]
    database.close()
    reopened = open_database(place.url)
    with TestClient(plain_app(Services.of(reopened)), cookies={COOKIE: cookie}) as after:
        assert after.post("/submit", json=answer_body(current_view)).status_code == 200
    reopened.close()


def test_another_participants_check_is_refused(annotator: TestClient, database: Database) -> None:
    own_check = answer_until(annotator, "check")
    with TestClient(plain_app(Services.of(database)), follow_redirects=False) as other_annotator:
        enrol(other_annotator, database)
        assert other_annotator.post("/check", json=check_body(own_check)).status_code == 403
