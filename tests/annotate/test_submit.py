"""Submitted answers: what is stored, what is refused, and that nothing is stored twice."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from sqlalchemy import event, select

from hsfiq.annotate.app import plain_app
from hsfiq.annotate.handlers import Services
from hsfiq.annotate.payloads import LARGEST_BODY
from hsfiq.answer_rules import LONGEST_REASON
from hsfiq.db.engine import Database
from hsfiq.db.tables import CheckAnswer, Question
from tests.annotate.page_requests import (
    KEY,
    answer_body,
    answer_until,
    check_body,
    expected_sum,
    images_body,
    skip_body,
    stored,
    view,
)
from tests.annotate.served_studies import Place, enrol, make_study, set_status


@pytest.fixture
def app(database: Database) -> FastAPI:
    """The app without Gradio, which is slow to mount."""
    return plain_app(Services.of(database))


def send(client: TestClient, body: bytes | str, content_type: str = "application/json") -> int:
    headers = {"Content-Type": content_type}
    return client.post("/submit", content=body, headers=headers).status_code


MOST_STATEMENTS = 8
"""Of an answer with the next question."""


def test_an_answer_takes_few_statements(annotator: TestClient, database: Database) -> None:
    body = json.dumps(answer_body(view(annotator)))
    statements: list[str] = []

    @event.listens_for(database.engine, "before_cursor_execute")
    def count(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        statements.append(statement)

    try:
        assert send(annotator, body) == 200
    finally:
        event.remove(database.engine, "before_cursor_execute", count)
    begun = [statement for statement in statements if statement.startswith("BEGIN")]
    assert len(begun) == 1
    assert len(statements) - len(begun) <= MOST_STATEMENTS, "\n".join(statements)


def test_an_answer_is_stored_as_a_row(annotator: TestClient, database: Database) -> None:
    current_view = view(annotator)
    assert (
        current_view["step"],
        current_view["number"],
        current_view["total"],
        current_view["answered"],
    ) == (
        "question",
        1,
        6,
        0,
    )
    body = answer_body(
        current_view, score_1=5, score_2=3, preferred=2, irrelevant=True, reason="<b>why"
    )
    answer = annotator.post("/submit", json=body).json()
    assert answer["revision"] == 1
    assert (answer["view"]["number"], answer["view"]["answered"]) == (2, 1)
    (row,) = stored(database)
    assert (row.score_1, row.score_2, row.preferred, row.irrelevant) == (5, 3, 2, True)
    assert (row.reason, row.revision, row.submit_key) == ("<b>why", 1, KEY)
    assert row.served_at is not None
    assert row.submitted_at is not None
    assert row.served_at <= row.submitted_at


def test_the_same_submit_twice_stores_one_row(annotator: TestClient, database: Database) -> None:
    body = answer_body(view(annotator))
    first, second = (annotator.post("/submit", json=body).json() for _ in range(2))
    assert first == second
    assert len(stored(database)) == 1


def test_a_stale_revision_is_refused(annotator: TestClient, database: Database) -> None:
    current_view = view(annotator)
    annotator.post("/submit", json=answer_body(current_view))
    answer = annotator.post("/submit", json=answer_body(current_view, "another-key-12345"))
    assert answer.status_code == 409
    assert "error" in answer.json()
    assert len(stored(database)) == 1


def test_back_and_revise_is_a_new_revision(annotator: TestClient, database: Database) -> None:
    annotator.post("/submit", json=answer_body(view(annotator), reason="first"))
    annotator.post("/submit", json=answer_body(view(annotator)))
    earlier_view = view(annotator, 1)
    assert earlier_view["earlier"] == {
        "judgement": {"score_1": 4, "score_2": 2, "preferred": 1, "confirmed": None},
        "irrelevant": False, "reason": "first", "extra": {},
    }  # fmt: skip
    assert earlier_view["standing_at"] == 3
    body = answer_body(earlier_view, "another-key-12345", score_1=1, preferred=2)
    answer = annotator.post("/submit", json=body).json()
    assert answer["revision"] == 2
    assert answer["view"]["number"] == 2
    assert [(row.revision, row.score_1) for row in stored(database)] == [(1, 4), (1, 4), (2, 1)]


def test_a_complete_participation(annotator: TestClient, database: Database) -> None:
    current_view = answer_until(annotator, "check")
    assert (current_view["answered"], current_view["number"]) == (3, 4)
    wrong_attempt = annotator.post("/check", json=check_body(current_view, "1")).json()
    assert wrong_attempt["passed"] is False
    assert wrong_attempt["view"]["step"] == "check"
    assert annotator.get("/question/4").status_code == 403
    right = annotator.post("/check", json=check_body(current_view)).json()
    assert right["passed"] is True
    assert (right["view"]["step"], right["view"]["number"]) == ("question", 4)
    assert annotator.post("/check", json=check_body(current_view)).status_code == 403
    last_view = answer_until(annotator, "done")
    assert (last_view["answered"], last_view["total"], last_view["back"]) == (6, 6, 6)
    with database.reading() as session:
        tries = session.scalars(select(CheckAnswer).order_by(CheckAnswer.id)).all()
    assert [(attempt.given, attempt.passed) for attempt in tries] == [
        ("1", False),
        (expected_sum(current_view["prompt"]), True),
    ]


# ----------------------------------------------------------------------------------- refusals

BAD_VALUES: list[dict[str, Any]] = [
    {"score_1": 9},
    {"score_1": 0},
    {"score_2": 2.0},
    {"score_2": "3"},
    {"score_1": True},
    {"score_1": None},
    {"preferred": 3},
    {"preferred": 0},  # this study allows no tie
    {"irrelevant": 1},
    {"reason": 5},
    {"reason": "x" * 10_001},
    {"reason": "a\0b"},
    {"active_seconds": -1},
    {"active_seconds": "1"},
    {"active_seconds": True},
    {"seconds_since_first_interaction": -0.5},
    {"system": "telltale-alpha"},
]


@pytest.mark.parametrize("change", BAD_VALUES, ids=str)
def test_a_bad_value_is_refused(
    annotator: TestClient, database: Database, change: dict[str, Any]
) -> None:
    answer = annotator.post("/submit", json=answer_body(view(annotator), **change))
    assert answer.status_code == 422
    assert "\n" not in answer.json()["error"]
    assert stored(database) == []


def test_a_bad_body_is_refused(annotator: TestClient, database: Database) -> None:
    good = answer_body(view(annotator))
    text = json.dumps(good)
    assert send(annotator, text, "text/plain") == 415
    assert send(annotator, text, "application/x-www-form-urlencoded") == 415
    assert send(annotator, json.dumps(good | {"submit_key": "x" * LARGEST_BODY})) == 413
    assert send(annotator, text[:-1]) == 400
    assert send(annotator, "[" * 60_000) == 400
    assert send(annotator, text.replace("0.0", "NaN")) == 400
    assert send(annotator, b"\xff\xfe") == 400
    assert send(annotator, "[]") == 400
    assert send(annotator, text.replace('{"score_1": 4', '{"score_1": 4, "score_1": 5')) == 400
    assert send(annotator, text.replace("null", '"\\ud800"', 1)) == 422
    assert send(annotator, text.replace("0.0", "1e999")) == 422
    assert send(annotator, text.replace('"score_1"', '"\\ud800"')) == 400
    assert send(annotator, text.replace('"score_1": 4', '"\\ud800": "\\u0000"')) == 400
    assert send(annotator, json.dumps(good | {"extra": 1})) == 422
    assert send(annotator, json.dumps(good | {"submit_key": "short"})) == 422
    assert send(annotator, json.dumps(good | {"assignment": 5})) == 422
    assert send(annotator, json.dumps(good | {"answer": []})) == 422
    assert stored(database) == []
    assert send(annotator, text, "application/json; charset=utf-8") == 200


@pytest.mark.parametrize(
    "change",
    [
        {"reference": "seen"},
        {"reference": None},
        {"sets": []},
        {"sets": [["shown"] * 5]},
        {"sets": [["shown"] * 5, ["shown"] * 4]},
        {"sets": [["shown"] * 5] * 3},
        {"sets": ["sssss", "sssss"]},
        {"names": []},
    ],
    ids=str,
)
def test_bad_states_of_images_are_refused(
    annotator: TestClient, database: Database, change: dict[str, Any]
) -> None:
    shown = view(annotator)
    body = answer_body(shown) | {"images": images_body(shown) | change}
    reply = annotator.post("/submit", json=body)
    assert reply.status_code == 422
    assert "images" in reply.json()["error"]
    assert stored(database) == []


@pytest.mark.parametrize(
    ("language", "sentence"), [("en-GB,en", "Please reload it"), ("ko-KR,ko", "새로고침해 주세요")]
)
def test_an_outdated_page_is_told_to_reload(
    annotator: TestClient, database: Database, language: str, sentence: str
) -> None:
    body = answer_body(view(annotator))
    del body["images"]
    reply = annotator.post("/submit", json=body, headers={"Accept-Language": language})
    assert reply.status_code == 422
    assert reply.json()["outdated"] is True
    assert sentence in reply.json()["error"]
    assert stored(database) == []


@pytest.mark.parametrize("is_escaped", [False, True])
def test_the_longest_reason_fits_in_any_encoding(
    annotator: TestClient, database: Database, *, is_escaped: bool
) -> None:
    reason = "\N{DRESS}" * LONGEST_REASON
    body = json.dumps(answer_body(view(annotator), reason=reason), ensure_ascii=is_escaped)
    assert send(annotator, body.encode()) == 200
    assert stored(database)[0].reason == reason


# ----------------------------------------------------------------------------------- times


def test_times_are_limited_to_the_wall_time(annotator: TestClient, database: Database) -> None:
    current_view = view(annotator)
    with database.writing() as session:
        served = datetime.now(UTC) - timedelta(seconds=60)
        session.scalars(
            select(Question).where(Question.served_at.is_not(None))
        ).one().served_at = served
    body = answer_body(current_view, active_seconds=1e6, seconds_since_first_interaction=30)
    assert annotator.post("/submit", json=body).status_code == 200
    (row,) = stored(database)
    assert row.active_seconds is not None
    assert row.submitted_at is not None
    assert row.first_interaction_at is not None
    assert 60 <= row.active_seconds < 70
    assert row.served_at == served
    assert row.submitted_at - row.first_interaction_at == timedelta(seconds=30)


def test_the_first_time_of_serving_is_stored(annotator: TestClient, database: Database) -> None:
    def served() -> list[datetime]:
        with database.reading() as session:
            times = session.scalars(
                select(Question.served_at).where(Question.served_at.is_not(None))
            )
            return [moment for moment in times if moment]

    view(annotator)
    first = served()
    view(annotator)
    assert served() == first
    assert len(first) == 1


# ---------------------------------------------------------------------- paused and closed studies


@pytest.mark.parametrize("status", ["paused", "closed"])
def test_a_paused_or_closed_study_refuses_answers(
    annotator: TestClient, database: Database, status: str
) -> None:
    current_view = view(annotator)
    set_status(database, status)
    shown_now = view(annotator)
    assert (shown_now["step"], shown_now["kind"]) == ("farewell", status)
    assert annotator.post("/submit", json=answer_body(current_view)).status_code == 410
    assert stored(database) == []
    set_status(database, "open")
    assert annotator.post("/submit", json=answer_body(current_view)).status_code == 200


def test_a_finished_participant_of_a_closed_study_is_thanked(
    annotator: TestClient, database: Database
) -> None:
    answer_until(annotator, "done")
    set_status(database, "closed")
    assert view(annotator)["step"] == "done"


# ----------------------------------------------------------------------------------- missing images


def test_only_a_question_with_a_missing_image_can_be_skipped(place: Place) -> None:
    database = make_study(place, missing=frozenset(range(20)))  # every reference
    with TestClient(plain_app(Services.of(database)), follow_redirects=False) as client:
        current_view = view(enrol(client, database))
        assert current_view["reference"]["missing"] is True
        assert client.get(f"/image/{current_view['reference']['token']}").status_code == 404
        reply = client.post("/submit", json=skip_body(current_view))
        assert reply.json()["view"]["number"] == 2
        (row,) = stored(database)
        assert (row.skipped, row.score_1, row.preferred) == ("missing-image", None, None)
        assert row.images
        assert row.images.startswith("m ")
        assert view(client, 1)["earlier"]["judgement"] is None
    database.close()


def test_a_question_with_all_images_cannot_be_skipped(
    annotator: TestClient, database: Database
) -> None:
    body = skip_body(view(annotator))
    assert annotator.post("/submit", json=body).status_code == 422
    assert annotator.post("/submit", json=body | {"skip": False}).status_code == 422
    assert stored(database) == []


def test_a_tie_is_stored_if_the_study_allows_ties(place: Place) -> None:
    database = make_study(place, preference_ties=True)
    with TestClient(plain_app(Services.of(database)), follow_redirects=False) as client:
        body = answer_body(view(enrol(client, database)), preferred=0)
        assert client.post("/submit", json=body).status_code == 200
        assert stored(database)[0].preferred == 0
    database.close()
