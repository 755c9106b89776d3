"""A preference for a set scored three or more lower is confirmed where the study asks for it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from fastapi.testclient import TestClient
from playwright.sync_api import Page, expect

from hsfiq.annotate.app import plain_app
from hsfiq.annotate.handlers import Services
from hsfiq.annotate.owner.tables import participant_page, question_page
from hsfiq.collect.progress import answers_of
from hsfiq.collect.studies import list_studies
from hsfiq.db.engine import Database
from hsfiq.kinds import Rules
from hsfiq.kinds.pair import needs_confirmation
from hsfiq.releases.content import build
from hsfiq.releases.filters import Filters
from tests.annotate.page_requests import answer_body, stored, view
from tests.annotate.question_page import TEXT, OpenPage, expect_step, press
from tests.annotate.served_studies import Place, ThreadServer, enrol, make_study
from tests.hsfiq.samples import rows

CONTRADICTING = {"score_1": 5, "score_2": 2, "preferred": 2}
SLIGHT = {"score_1": 4, "score_2": 2, "preferred": 2}


def sent(client: TestClient, **changes: object) -> int:
    return client.post("/submit", json=answer_body(view(client), **changes)).status_code


def test_a_confirmation_is_asked_for_stored_and_released(place: Place) -> None:
    database = make_study(place, confirm_contradictions=True)
    with TestClient(plain_app(Services.of(database)), follow_redirects=False) as client:
        enrol(client, database)
        assert sent(client, **CONTRADICTING) == 422
        assert sent(client, **SLIGHT, confirmed=True) == 422
        assert sent(client, confirmed="no") == 422
        assert stored(database) == []
        assert sent(client, **CONTRADICTING, confirmed=True) == 200
        assert sent(client, **SLIGHT) == 200
        assert [row.confirmed for row in stored(database)] == [True, None]
        assert view(client, 1)["earlier"]["judgement"]["confirmed"] is True
    check_release_and_pages(database)
    database.close()


def check_release_and_pages(database: Database) -> None:
    with database.reading() as session:
        study = list_studies(session)[0]
        release = build(session, study, "hp", Filters(), schema_revision="test")
        assert [row["confirmed"] for row in rows(release, "preferences")] == [True, None]
        answers = answers_of(session, study)
        assert [(answer.summary or "").endswith(", confirmed") for answer in answers] == [
            True,
            False,
        ]
        person = answers[0].participant
        assert participant_page(session, study.name, person).count(", confirmed") == 1
        assert "confirmed" in question_page(session, study.name, answers[0].question_id)
        assert "confirmed" not in question_page(session, study.name, answers[1].question_id)


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
def test_the_page_asks_once(
    place: Place, serve: Callable[[Place], ThreadServer], open_page: OpenPage
) -> None:
    database = make_study(place, confirm_contradictions=True)
    page = open_page(serve(place))
    dialog = page.get_by_role("dialog", name=TEXT["confirm_title"])
    press(page, "5", "Shift+Digit2", "w", "Enter")
    expect(dialog).to_contain_text(
        "You gave Search results 1 a score of 5 and Search results 2 a score of 2, but you prefer "
        "Search results 2. Is that what you mean?"
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
    assert [(row.preferred, row.confirmed) for row in stored(database)] == [
        (1, None),
        (1, True),
        (1, True),
        (2, True),
    ]
    database.close()


def press_focused(page: Page, label: str) -> None:
    """Press Enter on the button that has the focus."""
    expect(page.get_by_role("button", name=label)).to_be_focused()
    page.keyboard.press("Enter")
