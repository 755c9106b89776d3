"""Pages that are open while the database is set back to a backup of an earlier state."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from playwright.sync_api import expect
from sqlalchemy import delete, update

from hsfiq.backup import back_up, restore
from hsfiq.db.engine import Database
from hsfiq.db.tables import Participant, Response
from hsfiq.db.types import DIGEST_LENGTH
from tests.annotate.page_requests import answer_body, view
from tests.annotate.question_page import (
    TEXT,
    OpenPage,
    answer,
    expect_step,
    press,
    press_next_when_ready,
)
from tests.annotate.served_studies import Place, Server, make_study

Restore = Callable[[], None]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A study of its own, because its file is replaced."""
    place = Place(tmp_path / "study")
    make_study(place).close()
    server = Server(place)
    server.start()
    yield server
    server.kill()


@pytest.fixture
def backup(server: Server, tmp_path: Path) -> Callable[[], Restore]:
    """Make a backup of the served study; the result restores it while the pages are open."""

    def make() -> Restore:
        file = tmp_path / "study.backup"
        back_up(server.place.url, file)

        def set_back() -> None:
            server.kill()
            for end in ("", "-wal", "-shm"):
                Path(f"{server.place.file}{end}").unlink(missing_ok=True)
            restore(file, server.place.url)
            server.start()

        return set_back

    return make


def test_a_page_says_that_the_study_was_set_back_and_goes_on(
    server: Server, open_page: OpenPage, backup: Callable[[], Restore]
) -> None:
    page = open_page(server)
    answer(page)
    expect_step(page, "question", "2 / 6")
    set_back = backup()
    answer(page)
    expect_step(page, "question", "3 / 6")
    press(page, "5", "Shift+Digit1", "q", "r")
    page.keyboard.type("The first set is closer.")
    press(page, "Escape")
    set_back()
    press(page, "Enter")
    expect(page.locator(".notice-text")).to_have_text(TEXT["set_back"])
    expect_step(page, "question", "2 / 6")
    answer(page)
    expect_step(page, "question", "3 / 6")
    expect(page.locator(".notice")).to_be_hidden()
    expect(page.locator('input[name="score_1"][value="5"]')).to_be_checked()
    expect(page.locator("#hsfiq-reason")).to_have_value("The first set is closer.")
    press_next_when_ready(page)
    expect_step(page, "check", "3 / 6")


def test_an_answer_to_a_question_that_is_not_reached_any_more_is_refused(
    annotator: TestClient, database: Database
) -> None:
    first = view(annotator)
    assert annotator.post("/submit", json=answer_body(first, "0" * 16)).status_code == 200
    second = answer_body(view(annotator), "1" * 16)
    again = answer_body(view(annotator, 1), "2" * 16)
    with database.writing() as session:
        session.execute(delete(Response))
    for body in (second, again):
        reply = annotator.post("/submit", json=body)
        assert (reply.status_code, reply.json()["set_back"]) == (403, True)
    assert view(annotator)["number"] == 1


def test_a_browser_whose_participants_are_not_stored_is_told_so(
    annotator: TestClient, new_browser: TestClient, database: Database
) -> None:
    body = answer_body(view(annotator), "0" * 16)
    with database.writing() as session:
        session.execute(update(Participant).values(token_hash="0" * DIGEST_LENGTH))
    reply = annotator.post("/submit", json=body)
    assert (reply.status_code, reply.json()["participant_unknown"]) == (401, True)
    assert annotator.get("/question").json()["participant_unknown"]
    annotator.cookies.clear()
    assert "participant_unknown" not in annotator.get("/question").json()


def test_who_began_after_the_backup_is_told_so_and_can_begin_again(
    server: Server, open_page: OpenPage, backup: Callable[[], Restore]
) -> None:
    set_back = backup()
    page = open_page(server)
    press(page, "5", "Shift+Digit1", "q", "r")
    page.keyboard.type("The first set is closer.")
    press(page, "Escape")
    set_back()
    press(page, "Enter")
    notice = page.locator(".notice-text")
    expect(notice).to_contain_text(TEXT["participant_unknown"])
    expect(notice).to_contain_text(TEXT["entered_is_kept"])
    expect(page.locator("#hsfiq-reason")).to_have_value("The first set is closer.")
    page.get_by_role("button", name=TEXT["to_welcome"]).click()
    page.wait_for_url(f"{server.url}/")
    page.goto(f"{server.url}/study/")
    expect(page.locator(".no-access")).to_contain_text(TEXT["participant_unknown"])
