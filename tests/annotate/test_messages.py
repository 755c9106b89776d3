"""Messages on a participant's page, over HTTP."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from sqlalchemy import select

from hsfiq.annotate.app import plain_app
from hsfiq.annotate.handlers import Services
from hsfiq.collect.messages import send_message
from hsfiq.collect.studies import list_studies
from hsfiq.db.engine import Database
from hsfiq.db.tables import MessageRecipient
from tests.annotate.page_requests import answer_body, view
from tests.annotate.served_studies import browser_of, enrol, set_status


@pytest.fixture
def app(database: Database) -> FastAPI:
    return plain_app(Services.of(database))


def send(database: Database, text: str) -> None:
    with database.writing() as session:
        study = list_studies(session)[0]
        send_message(session, study, text, to=None, now=datetime.now(UTC))


def test_a_message_comes_with_the_next_view_until_it_was_seen(
    annotator: TestClient, database: Database
) -> None:
    first = view(annotator)
    assert first["messages"] == []
    send(database, "**Noon** <script>alert(1)</script>")
    second = annotator.post("/submit", json=answer_body(first)).json()["view"]
    (message,) = second["messages"]
    assert message["text"].startswith("<p><strong>Noon</strong> &lt;script&gt;")
    assert view(annotator)["messages"] == [message]
    answer = annotator.post("/messages-seen", json={"messages": [message["id"]]})
    assert answer.status_code == 200
    assert view(annotator)["messages"] == []
    with database.reading() as session:
        assert session.scalars(select(MessageRecipient.seen_at)).one() is not None


def test_nobody_can_close_the_messages_of_others(
    annotator: TestClient, database: Database, app: FastAPI
) -> None:
    send(database, "Hello")
    (message,) = view(annotator)["messages"]
    other = enrol(browser_of(app), database)
    assert other.post("/messages-seen", json={"messages": [message["id"]]}).status_code == 200
    assert view(annotator)["messages"] == [message]
    assert other.post("/messages-seen", json={"messages": ["1"]}).status_code == 422
    assert other.post("/messages-seen", json={"messages": [2**63, -(2**70), 0]}).status_code == 200
    assert browser_of(app).post("/messages-seen", json={"messages": []}).status_code == 401


def test_a_paused_study_still_shows_messages(annotator: TestClient, database: Database) -> None:
    send(database, "We continue tomorrow.")
    set_status(database, "paused")
    paused = view(annotator)
    assert (paused["step"], len(paused["messages"])) == ("farewell", 1)
