"""What the welcome page tells people of this browser's participations."""

from __future__ import annotations

import pytest
from fastapi.testclient import TestClient

from hsfiq.annotate.texts import entry_texts
from hsfiq.db.engine import Database
from hsfiq.study.languages.standard import standard_texts
from tests.annotate.enrolment.visits import change
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
