"""The reason for an answer: the page in a real Chromium and the server apply the same rule."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from hsfiq.annotate.app import build_app
from hsfiq.answer_rules import LONGEST_REASON, SHORTEST_REASON, WHITE_SPACE
from tests.annotate.conftest import running
from tests.annotate.page_requests import stored
from tests.annotate.question_page import TEXT, answer, expect_step, press
from tests.annotate.served_studies import Place, ThreadServer, make_study, newcomer

pytestmark = pytest.mark.browser

TOO_SHORT = TEXT["a_reason"].format(shortest=SHORTEST_REASON)
TOO_LONG = TEXT["a_shorter_reason"].format(longest=LONGEST_REASON)


def give_reason(page: Page, reason: str) -> None:
    press(page, "r")
    page.locator("#hsfiq-reason").fill(reason)
    press(page, "Escape")


def expect_refused(page: Page, what: str) -> None:
    """The button is marked, and Next says what is missing."""
    expect(page.locator(".next")).to_have_attribute("aria-disabled", "true")
    expect(page.locator(".button.reason")).to_have_class("button reason asked")
    press(page, "Enter")
    expect(page.locator(".notice-text")).to_have_text(TEXT["still_missing"].format(items=what))
    press(page, "Escape")


def test_the_longest_reason_is_counted_in_characters_without_white_space(
    page: Page, server: ThreadServer
) -> None:
    trimmed = page.evaluate(
        "[...Array(0x10000).keys()].map((unit) => String.fromCharCode(unit))"
        ".filter((unit) => unit.trim() === '').join('')"
    )
    assert "".join(sorted(WHITE_SPACE)) == trimmed
    longest = "\N{DRESS}" * LONGEST_REASON
    press(page, "4", "Shift+Digit2", "q")
    give_reason(page, f"{longest}x")
    expect(page.locator(".reason-label")).to_have_text(TEXT["reason"])
    expect_refused(page, TOO_LONG)
    give_reason(page, f" {longest}\n")
    expect(page.locator(".reason-label")).to_have_text(TEXT["reason_given"])
    press(page, "Enter")
    expect_step(page, "question", "2 / 6")
    assert [row.reason for row in stored(server.database)] == [longest]


@pytest.fixture(scope="module")
def reasons_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreadServer]:
    """A study that asks for a reason on every second question, served."""
    place = Place(tmp_path_factory.mktemp("reasons"))
    database = make_study(place, reason_every=2)
    with running(ThreadServer(place, database, build_app(database))) as server:
        yield server


@pytest.fixture(scope="module")
def asking_page(reasons_server: ThreadServer, reused_context: BrowserContext) -> Iterator[Page]:
    """A page at a question that asks for a reason; scores and preference are given.

    The tests use it in turn: after each, it is at this question again.
    """
    errors: list[str] = []
    page = reused_context.new_page()
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(f"{reasons_server.url}/start/{newcomer(reasons_server.place)}")
    expect_step(page, "question", "1 / 6")
    answer(page)
    expect_step(page, "question", "2 / 6")
    press(page, "4", "Shift+Digit2", "q")
    yield page
    page.close()
    reused_context.clear_cookies()
    assert errors == []


@pytest.mark.parametrize("reason", ["", "ab", "  ab\ufeff \n", "\N{DRESS}\N{DRESS}"], ids=ascii)
def test_a_short_reason_is_not_shown_as_given(asking_page: Page, reason: str) -> None:
    give_reason(asking_page, reason)
    expect(asking_page.locator(".reason-label")).to_have_text(TEXT["reason_required"])
    expect_refused(asking_page, TOO_SHORT)


@pytest.mark.parametrize("reason", ["abc", "\N{DRESS}" * 3, "a\x85b", "\x1cab"], ids=ascii)
def test_a_reason_of_three_characters_is_shown_as_given_and_stored(
    asking_page: Page, reasons_server: ThreadServer, reason: str
) -> None:
    before = stored(reasons_server.database)
    give_reason(asking_page, reason)
    expect(asking_page.locator(".reason-label")).to_have_text(TEXT["reason_given"])
    expect(asking_page.locator(".button.reason")).to_have_class("button reason")
    press(asking_page, "Enter")
    expect_step(asking_page, "question", "3 / 6")
    (row,) = stored(reasons_server.database)[len(before) :]
    assert row.reason == reason
    press(asking_page, "b")
    expect_step(asking_page, "question", "2 / 6")
