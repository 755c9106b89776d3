"""The page of a search in Chromium: each task by keyboard, and on a phone with failures."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import BrowserContext, Page, expect
from sqlalchemy import select

from hsfiq.collect.studies import find_study
from hsfiq.db.search_tables import SearchEnding, SearchTurn
from hsfiq.db.tables import Form, Question
from tests.annotate.axe import faults
from tests.annotate.question_page import TEXT
from tests.browser import TIMEOUT_MS
from tests.drawn_retriever import DrawnRetriever
from tests.question_kinds.conftest import PHONE
from tests.question_kinds.drawn_catalogue import Catalogue
from tests.question_kinds.search_pages import create_search, image_names

expect.set_options(timeout=TIMEOUT_MS)

TASKS = ("target-shown", "target-remembered", "own-wish")
FEW_SECONDS = "target_seconds = 2"


@pytest.fixture(scope="module")
def retriever(catalogue: Catalogue) -> Iterator[DrawnRetriever]:
    made = DrawnRetriever(image_names(catalogue))
    yield made
    made.stop()


@contextmanager
def opened(catalogue: Catalogue, context: BrowserContext, study: str) -> Iterator[Page]:
    """The page of a new participant, who has agreed and read the guidelines."""
    page = context.new_page()
    page.goto(catalogue.server.url)
    page.get_by_role("button", name="Begin").click()
    page.locator(".agree").click()
    page.locator(".guidelines .close").click()
    try:
        yield page
    finally:
        page.close()
        catalogue.hsfiq("study", "close", "--study", study)


def stored(catalogue: Catalogue, study: str) -> tuple[list[str], list[str]]:
    """The texts and the endings of a study's searches, in their order."""
    with catalogue.database.reading() as session:
        row = find_study(session, study)
        assert row is not None
        own = select(Question.id).join(Form).where(Form.study_id == row.id)
        turns = select(SearchTurn.text).where(SearchTurn.question_id.in_(own))
        endings = select(SearchEnding.reason).where(SearchEnding.question_id.in_(own))
        return (
            list(session.scalars(turns.order_by(SearchTurn.id))),
            list(session.scalars(endings.order_by(SearchEnding.question_id))),
        )


def expect_list(page: Page, number: int) -> None:
    """Wait until the images of a list are painted."""
    expect(page.locator('.page[data-search="list"]')).to_be_visible()
    expect(page.locator(".search-lists")).to_have_attribute("data-painted", str(number))


def write(page: Page, text: str) -> None:
    page.keyboard.press("t")
    page.keyboard.type(text)
    page.keyboard.press("Enter")


def tell_by_keyboard(page: Page) -> None:
    """Answer the questions after a search by keyboard: the middle of each scale."""
    expect(page.locator('.page[data-search="end"]')).to_be_visible()
    page.locator(".search-next").click()
    n_questions = page.locator(".search-questions fieldset").count()
    for name in ("search_success", "search_ease", "search_go_on", "search_why"):
        if n_questions > 1:
            several = TEXT["answer_highlighted"].format(count=n_questions)
            expect(page.locator(".notice-text")).to_have_text(several)
        n_questions -= 1
        first = page.locator(f'input[name="{name}"]').first
        if first.count():
            first.focus()
            page.keyboard.press("Space")
            page.keyboard.press("ArrowRight")
    page.locator(".search-next").focus()
    page.keyboard.press("Enter")


@pytest.mark.parametrize("task", TASKS)
def test_a_search_by_keyboard(
    catalogue: Catalogue, retriever: DrawnRetriever, context: BrowserContext, task: str
) -> None:
    study = create_search(catalogue, retriever, f"keys-{task}", task, FEW_SECONDS)
    with opened(catalogue, context, study) as page:
        if task == "target-remembered":
            expect(page.locator(".search-memorise img")).to_be_visible()
        if task == "own-wish":
            write(page, "is red")
        expect_list(page, 1)
        # The target is on the page only where the task shows it.
        targets = page.locator(".search-memorise img, .search-target:not([hidden]) img")
        expect(targets).to_have_count(1 if task == "target-shown" else 0)
        expect(page.locator("#hsfiq-search-text")).not_to_be_editable()
        page.keyboard.press("i")  # no image is marked yet
        expect(page.locator(".notice-text")).to_have_text(TEXT["search_found_needs"])
        page.keyboard.press("2")
        nearest = TEXT["search_still_missing"].format(items=TEXT["search_missing_nearest"])
        expect(page.locator(".notice-text")).to_have_text(nearest)
        page.keyboard.press("Shift+Digit1")
        expect(page.locator(".notice")).to_be_hidden()
        given = page.locator(".search-task", has_text=TEXT["search_given"])
        expect(given).to_have_count(0 if task == "own-wish" else 1)
        write(page, "is blue")
        expect_list(page, 2)
        expect(given).to_have_count(0)
        expect(page.locator(".search-turns li")).to_have_count(2)
        page.keyboard.press("n")
        page.keyboard.press("4")
        if task == "target-shown":
            assert list(faults(page)) == []
            page.keyboard.press("Shift+Digit2")
            page.keyboard.type("ii")
        else:
            page.locator(".search-stop").focus()
            page.keyboard.press("Enter")
            page.locator(".stopping .stop").focus()
            page.keyboard.press("Enter")
        tell_by_keyboard(page)
        expect(page.locator(".count")).to_have_text("2 / 2")
        texts, endings = stored(catalogue, study)
        assert texts[1] == "is blue"
        assert endings == ["declared" if task == "target-shown" else "stopped"]


def test_a_phone_loses_no_text(
    catalogue: Catalogue, retriever: DrawnRetriever, phone: BrowserContext
) -> None:
    study = create_search(catalogue, retriever, "phone")
    with opened(catalogue, phone, study) as page:
        expect_list(page, 1)
        page.locator(".search-judgement .option").nth(2).tap()
        page.locator(".search-item .option").nth(1).tap()
        field = page.locator("#hsfiq-search-text")
        field.fill("is red and")
        page.reload()  # what is typed outlives a reload
        expect_list(page, 1)
        expect(field).to_have_value("is red and")
        expect(page.locator('input[name="search_nearest"]:checked')).to_have_value("2")
        field.fill("is red and has stripes")

        page.route("**/search/turn", lambda route: route.abort())
        page.locator(".search-send").tap()
        expect(page.locator(".notice-text")).to_have_text(TEXT["offline"])
        expect(field).to_have_value("is red and has stripes")
        page.unroute("**/search/turn")

        images = page.locator(".search-item img").evaluate_all("all => all.map((i) => i.src)")
        retriever.stop()
        page.locator(".notice-action").tap()
        expect(page.locator('.page[data-search="waiting"] .notice')).to_contain_text("is red and")
        assert (
            page.locator(".search-item img").evaluate_all("all => all.map((i) => i.src)") == images
        )
        assert stored(catalogue, study)[0][1:] == ["is red and has stripes"]
        page.reload()  # the same turn, still without its list
        expect(page.locator(".search-turns")).to_contain_text("is red and has stripes")
        retriever.start()  # the page asks again by itself
        expect_list(page, 2)
        assert stored(catalogue, study)[0][1:] == ["is red and has stripes"]
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
