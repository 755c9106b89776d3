"""axe-core finds no violation on any page: light and dark, wide and narrow."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.annotate.axe import faults
from tests.annotate.question_page import OpenPage, answer_practice, press, type_sum
from tests.annotate.served_studies import Place, ThreadServer, make_study, newcomer

pytestmark = pytest.mark.browser


@pytest.fixture
def sound() -> Callable[[Page, str], None]:
    def check(page: Page, name: str) -> None:
        violations = list(faults(page))
        assert violations == [], f"{name}:\n" + "\n".join(violations)

    return check


def test_the_plain_pages(
    server: ThreadServer, open_page: OpenPage, sound: Callable[[Page, str], None]
) -> None:
    page = open_page(server)
    page.context.clear_cookies()
    for path in ("/", "/start/nobody", "/study/", "/start?workerId=A1"):
        page.goto(server.url + path)
        sound(page, path)


def test_the_pages_of_the_study(
    place: Place,
    serve: Callable[[Place], ThreadServer],
    open_page: OpenPage,
    sound: Callable[[Page, str], None],
) -> None:
    make_study(
        place,
        missing=frozenset(range(14, 30)),
        reason_every=1,
        preference_ties=True,
        confirm_contradictions=True,
        questions_per_form=1,
        recruitment={"completion_code": "C1", "completion_url": "https://app.example.org/c"},
    ).close()
    server = serve(place)
    page = open_page(server, is_ready=False)
    sound(page, "consent")
    page.locator(".agree").click()
    page.locator(".guidelines").wait_for()
    sound(page, "guidelines")
    press(page, "Enter")
    answer_practice(page)
    press(page, "Enter")
    page.locator(".feedback").wait_for()
    sound(page, "feedback")
    press(page, "Enter")
    expect(page.locator(".count")).to_have_text("1 / 2")
    press(page, "1", "Enter")
    sound(page, "question, answered in part")
    page.locator("button.frame").first.click()
    sound(page, "zoom")
    press(page, "Escape", "Shift+Digit1", "q", "r")
    page.keyboard.type("why not")
    sound(page, "question with its reason")
    press(page, "Escape", "Enter")
    expect(page.locator("#hsfiq-sum")).to_be_focused()
    press(page, "Enter")
    sound(page, "sum")
    type_sum(page)
    press(page, "Enter")
    expect(page.locator(".count")).to_have_text("2 / 2")
    press(page, "1", "Shift+Digit5", "q", "r")
    page.keyboard.type("why not")
    press(page, "Escape", "Enter")
    page.locator(".confirmation[open]").wait_for()
    sound(page, "confirmation")
    press(page, "Tab", "Enter")
    expect(page.locator(".code strong")).to_have_text("C1")
    sound(page, "done")
    page.goto(f"{server.url}/start/{newcomer(place, is_ready=False)}")
    page.locator(".decline").click()
    sound(page, "declining")
    page.locator(".leave").click()
    expect(page.locator(".farewell-title")).to_be_visible()
    sound(page, "declined")
    page.locator(".farewell .open-withdrawal").click()
    page.locator(".withdrawal[open]").wait_for()
    sound(page, "withdrawal")
    page.locator(".confirm-withdrawal").click()
    expect(page.locator(".withdrawn")).to_be_visible()
    sound(page, "withdrawn")
