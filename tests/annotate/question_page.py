"""Actions of a participant on the question page in a browser, and the page's texts."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

import pytest
from playwright.sync_api import Page, expect

from hsfiq.study.languages import standard_texts
from tests.annotate.page_requests import expected_sum

OpenPage = Callable[..., Page]

TEXT = standard_texts("en")["page"]
SCROLLED = re.compile(
    "|".join(re.escape(standard_texts(name)["page"]["key_scrolled"]) for name in ("en", "ko"))
)


PLACES = """(elements) => elements.map((element) => {
  if (!element.getClientRects().length) throw new Error(`${element.className} is not displayed`);
  const { left, top, right, bottom } = element.getBoundingClientRect();
  return [left, top, right, bottom];
})"""


class Box(NamedTuple):
    """The place of an element in the window, in CSS pixels."""

    left: float
    top: float
    right: float
    bottom: float

    @property
    def width(self) -> float:
        return self.right - self.left

    @property
    def height(self) -> float:
        return self.bottom - self.top


def boxes(page: Page, selector: str) -> list[Box]:
    """The boxes of all these elements, each of which is displayed, in one call of the browser."""
    return [Box(*place) for place in page.locator(selector).evaluate_all(PLACES)]


def expect_step(page: Page, step: str, count: str) -> None:
    """Wait until the page shows this step and this count of questions, and all its images."""
    expect(page.locator(".page")).to_have_attribute("data-step", step)
    expect(page.locator(".count")).to_have_text(count)
    expect(page.locator(".next.waiting")).to_have_count(0)


def resize(page: Page, width: int, height: int) -> None:
    """Resize the window, and wait for the frame in which the page rearranges its controls."""
    page.set_viewport_size({"width": width, "height": height})
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def press(page: Page, *keys: str) -> None:
    """Press the keys; Enter only once all images have loaded, because Next waits for them."""
    for key in keys:
        if key == "Enter":
            expect(page.locator(".next.waiting")).to_have_count(0)
        page.keyboard.press(key)


def judge(page: Page, *keys: str) -> None:
    """Press each key, and again as long as the page scrolls to what the key judges."""
    asked_again = page.locator(".notice-text", has_text=SCROLLED)
    for key in keys:
        press(page, key)
        for _ in range(20):
            if not asked_again.count():
                break
            press(page, key)


def answer(page: Page) -> None:
    """Give a complete answer by keyboard: scores 4 and 2, set 1 preferred."""
    judge(page, "4", "Shift+Digit2", "q")
    press(page, "Enter")


MATCHING = 'img[src$="/practice-1"], img[src$="/practice-12"]'


def better_side(page: Page) -> int:
    """At the practice question, the side of the set that matches: red dresses, or red squares."""
    page.locator('img[src*="/practice-"]').first.wait_for()
    is_first = page.locator(".set").nth(0).locator(MATCHING).count()
    return 1 if is_first else 2


def answer_practice(page: Page, *, is_right: bool = True) -> None:
    """Choose the right or the wrong answer at the practice question."""
    is_first = (better_side(page) == 1) == is_right
    judge(page, *(("5", "Shift+Digit1", "q") if is_first else ("1", "Shift+Digit5", "w")))


def press_next_when_ready(page: Page) -> None:
    """Press Enter once the question is complete and its images have loaded."""
    page.locator('.next[aria-disabled="false"]').wait_for()
    press(page, "Enter")


def type_sum(page: Page) -> None:
    """Type the correct result of the arithmetic check."""
    before, after = TEXT["check_prompt"].split("{sum}")
    prompt = page.locator(".sum label").inner_text()
    page.keyboard.type(expected_sum(prompt.removeprefix(before).removesuffix(after)))


def tab_to(page: Page, selector: str) -> None:
    """Press Tab until the focus is on the element."""
    for _ in range(30):
        page.keyboard.press("Tab")
        if page.evaluate("(wanted) => document.activeElement.matches(wanted)", selector):
            return
    pytest.fail(f"Tab does not reach {selector}")


NOTE_FRAMES = """
window.lastFrame = performance.now();
const ask = window.requestAnimationFrame;
window.requestAnimationFrame = (draw) => {
  window.lastFrame = performance.now();
  return ask.call(window, draw);
};
"""

IS_AT_REST = "performance.now() - window.lastFrame > 1000"


def note_frames(page: Page) -> None:
    """Note from the next address on when the page asks for a frame."""
    page.add_init_script(f"{{{NOTE_FRAMES}}}")


def wait_until_at_rest(page: Page) -> None:
    """Wait until the page has asked for no frame for a second."""
    while not page.evaluate(IS_AT_REST):  # the page's policy allows no function from a text
        page.wait_for_timeout(100)
