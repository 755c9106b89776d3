"""Participation that ends early, reasons, and the time that is left."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from sqlalchemy import func, select

from hsfiq.collect.steps import steps_of
from hsfiq.db.engine import Database
from hsfiq.db.tables import Form, Participant, Question
from tests.annotate.enrolment.visits import (
    CODE,
    Visit,
    change,
)
from tests.annotate.page_requests import answer_body, answer_until, check_body, stored, view
from tests.annotate.served_studies import (
    begin,
    enrol,
    set_status,
)


def test_the_code_is_shown_only_at_the_end(visit: Visit) -> None:
    client, database = visit(recruitment=CODE)
    begin(client, database)
    texts = [json.dumps(view(client))]
    enrol(client, database)
    current_view = view(client)
    while current_view["step"] != "done":
        texts.append(json.dumps(current_view))
        if current_view["step"] == "check":
            current_view = client.post("/check", json=check_body(current_view)).json()["view"]
        else:
            current_view = client.post("/submit", json=answer_body(current_view)).json()["view"]
    assert not any("C1<2>3" in text or "example.org" in text for text in texts)
    assert (current_view["code"], current_view["url"]) == (
        CODE["completion_code"],
        CODE["completion_url"],
    )


@pytest.mark.parametrize(("status", "kind", "has_code"), [
    ("paused", "paused", False),
    ("excluded", "excluded", True),
    ("returned", "ended", False),
    ("screened-out", "ended", True),
])  # fmt: skip
def test_a_participant_excluded_after_an_answer(
    visit: Visit, status: str, kind: str, has_code: bool
) -> None:
    client, database = visit(recruitment=CODE)
    enrol(client, database)
    following = client.post("/submit", json=answer_body(view(client))).json()["view"]
    change(database, status)
    current_view = view(client)
    assert (current_view["step"], current_view["kind"], "code" in current_view) == (
        "farewell",
        kind,
        has_code,
    )
    assert view(client, 1)["step"] == "farewell"
    assert client.post("/submit", json=answer_body(following)).status_code == 410
    assert len(stored(database)) == 1


def test_a_closed_study_gives_late_participants_the_code(visit: Visit) -> None:
    client, database = visit(recruitment=CODE)
    enrol(client, database)
    set_status(database, "closed")
    current_view = view(client)
    assert (current_view["kind"], current_view["code"], current_view["back"]) == (
        "closed",
        "C1<2>3",
        None,
    )


def reassign(database: Database, *, only: int | None = None) -> None:
    """Reassign the first participant's open questions."""
    with database.writing() as session:
        person = session.scalars(select(Participant).order_by(Participant.id)).first()
        assert person
        steps = [s for s in steps_of(session, person).steps if not s.done and not s.check_id]
        for step in steps[:only]:
            session.get_one(Question, step.question_id).reassigned = True


def test_a_reassigned_question_is_refused(annotator: TestClient, database: Database) -> None:
    current_view = view(annotator)
    reassign(database, only=1)
    answer = annotator.post("/submit", json=answer_body(current_view))
    assert (answer.status_code, answer.json()["reassigned"]) == (403, True)
    assert stored(database) == []
    now_at = view(annotator)
    assert (now_at["number"], now_at["total"]) == (1, 5)


def test_questions_are_reassigned_after_the_lease(
    annotator: TestClient, app: FastAPI, database: Database
) -> None:
    with TestClient(app, follow_redirects=False) as second, TestClient(app) as third:
        enrol(second, database)  # now every form is taken
        with database.writing() as session:
            first = session.scalars(select(Participant).order_by(Participant.id)).first()
            assert first
            first.seen_at = datetime.now(UTC) - timedelta(days=1)
        current_view = view(annotator)  # a sign of life: it stays theirs
        with database.writing() as session:
            first = session.get_one(Participant, first.id)
            first.seen_at = datetime.now(UTC) - timedelta(days=1)
        third.follow_redirects = False
        enrol(third, database)
        assert annotator.post("/submit", json=answer_body(current_view)).status_code == 403
        assert view(annotator)["kind"] == "reassigned"
        assert answer_until(third, "done")["total"] == 6
    with database.reading() as session:
        assert session.scalar(select(func.count(Form.id)).where(Form.participant_id.is_(None))) == 0


def test_a_partial_participation_is_acknowledged(annotator: TestClient, database: Database) -> None:
    annotator.post("/submit", json=answer_body(view(annotator)))
    reassign(database)
    current_view = view(annotator)
    assert (current_view["step"], current_view["answered"], current_view["passed_on"]) == (
        "done",
        1,
        True,
    )


# ----------------------------------------------------------------------- reasons and time left


def test_a_reason_is_asked_on_every_second_question(visit: Visit) -> None:
    client, database = visit(reason_every=2)
    enrol(client, database)
    current_view = view(client)
    reasons_asked = []
    while current_view["step"] != "done":
        if current_view["step"] == "check":
            current_view = client.post("/check", json=check_body(current_view)).json()["view"]
            continue
        reasons_asked.append(current_view["reason_asked"])
        if current_view["reason_asked"]:
            for short in (None, "", "  ab  ", "ab\ufeff"):
                body = answer_body(current_view, "short-reason-1234", reason=short)
                assert client.post("/submit", json=body).status_code == 422
        body = answer_body(current_view, reason="abc" if current_view["reason_asked"] else None)
        current_view = client.post("/submit", json=body).json()["view"]
    assert reasons_asked == [False, True] * 3
    assert [row.reason for row in stored(database)] == [None, "abc"] * 3


def test_the_time_left_depends_on_the_participants_pace(
    annotator: TestClient, database: Database
) -> None:
    minutes_left = []
    for seconds in (10, 40, 900):
        current_view = view(annotator)
        minutes_left.append(current_view["minutes_left"])
        with database.writing() as session:
            for question in session.scalars(select(Question)):
                question.served_at = datetime.now(UTC) - timedelta(hours=1)
        annotator.post("/submit", json=answer_body(current_view, active_seconds=seconds))
    assert minutes_left == [None, None, None]
    assert view(annotator)["minutes_left"] == 2  # three times 40 seconds
