"""With a contrast theme of the system, what is chosen, ready or filled still looks different."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from hsfiq import annotate
from tests.annotate.conftest import running
from tests.annotate.served_studies import ReusedStudy
from tests.annotate.test_layout import EXTRA, SEVEN, first_question, shown_with
from tests.browser import new_context_of

pytestmark = pytest.mark.browser

KINDS: list[dict[str, Any]] = [
    {"kind": "pair", "k": 5, "ties": True, "extra": EXTRA},
    {"kind": "pair", "k": 5, "anchors": SEVEN},
    {"kind": "single", "k": 5},
    {"kind": "images", "k": 5, "levels": 3},
    {"kind": "ranking", "k": 3, "sets": 3, "ties": True},
    {"kind": "query", "k": 1, "sets": 1},
]

STATIC = Path(annotate.__file__).parent / "static"

LOOK = """(element) => {
  const { color, backgroundColor, borderColor } = getComputedStyle(element);
  return [color, backgroundColor, borderColor].join(" ");
}"""

UNREADABLE = """(element) => [element, ...element.querySelectorAll("*")]
  .filter((part) => {
    const style = getComputedStyle(part);
    return style.color === getComputedStyle(element).backgroundColor;
  }).map((part) => part.outerHTML)"""


@pytest.fixture(scope="module")
def themed(chromium: Browser) -> Iterator[BrowserContext]:
    with new_context_of(chromium, forced_colors="active") as context:
        yield context


@pytest.fixture(scope="module")
def page(reused_study: ReusedStudy, themed: BrowserContext) -> Iterator[Page]:
    reused_study.restore()
    with running(reused_study.server()) as server:
        page = first_question(server, themed)
        yield page
        page.close()


def shown(page: Page, options: dict[str, Any]) -> None:
    page.evaluate("sessionStorage.clear()")
    shown_with(page, options)
    expect(page.locator(".next.waiting")).to_have_count(0)


@pytest.mark.parametrize("options", KINDS)
def test_chosen_options_differ(page: Page, options: dict[str, Any]) -> None:
    shown(page, options)
    names = page.locator(".page .option:visible input").evaluate_all(
        "(inputs) => [...new Set(inputs.map((input) => input.name))]"
    )
    assert names
    for name in names:
        option = page.locator(f'.option:has(input[name="{name}"])').first
        before = option.evaluate(LOOK)
        option.click()
        page.mouse.move(0, 0)
        assert option.evaluate(LOOK) != before, name
        assert option.evaluate(UNREADABLE) == []


def test_next_differs_when_it_is_ready(page: Page) -> None:
    shown(page, {"kind": "single", "k": 3})
    following = page.locator(".next")
    waiting = following.evaluate(LOOK)
    assert following.evaluate(UNREADABLE) == []
    page.locator('input[name="score_1"]').first.check(force=True)
    expect(following).to_have_attribute("aria-disabled", "false")
    assert following.evaluate(LOOK) != waiting
    assert following.evaluate(UNREADABLE) == []


def test_the_progress_bar_is_filled(page: Page) -> None:
    shown(page, {"k": 3})
    bar = page.locator(".progress")
    bar.evaluate("(bar) => { bar.value = 0; bar.style.transition = 'none'; }")
    empty = bar.screenshot(animations="disabled")
    bar.evaluate("(bar) => { bar.value = bar.max; }")
    assert bar.screenshot(animations="disabled") != empty


def test_pressed_buttons_of_the_viewer_differ(page: Page) -> None:
    shown(page, {"k": 3})
    page.locator(".set .frame").first.click()
    for selector in (".full-size-button", ".zoom-score .score"):
        button = page.locator(selector).first
        before = button.evaluate(LOOK)
        button.click()
        expect(button).to_have_attribute("aria-pressed", "true")
        page.mouse.move(0, 0)
        assert button.evaluate(LOOK) != before
    current, other = page.locator(".thumb").nth(0), page.locator(".thumb").nth(1)
    assert current.evaluate(LOOK) != other.evaluate(LOOK)
    page.keyboard.press("Escape")


def test_the_current_image_is_marked(page: Page) -> None:
    shown(page, {"kind": "images", "k": 3, "levels": 2})
    style = (
        "(item) => { const s = getComputedStyle(item); return s.outlineStyle + s.outlineColor; }"
    )
    items = page.locator(".judged-image")
    assert items.nth(0).evaluate(style) != items.nth(1).evaluate(style)


FIGURES = """<div class="figures"><span class="key key-1"></span><span class="key key-2"></span>
<span class="key passed"></span><span class="key failed"></span></div>"""


def test_the_owners_pages_and_the_leaderboard_differ_too(themed: BrowserContext) -> None:
    page = themed.new_page()

    def show(content: str, *sheets: str) -> None:
        styles = "".join((STATIC / name).read_text() for name in ("colours.css", *sheets))
        page.set_content(f"<style>{styles}</style>{content}")

    show(FIGURES, "studio/studio.css", "studio/figures.css")
    looks = page.locator(".key").evaluate_all(f"(keys) => keys.map({LOOK})")
    assert len(set(looks)) == 4
    show('<a class="button" href="#">Begin</a>', "owner_pages.css")
    background = "(button) => getComputedStyle(button).backgroundColor"
    assert page.locator(".button").evaluate(background) != "rgba(0, 0, 0, 0)"
    plot = '<div class="plot"><svg viewBox="0 0 9 9"><line class="whisker" x2="9"/></svg></div>'
    show(f"{plot}<p style='color: Canvas'></p>", "leaderboard.css")
    stroke = page.locator(".whisker").evaluate("(line) => getComputedStyle(line).stroke")
    assert stroke != page.locator("p").evaluate("(p) => getComputedStyle(p).color")
    page.close()
