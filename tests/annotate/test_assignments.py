"""Images and assignments are private and signed for one participant."""

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
    """The app without Gradio, which takes its time to be mounted."""
    return plain_app(Services.of(database))


# ----------------------------------------------------------------------------------- images


def test_images_are_private_and_cached_permanently(annotator: TestClient) -> None:
    token = view(annotator)["reference"]["token"]
    answer = annotator.get(f"/image/{token}")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "image/webp"
    assert answer.headers["cache-control"] == "private, max-age=31536000, immutable"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert not {"etag", "last-modified", "content-disposition"} & set(answer.headers)


# ----------------------------------------------------------------------------------- assignments


def test_another_participants_assignment_is_refused(
    annotator: TestClient, database: Database
) -> None:
    mine = view(annotator)
    with TestClient(plain_app(Services.of(database)), follow_redirects=False) as other:
        enrol(other, database)
        assert other.post("/submit", json=answer_body(mine)).status_code == 403
        assert view(other)["number"] == 1
    assert stored(database) == []


def test_an_altered_assignment_is_refused(annotator: TestClient, database: Database) -> None:
    shown = view(annotator)
    signature = shown["assignment"].rpartition(".")[2]
    for forged in (f"question:2:0.{signature}", f"check:1:0.{signature}", "", ".", "x" * 300):
        body = answer_body(shown) | {"assignment": forged}
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
    shown = view(annotator)
    body = {"assignment": shown["assignment"], "given": "12"}
    assert annotator.post("/check", json=body).status_code == 403


def test_the_signing_key_survives_a_restart(place: Place) -> None:
    database = make_study(place)
    with TestClient(plain_app(Services.of(database)), follow_redirects=False) as before:
        enrol(before, database)
        shown, cookie = view(before), before.cookies[COOKIE]
    database.close()
    again = open_database(place.url)
    with TestClient(plain_app(Services.of(again)), cookies={COOKIE: cookie}) as after:
        assert after.post("/submit", json=answer_body(shown)).status_code == 200
    again.close()


def test_another_participants_check_is_refused(annotator: TestClient, database: Database) -> None:
    mine = answer_until(annotator, "check")
    with TestClient(plain_app(Services.of(database)), follow_redirects=False) as other:
        enrol(other, database)
        assert other.post("/check", json=check_body(mine)).status_code == 403
