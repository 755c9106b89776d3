"""The page of an arena in Chromium: by keyboard, and on a phone with a system that fails."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import BrowserContext, Page, expect
from sqlalchemy import select

from hsfiq.collect.searches import read_votes
from hsfiq.collect.studies import find_study
from hsfiq.db.search_tables import SearchEnding
from tests.annotate.axe import faults
from tests.annotate.question_page import TEXT, boxes
from tests.browser import TIMEOUT_MS
from tests.drawn_retriever import DrawnRetriever
from tests.question_kinds.conftest import PHONE
from tests.question_kinds.drawn_catalogue import Catalogue
from tests.question_kinds.search_pages import create_arena, image_names
from tests.question_kinds.test_search_browser import (
    expect_list,
    opened,
    stored,
    tell_by_keyboard,
    write,
)

expect.set_options(timeout=TIMEOUT_MS)


@pytest.fixture(scope="module")
def rivals(catalogue: Catalogue) -> Iterator[list[DrawnRetriever]]:
    made = [DrawnRetriever(image_names(catalogue), noise=noise) for noise in (0.0, 0.5)]
    yield made
    for retriever in made:
        retriever.stop()


def votes(catalogue: Catalogue, study: str) -> list[tuple[int, bool]]:
    with catalogue.database.reading() as session:
        row = find_study(session, study)
        assert row is not None
        return [(vote.preference, vote.both_bad) for vote in read_votes(session, row)]


def test_an_arena_by_keyboard(
    catalogue: Catalogue, rivals: list[DrawnRetriever], context: BrowserContext
) -> None:
    study = create_arena(catalogue, rivals, "arena-keys")
    with opened(catalogue, context, study) as page:
        write(page, "is red")
        expect_list(page, 1)
        expect(page.get_by_role("region", name="List 1", exact=True).locator("img")).to_have_count(
            3
        )
        expect(page.get_by_role("region", name="List 2", exact=True).locator("img")).to_have_count(
            3
        )
        first, second = (page.locator(".search-side .frame").nth(n).bounding_box() for n in (0, 3))
        assert first is not None
        assert second is not None  # neither list may look better
        assert [second[size] for size in ("width", "height")] == pytest.approx(
            [first[size] for size in ("width", "height")], abs=0.1
        )
        expect(page.locator("#hsfiq-search-text")).not_to_be_editable()
        page.keyboard.press("Shift+Digit3")
        marked = page.locator('input[name="search_nearest"]:checked')
        expect(marked).to_have_attribute("aria-label", "Result 3 of list 1 comes nearest")
        page.keyboard.press("Shift+Digit3")  # again: in the other list
        expect(marked).to_have_attribute("aria-label", "Result 3 of list 2 comes nearest")
        page.keyboard.press("i")  # without a vote
        expect(page.locator(".notice-text")).to_contain_text(TEXT["arena_missing_vote"])
        page.keyboard.press("2")
        assert list(faults(page)) == []
        write(page, "is blue")
        expect_list(page, 2)
        expect(page.locator(".search-turns")).to_contain_text("your vote: List 2")
        page.keyboard.press("4")
        page.keyboard.press("n")
        page.reload()  # the same turn, and what was entered
        expect_list(page, 2)
        expect(page.locator('input[name="search_vote"]:checked')).to_have_value("4")
        page.keyboard.press("Shift+Digit2")
        expect(page.locator(".search-found")).to_contain_text("result 2 of list 1")
        page.keyboard.type("ii")
        tell_by_keyboard(page)
        expect(page.locator(".count")).to_have_text("2 / 2")
    assert votes(catalogue, study) == [(2, False), (0, True)]
    assert stored(catalogue, study) == (["is red", "is blue"], ["declared"])
    with catalogue.database.reading() as session:
        last = select(SearchEnding.declared_side).order_by(SearchEnding.question_id.desc())
        assert session.scalars(last).first() == 1


def test_a_phone_shows_no_half_turn(
    catalogue: Catalogue, rivals: list[DrawnRetriever], phone: BrowserContext
) -> None:
    study = create_arena(catalogue, rivals, "arena-phone")
    with opened(catalogue, phone, study) as page:
        rivals[1].stop()
        page.locator("#hsfiq-search-text").fill("is red")
        page.locator(".search-send").tap()
        expect(page.locator('.page[data-search="waiting"] .notice')).to_contain_text("is red")
        expect(page.locator(".search-item")).to_have_count(0)
        rivals[1].start()  # the page asks again by itself
        expect_list(page, 1)
        expect(page.locator(".search-item")).to_have_count(6)
        page.locator(".search-judgement .option").nth(2).tap()
        page.locator(".search-item .option").nth(4).tap()
        boxes = [page.locator(".search-side").nth(side).bounding_box() for side in (0, 1)]
        assert boxes[0] is not None
        assert boxes[1] is not None
        assert boxes[0]["y"] + boxes[0]["height"] <= boxes[1]["y"]  # one above the other
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
        page.locator("#hsfiq-search-text").fill("is blue")
        page.locator(".search-send").tap()
        expect_list(page, 2)
        assert list(faults(page)) == []
    assert votes(catalogue, study) == [(0, False)]


LIST_SIZES = [
    (320, 568),
    (390, 844),
    (768, 1024),
    (1024, 700),
    (1280, 720),
    (1440, 900),
    (2560, 1440),
]


def visible(page: Page, selector: str) -> list[bool]:
    """Whether the middle of each of these elements can be seen without scrolling."""
    seen: list[bool] = page.locator(selector).evaluate_all(
        """(elements) => elements.map((element) => {
          const { left, top, width, height, bottom } = element.getBoundingClientRect();
          const uppermost = document.elementFromPoint(left + width / 2, top + height / 2);
          return bottom <= innerHeight && element.contains(uppermost);
        })"""
    )
    return seen


def test_long_lists_fit_and_keep_the_vote_in_view(
    catalogue: Catalogue, rivals: list[DrawnRetriever], context: BrowserContext
) -> None:
    study = create_arena(catalogue, rivals, "arena-of-long-lists", k=10)
    with opened(catalogue, context, study) as page:
        write(page, "is red")
        expect_list(page, 1)
        for width, height in LIST_SIZES:
            page.set_viewport_size({"width": width, "height": height})
            page.evaluate("scrollTo(0, 0)")
            assert visible(page, ".search-judgement .option") == [True] * 4, width
            page.locator(".search-item").last.scroll_into_view_if_needed()
            assert visible(page, ".search-judgement .option") == [True] * 4, width
            images = boxes(page, ".search-side:first-child .frame")
            assert len([image for image in images if image.top == images[0].top]) >= 3, width
            assert images[0].width >= 80, width


def test_the_page_asks_in_the_order_of_the_guidelines(
    catalogue: Catalogue, rivals: list[DrawnRetriever], context: BrowserContext
) -> None:
    study = create_arena(catalogue, rivals, "arena-order")
    with opened(catalogue, context, study) as page:
        write(page, "is red")
        expect_list(page, 1)
        asked = page.locator(".search-form [data-field]")
        names = "all => all.map(({ dataset }) => dataset.field)"
        assert asked.evaluate_all(names) == ["vote", "nearest", "text"]
        tops = [box.top for box in boxes(page, ".search-form [data-field]")]
        assert tops == sorted(tops)
        page.locator(".search-stop").click()
        assert page.locator(".unanswered").evaluate_all(names) == ["vote", "nearest"]


def test_stopping_a_search_is_confirmed(
    catalogue: Catalogue, rivals: list[DrawnRetriever], context: BrowserContext
) -> None:
    study = create_arena(catalogue, rivals, "arena-stopped")
    with opened(catalogue, context, study) as page:
        dialog = page.locator(".stopping")
        page.locator(".search-stop").click()  # before the first text
        expect(dialog).to_be_visible()
        page.keyboard.press("Enter")  # without reading: the search goes on
        expect(dialog).to_be_hidden()
        write(page, "is red")
        expect_list(page, 1)
        page.locator(".search-stop").click()  # the lists have not been judged
        expect(dialog).to_be_hidden()
        page.keyboard.press("2")
        page.keyboard.press("n")
        page.locator(".search-stop").click()
        expect(dialog).to_be_visible()
        page.keyboard.press("Escape")
        expect(dialog).to_be_hidden()
        assert stored(catalogue, study) == (["is red"], [])
        page.locator(".search-stop").click()
        assert list(faults(page)) == []
        page.locator(".stopping .stop").click()
        tell_by_keyboard(page)
        expect(page.locator(".count")).to_have_text("2 / 2")
    assert stored(catalogue, study) == (["is red"], ["stopped"])
    assert votes(catalogue, study) == [(2, False)]
