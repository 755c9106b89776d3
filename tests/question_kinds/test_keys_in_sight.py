"""A key never judges what is not visible, whatever kind and width; typing presses no shortcut."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.annotate.conftest import running
from tests.annotate.question_page import TEXT
from tests.annotate.served_studies import Place, ReusedStudy, make_study
from tests.annotate.test_layout import first_question, shown_with
from tests.browser import TIMEOUT_MS
from tests.drawn_retriever import DrawnRetriever
from tests.question_kinds.drawn_catalogue import Catalogue
from tests.question_kinds.search_pages import create_arena, create_search
from tests.question_kinds.test_search_browser import expect_list, opened

expect.set_options(timeout=TIMEOUT_MS)
pytestmark = pytest.mark.browser

SIZES = [(320, 568), (390, 844), (640, 360), (768, 1024), (1024, 768), (1280, 720), (2560, 1440)]
"""In CSS pixels, of the windows in which every kind is judged by keyboard."""

KINDS: list[tuple[dict[str, Any], list[str]]] = [
    ({"kind": "pair", "k": 5, "ties": True}, ["4", "Shift+Digit2", "q"]),
    ({"kind": "pair", "k": 10}, ["4", "Shift+Digit2", "q"]),
    ({"kind": "single", "k": 10}, ["3"]),
    ({"kind": "images", "k": 8, "levels": 3}, ["3"] * 8),
    ({"kind": "ranking", "k": 5, "sets": 5}, ["1", "2", "3", "4", "5"]),
    ({"kind": "query", "k": 1, "sets": 1}, ["2"]),
    ({"kind": "query", "k": 1, "sets": 0}, ["2"]),
]
MOST_PRESSES = 25
"""Of one key, until it has judged: one for each image and control that was not visible."""

CHECKED = """() => [...document.querySelectorAll("input[type=radio]:checked")]
  .map((input) => `${input.name}=${input.value}`)"""

WATCH = """() => {
  const isVisible = (element) => {
    const { left, top, width, height } = element.getBoundingClientRect();
    return element.contains(document.elementFromPoint(left + width / 2, top + height / 2));
  };
  window.hidden = [];
  window.seen = new Set();
  const images = () => [...document.querySelectorAll(".set .frame, .search-item .frame")];
  window.note = () => {
    images().filter(isVisible).forEach((image) => window.seen.add(image));
    window.options = new Set([...document.querySelectorAll("label")].filter(isVisible));
  };
  window.note();
  window.judged = (name) => {
    const input = document.querySelector(`input[name="${name}"]:checked`);
    const item = input.closest(".judged-image, .search-item, .set") ?? document;
    if (!window.options.has(input.closest("label"))) window.hidden.push(`the option of ${name}`);
    for (const image of images()) {
      const isHidden = item.contains(image) && !window.seen.has(image);
      if (isHidden) window.hidden.push(`an image of ${name}`);
    }
  };
}"""


@pytest.fixture(scope="module")
def page(
    tmp_path_factory: pytest.TempPathFactory, reused_context: BrowserContext
) -> Iterator[Page]:
    """A page on which each test shows its own question."""
    place = Place(tmp_path_factory.mktemp("keys"))
    make_study(place, image_width=300).close()
    reused = ReusedStudy(place, tmp_path_factory.mktemp("keys-reused"))
    reused.restore()
    with running(reused.server()) as server:
        page = first_question(server, reused_context)
        yield page
        page.close()
    reused_context.clear_cookies()


def judge_by_key(page: Page, key: str) -> list[str]:
    """Press a key until it judges something; what it judged although it was not visible."""
    before = page.evaluate(CHECKED)
    for _ in range(MOST_PRESSES):
        page.evaluate("window.note()")  # what a participant sees when the key is pressed
        page.keyboard.press(key)
        after = page.evaluate(CHECKED)
        if after != before:
            (field,) = set(after) - set(before)
            page.evaluate("(name) => window.judged(name)", field.partition("=")[0])
            faults: list[str] = page.evaluate("window.hidden")
            return faults
    pytest.fail(f"{key} judges nothing")


@pytest.mark.parametrize(("options", "keys"), KINDS)
def test_a_key_never_judges_what_is_not_visible(
    page: Page, options: dict[str, Any], keys: list[str]
) -> None:
    for width, height in SIZES:
        page.set_viewport_size({"width": width, "height": height})
        page.evaluate("sessionStorage.clear()")
        shown_with(page, options)
        expect(page.locator(".next.waiting")).to_have_count(0)
        page.evaluate(WATCH)
        for key in keys:
            assert judge_by_key(page, key) == [], (width, height, key)
            expect(page.locator(".notice")).to_be_hidden()
        expect(page.locator(".next")).to_have_attribute("aria-disabled", "false")


def test_the_current_image_is_marked_and_in_view(page: Page) -> None:
    page.set_viewport_size({"width": 1280, "height": 720})
    page.evaluate("sessionStorage.clear()")
    shown_with(page, {"kind": "images", "k": 8, "levels": 3})
    expect(page.locator(".next.waiting")).to_have_count(0)
    marked = page.locator(".current-item fieldset")
    for number in range(1, 9):
        expect(marked).to_have_attribute("data-field", f"image_{number}")
        expect(page.locator(".current-item")).to_be_in_viewport(ratio=1)
        page.keyboard.press("3")
    expect(page.locator(".current-item")).to_have_count(0)
    expect(page.locator(".judged-image input:checked")).to_have_count(8)
    page.locator(".judged-image").nth(2).locator("input").first.focus()
    expect(marked).to_have_attribute("data-field", "image_3")


def test_the_flag_is_not_set_out_of_sight(page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.evaluate("sessionStorage.clear()")
    shown_with(page, {"k": 5})
    expect(page.locator(".next.waiting")).to_have_count(0)
    page.keyboard.press("x")
    expect(page.locator(".irrelevant")).not_to_be_checked()
    expect(page.locator(".flag")).to_be_in_viewport(ratio=1)
    page.keyboard.press("x")
    expect(page.locator(".irrelevant")).to_be_checked()


def test_typing_on_the_page_presses_no_shortcut(page: Page) -> None:
    """A letter that is no shortcut begins a text, until Escape, Enter, Tab or a click."""
    page.set_viewport_size({"width": 1280, "height": 720})
    for end in ("Escape", "Enter", "Tab"):
        page.evaluate("sessionStorage.clear()")
        shown_with(page, {"k": 5, "ties": True})
        expect(page.locator(".next.waiting")).to_have_count(0)
        page.keyboard.type("the 3 sleeves are worn wider, zip at the back; ask?")
        assert page.evaluate(CHECKED) == []
        expect(page.locator(".irrelevant")).not_to_be_checked()
        expect(page.locator("dialog[open]")).to_have_count(0)
        expect(page.locator(".notice-text")).to_have_text(TEXT["keys_paused"])
        page.keyboard.press(end)
        expect(page.locator(".notice")).to_be_hidden()
        page.keyboard.press("q")
        assert page.evaluate(CHECKED) == ["preferred=1"]


# ------------------------------------------------------------------------------ searches


@pytest.mark.parametrize("kind", ["search", "arena"])
def test_a_key_never_judges_hidden_lists(
    catalogue: Catalogue, retriever: DrawnRetriever, context: BrowserContext, kind: str
) -> None:
    if kind == "arena":
        study = create_arena(catalogue, [retriever, retriever], "keys-arena")
    else:
        study = create_search(catalogue, retriever, "keys-search", "own-wish")
    with opened(catalogue, context, study) as page:
        page.keyboard.press("t")
        page.keyboard.type("is red")
        page.keyboard.press("Enter")
        expect_list(page, 1)
        for width, height in SIZES:
            tab = context.new_page()  # nothing is chosen or seen in it yet
            tab.set_viewport_size({"width": width, "height": height})
            tab.goto(page.url)
            tab.locator(".guidelines .close").click()
            expect_list(tab, 1)
            tab.evaluate(WATCH)
            for key in ("2", "Shift+Digit2", "n"):
                assert judge_by_key(tab, key) == [], (width, height, key)
            tab.close()


def test_a_sentence_typed_at_a_locked_text_presses_no_shortcut(
    catalogue: Catalogue, retriever: DrawnRetriever, context: BrowserContext
) -> None:
    study = create_search(catalogue, retriever, "typed", "own-wish")
    with opened(catalogue, context, study) as page:
        page.keyboard.press("t")
        page.keyboard.type("is red")
        page.keyboard.press("Enter")
        expect_list(page, 1)
        page.keyboard.press("t")
        missing = f"{TEXT['search_missing_satisfaction']}, {TEXT['search_missing_nearest']}"
        waits = TEXT["search_text_waits"].format(items=missing)
        expect(page.locator(".notice-text")).to_have_text(waits)
        page.keyboard.type("is darker with long sleeves, no 3 buttons")
        assert page.evaluate(CHECKED) == []
        page.keyboard.press("Escape")
        page.keyboard.type("skin is darker with long sleeves")  # without T
        assert page.evaluate(CHECKED) == []
        expect(page.locator(".notice-text")).to_have_text(TEXT["keys_paused"])
        page.keyboard.press("Escape")
        for key in ("2", "Shift+Digit2"):
            page.evaluate(WATCH)
            judge_by_key(page, key)
        page.keyboard.type("is darker")  # the text is no longer locked, but has not the focus
        expect(page.locator('.page[data-search="list"]')).to_be_visible()
        page.keyboard.press("Escape")
        page.keyboard.press("t")
        page.keyboard.type("is darker")
        expect(page.locator("#hsfiq-search-text")).to_have_value("is darker")
