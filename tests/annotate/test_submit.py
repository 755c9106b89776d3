"""Submitted answers: what is stored, refused or confirmed, and that nothing is stored twice."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from playwright.sync_api import Page, expect
from sqlalchemy import event, select

from hsfiq.annotate.app import plain_app
from hsfiq.annotate.handlers import Services
from hsfiq.annotate.payloads import LARGEST_BODY
from hsfiq.answer_rules import LONGEST_REASON
from hsfiq.collect.progress import answers_of
from hsfiq.collect.studies import list_studies
from hsfiq.db.engine import Database
from hsfiq.db.tables import CheckAnswer, Question
from hsfiq.kinds import Rules
from hsfiq.kinds.pair import needs_confirmation
from hsfiq.releases.content import build
from hsfiq.study.filters import Filters
from tests.annotate.owner.studies_in_progress import panel_of
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
from tests.annotate.question_page import TEXT, OpenPage, expect_step, press
from tests.annotate.served_studies import ServeStudy, Visit, all_of, enrol, set_status
from tests.hsfiq.samples import rows


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
    shown = view(annotator)
    assert (shown["step"], shown["number"], shown["total"]) == ("question", 1, 6)
    assert shown["answered"] == 0
    body = answer_body(shown, score_1=5, score_2=3, preferred=2, irrelevant=True, reason="<b>why")
    answer, again = (annotator.post("/submit", json=body).json() for _ in range(2))
    assert answer == again  # sent twice, stored once
    assert answer["revision"] == 1
    assert (answer["view"]["number"], answer["view"]["answered"]) == (2, 1)
    (row,) = stored(database)
    assert (row.score_1, row.score_2, row.preferred, row.irrelevant) == (5, 3, 2, True)
    assert (row.reason, row.revision, row.submit_key) == ("<b>why", 1, KEY)
    assert row.served_at is not None
    assert row.submitted_at is not None
    assert row.served_at <= row.submitted_at
    stale = annotator.post("/submit", json=answer_body(shown, "another-key-12345"))
    assert (stale.status_code, "error" in stale.json()) == (409, True)
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
    check = answer_until(annotator, "check")
    assert (check["answered"], check["number"]) == (3, 4)
    wrong_attempt = annotator.post("/check", json=check_body(check, "1")).json()
    assert (wrong_attempt["passed"], wrong_attempt["view"]["step"]) == (False, "check")
    assert annotator.get("/question/4").status_code == 403
    right = annotator.post("/check", json=check_body(check)).json()
    assert right["passed"] is True
    assert (right["view"]["step"], right["view"]["number"]) == ("question", 4)
    assert annotator.post("/check", json=check_body(check)).status_code == 403
    last_view = answer_until(annotator, "done")
    assert (last_view["answered"], last_view["total"], last_view["back"]) == (6, 6, 6)
    tries = all_of(database, select(CheckAnswer).order_by(CheckAnswer.id))
    given = [(attempt.given, attempt.passed) for attempt in tries]
    assert given == [("1", False), (expected_sum(check["prompt"]), True)]
    set_status(database, "closed")
    assert view(annotator)["step"] == "done"


# ----------------------------------------------------------------------------------- refusals

BAD_VALUES: list[dict[str, Any]] = [
    *({"score_1": each} for each in (9, 0, True, None)), {"score_2": 2.0}, {"score_2": "3"},
    {"preferred": 3}, {"preferred": 0},  # this study allows no tie
    {"irrelevant": 1}, *({"reason": each} for each in (5, "x" * 10_001, "a\0b")),
    *({"active_seconds": each} for each in (-1, "1", True)),
    {"seconds_since_first_interaction": -0.5}, {"system": "telltale-alpha"},
]  # fmt: skip
BAD_STATES: list[dict[str, Any]] = [
    {"reference": "seen"}, {"reference": None}, {"sets": []}, {"sets": [["shown"] * 5]},
    {"sets": [["shown"] * 5, ["shown"] * 4]}, {"sets": [["shown"] * 5] * 3},
    {"sets": ["sssss", "sssss"]}, {"names": []},
]  # fmt: skip


def test_bad_values_and_states_of_images_are_refused(
    annotator: TestClient, database: Database
) -> None:
    shown = view(annotator)
    for change in BAD_VALUES:
        answer = annotator.post("/submit", json=answer_body(shown, **change))
        assert answer.status_code == 422, change
        assert "\n" not in answer.json()["error"]
    for change in BAD_STATES:
        body = answer_body(shown) | {"images": images_body(shown) | change}
        answer = annotator.post("/submit", json=body)
        assert (answer.status_code, "images" in answer.json()["error"]) == (422, True), change
    assert stored(database) == []


def test_a_bad_body_is_refused(annotator: TestClient, database: Database) -> None:
    good = answer_body(view(annotator))
    text = json.dumps(good)
    assert send(annotator, text, "text/plain") == 415
    assert send(annotator, text, "application/x-www-form-urlencoded") == 415
    assert send(annotator, json.dumps(good | {"submit_key": "x" * LARGEST_BODY})) == 413
    for body in (
        text[:-1],
        "[" * 60_000,
        text.replace("0.0", "NaN"),
        b"\xff\xfe",
        "[]",
        text.replace('{"score_1": 4', '{"score_1": 4, "score_1": 5'),
        text.replace('"score_1"', '"\\ud800"'),
        text.replace('"score_1": 4', '"\\ud800": "\\u0000"'),
    ):
        assert send(annotator, body) == 400, body[:80]
    assert send(annotator, text.replace("null", '"\\ud800"', 1)) == 422
    assert send(annotator, text.replace("0.0", "1e999")) == 422
    for change in ({"extra": 1}, {"submit_key": "short"}, {"assignment": 5}, {"answer": []}):
        assert send(annotator, json.dumps(good | change)) == 422, change
    assert stored(database) == []
    assert send(annotator, text, "application/json; charset=utf-8") == 200


def test_an_outdated_page_is_told_to_reload(annotator: TestClient, database: Database) -> None:
    body = answer_body(view(annotator))
    del body["images"]
    for language, sentence in (("en-GB,en", "Please reload it"), ("ko-KR,ko", "새로고침해 주세요")):
        reply = annotator.post("/submit", json=body, headers={"Accept-Language": language})
        assert (reply.status_code, reply.json()["outdated"]) == (422, True)
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
    shown, first = view(annotator), select(Question).where(Question.served_at.is_not(None))
    served = datetime.now(UTC) - timedelta(seconds=60)
    with database.writing() as session:
        session.scalars(first).one().served_at = served
    view(annotator)  # the first time of serving stays
    body = answer_body(shown, active_seconds=1e6, seconds_since_first_interaction=30)
    assert annotator.post("/submit", json=body).status_code == 200
    (row,) = stored(database)
    assert row.active_seconds is not None
    assert row.submitted_at is not None
    assert row.first_interaction_at is not None
    assert 60 <= row.active_seconds < 70
    assert row.served_at == served
    assert row.submitted_at - row.first_interaction_at == timedelta(seconds=30)


# ----------------------------------------------------------------------------------- missing images


def test_only_a_question_with_a_missing_image_can_be_skipped(
    visit: Visit, annotator: TestClient, database: Database
) -> None:
    client, lacking = visit(missing=frozenset(range(20)), preference_ties=True)  # every reference
    shown = view(enrol(client, lacking))
    assert shown["reference"]["missing"] is True
    assert client.get(f"/image/{shown['reference']['token']}").status_code == 404
    reply = client.post("/submit", json=skip_body(shown))
    assert reply.json()["view"]["number"] == 2
    assert view(client, 1)["earlier"]["judgement"] is None
    tie = answer_body(view(client), preferred=0)  # this study allows ties
    assert client.post("/submit", json=tie).status_code == 200
    skipped, tied = stored(lacking)
    assert (skipped.skipped, skipped.score_1, skipped.preferred) == ("missing-image", None, None)
    assert (skipped.images or "").startswith("m ")
    assert tied.preferred == 0
    body = skip_body(view(annotator))
    assert annotator.post("/submit", json=body).status_code == 422
    assert annotator.post("/submit", json=body | {"skip": False}).status_code == 422
    assert stored(database) == []


CONTRADICTING = {"score_1": 5, "score_2": 2, "preferred": 2}
SLIGHT = {"score_1": 4, "score_2": 2, "preferred": 2}


def sent(client: TestClient, **changes: object) -> int:
    return client.post("/submit", json=answer_body(view(client), **changes)).status_code


def test_a_confirmation_is_asked_for_stored_and_released(visit: Visit) -> None:
    client, database = visit(confirm_contradictions=True)
    enrol(client, database)
    assert sent(client, **CONTRADICTING) == 422
    assert sent(client, **SLIGHT, confirmed=True) == 422
    assert sent(client, confirmed="no") == 422
    assert stored(database) == []
    assert sent(client, **CONTRADICTING, confirmed=True) == 200
    assert sent(client, **SLIGHT) == 200
    assert [row.confirmed for row in stored(database)] == [True, None]
    assert view(client, 1)["earlier"]["judgement"]["confirmed"] is True
    with database.reading() as session:
        study = list_studies(session)[0]
        release = build(session, study, "hp", Filters(), schema_revision="test")
        assert [row["confirmed"] for row in rows(release, "preferences")] == [True, None]
        first, second = answers_of(session, study)
        assert (first.summary or "").endswith(", confirmed")
        assert not (second.summary or "").endswith(", confirmed")
    panels = [
        panel_of(database, first.participant),
        panel_of(database, first.participant, answer=first.question_id),
        panel_of(database, second.participant, answer=second.question_id),
    ]
    assert ["confirmed" in panel for panel in panels] == [True, True, False]
    assert panels[0].count(", confirmed") == 1


def test_a_study_that_does_not_ask_takes_every_preference(
    annotator: TestClient, database: Database
) -> None:
    assert sent(annotator, **CONTRADICTING, confirmed=True) == 422
    assert sent(annotator, **CONTRADICTING) == 200
    assert [row.confirmed for row in stored(database)] == [None]


@pytest.mark.parametrize(("difference", "is_asked"), [(3, True), (None, False)])
def test_simulated_annotators_confirm(difference: int | None, is_asked: bool) -> None:
    rules = Rules(points=5, k=5, n_sets=2, ties=True, confirm_difference=difference)
    assert needs_confirmation(2, 5, 2, rules) is is_asked
    assert not needs_confirmation(2, 4, 2, rules)
    assert not needs_confirmation(0, 5, 1, rules)


@pytest.mark.browser
def test_the_page_asks_once(serve_study: ServeStudy, open_page: OpenPage) -> None:
    server = serve_study(confirm_contradictions=True)
    page = open_page(server)
    dialog = page.get_by_role("dialog", name=TEXT["confirm_title"])
    press(page, "5", "Shift+Digit2", "w", "Enter")
    expect(dialog).to_contain_text(
        "You gave Set 1 a score of 5 and Set 2 a score of 2, but answered that Set 2 matches "
        "better. Is that what you mean?"
    )
    press_focused(page, TEXT["confirm_change"])
    expect(dialog).to_be_hidden()
    press(page, "q", "Enter")  # changed: nothing to ask
    expect_step(page, "question", "2 / 6")
    press(page, "1", "Shift+Digit5", "q", "Enter")
    expect(dialog).to_be_visible()
    page.keyboard.press("Tab")
    press_focused(page, TEXT["confirm_keep"])
    expect_step(page, "question", "3 / 6")
    press(page, "b")
    expect_step(page, "question", "2 / 6")
    press(page, "x", "Enter")  # confirmed before: not asked again
    expect_step(page, "question", "3 / 6")
    press(page, "5", "Shift+Digit1", "w", "Enter")
    expect(dialog).to_be_visible()
    press(page, "Escape")
    page.reload()
    expect_step(page, "question", "3 / 6")
    press(page, "Enter")  # asked before the page was reloaded
    expect_step(page, "check", "3 / 6")
    rows = [(row.preferred, row.confirmed) for row in stored(server.database)]
    assert rows == [(1, None), (1, True), (1, True), (2, True)]


def press_focused(page: Page, label: str) -> None:
    """Press Enter on the button that has the focus."""
    expect(page.get_by_role("button", name=label)).to_be_focused()
    page.keyboard.press("Enter")
