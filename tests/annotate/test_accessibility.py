"""axe-core finds no violation on any page: light and dark, wide and narrow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.resources import files
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.annotate.question_page import OpenPage, press, type_sum
from tests.annotate.served_studies import Place, ThreadServer, make_study, newcomer

pytestmark = pytest.mark.browser

WIDE, NARROW = {"width": 1280, "height": 720}, {"width": 390, "height": 844}
LOOKS = [(WIDE, "light"), (NARROW, "dark"), (WIDE, "dark"), (NARROW, "light")]


@pytest.fixture(scope="session")
def axe() -> str:
    """The script of axe-core."""
    return (files("axe_playwright_python") / "axe.min.js").read_text("utf-8")


def faults(page: Page, axe: str) -> Iterator[str]:
    """The violations in each viewport and colour scheme; the scheme changes only the contrast."""
    if not page.evaluate("typeof axe === 'object'"):
        page.evaluate(axe)
    for number, (size, scheme) in enumerate(LOOKS):
        page.set_viewport_size(size)  # type: ignore[arg-type]
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")  # type: ignore[arg-type]
        options: dict[str, Any] = {"resultTypes": ["violations"]}
        if number > 1:
            options["runOnly"] = {"type": "rule", "values": ["color-contrast"]}
        result = page.evaluate("(options) => axe.run(document, options)", options)
        for violation in result["violations"]:
            for node in violation["nodes"]:
                yield f"{scheme} {size['width']}: {violation['id']}: {node['html'][:160]}"
    page.set_viewport_size(WIDE)  # type: ignore[arg-type]


@pytest.fixture
def sound(axe: str) -> Callable[[Page, str], None]:
    def check(page: Page, name: str) -> None:
        violations = list(faults(page, axe))
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
        questions_per_form=1,
        recruitment={"completion_code": "C1", "completion_url": "https://app.example.org/c"},
    ).close()
    server = serve(place)
    page = open_page(server, is_ready=False)
    sound(page, "consent")
    page.locator(".agree").click()
    sound(page, "guidelines")
    press(page, "Enter", "5", "Shift+Digit1", "q", "Enter")
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
    press(page, "1", "Shift+Digit1", "q", "r")
    page.keyboard.type("why not")
    press(page, "Escape", "Enter")
    expect(page.locator(".code strong")).to_have_text("C1")
    sound(page, "done")
    page.goto(f"{server.url}/start/{newcomer(place, is_ready=False)}")
    page.locator(".decline").click()
    expect(page.locator(".farewell-title")).to_be_visible()
    sound(page, "declined")
