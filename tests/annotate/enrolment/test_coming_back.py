"""What the welcome page tells people of this browser's participations."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import select

from hsfiq.annotate.app import plain_app
from hsfiq.annotate.handlers import Services
from hsfiq.annotate.texts import entry_texts
from hsfiq.collect.participants import record_status_change
from hsfiq.db.engine import Database
from hsfiq.db.tables import Participant
from hsfiq.errors import NotOpen
from hsfiq.study.languages import standard_texts
from tests.annotate.enrolment.visits import Visit, change
from tests.annotate.page_requests import answer_body, answer_until, view
from tests.annotate.served_studies import begin, enrol, set_status

TEXT = entry_texts("en")
FAREWELL = standard_texts("en")["page"]["farewell"]


def expect_standing(client: TestClient, standing: str, button: str = "to_own_page") -> None:
    page = client.get("/").text
    assert (standing in page, TEXT["welcome_back"] in page) == (True, button == "continue")
    assert f">{TEXT[button]}</a>" in page


def test_somebody_in_the_middle_continues(annotator: TestClient) -> None:
    annotator.post("/submit", json=answer_body(view(annotator)))
    expect_standing(annotator, TEXT["welcome_back"], "continue")


def test_somebody_who_has_finished_is_not_told_to_continue(annotator: TestClient) -> None:
    answer_until(annotator, "done")
    expect_standing(annotator, TEXT["finished"])


def test_somebody_who_declined_is_not_told_to_continue(
    new_browser: TestClient, database: Database
) -> None:
    begin(new_browser, database)
    new_browser.post("/consent", json={"agrees": False})
    expect_standing(new_browser, TEXT["declined_before"])


@pytest.mark.parametrize("status", ["paused", "closed"])
def test_a_study_that_takes_no_answers(
    annotator: TestClient, database: Database, status: str
) -> None:
    set_status(database, status)
    expect_standing(annotator, FAREWELL[status][0])


@pytest.mark.parametrize(("status", "kind"), [
    ("excluded", "excluded"),
    ("returned", "ended"),
])  # fmt: skip
def test_somebody_whose_participation_has_ended(
    new_browser: TestClient, database: Database, status: str, kind: str
) -> None:
    enrol(new_browser, database)
    change(database, status)
    expect_standing(new_browser, FAREWELL[kind][0])


# ------------------------------------------------------------------------ somebody who declined


def decline(client: TestClient) -> dict[str, Any]:
    declined: dict[str, Any] = client.post("/consent", json={"agrees": False}).json()
    assert declined["kind"] == "declined"
    return declined


def test_somebody_who_declined_can_take_part_after_all(visit: Visit) -> None:
    client, database = visit(questions_per_form=2)
    begin(client, database)
    assert decline(client)["may_reconsider"]
    assert client.post("/reconsider", json={}).json()["step"] == "consent"
    assert client.post("/consent", json={"agrees": True}).json()["step"] == "practice"
    assert client.post("/reconsider", json={}).json()["step"] == "practice"
    client.post("/practice", json={})
    assert answer_until(client, "done")["answered"] == 4


def test_whoever_declined_has_given_the_place_back(visit: Visit) -> None:
    """Nobody gets a place twice, and nobody comes back to a full study."""
    client, database = visit(recruitment={"participants": 1})
    begin(client, database)
    assert decline(client)["may_reconsider"]
    app = plain_app(Services.of(database))
    with TestClient(app, follow_redirects=False) as other:
        begin(other, database)
    assert not view(client)["may_reconsider"]
    assert client.post("/reconsider", json={}).status_code == NotOpen.status
    assert view(client)["kind"] == "declined"


@pytest.mark.parametrize("status", ["paused", "closed"])
def test_nobody_comes_back_to_a_study_that_is_not_open(visit: Visit, status: str) -> None:
    client, database = visit()
    begin(client, database)
    decline(client)
    set_status(database, status)
    assert not view(client)["may_reconsider"]
    assert client.post("/reconsider", json={}).status_code == NotOpen.status


def test_whoever_was_screened_out_by_the_owner_cannot_come_back(visit: Visit) -> None:
    client, database = visit()
    begin(client, database)
    with database.writing() as session:
        person = session.scalars(select(Participant)).one()
        record_status_change(session, person, "screened-out", datetime.now(UTC))
    assert view(client)["kind"] == "ended"
    assert client.post("/reconsider", json={}).json()["kind"] == "ended"
