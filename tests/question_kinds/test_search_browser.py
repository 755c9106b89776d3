"""The page of searches and arenas in Chromium: by keyboard, on a phone, with own pictures."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest
from PIL import Image
from playwright.sync_api import Browser, BrowserContext, FileChooser, Locator, Page, expect
from sqlalchemy import select

from benchmarks.painted_turns import painted_turns
from hsfiq.collect.searches import read_votes
from hsfiq.db.search_tables import SearchEnding, SearchTurn, SearchUpload
from hsfiq.db.tables import Form, Question
from tests.annotate.axe import faults
from tests.annotate.question_page import TEXT, boxes
from tests.browser import TIMEOUT_MS, new_context_of
from tests.drawn_retriever import DrawnRetriever
from tests.question_kinds.conftest import PHONE
from tests.question_kinds.drawn_catalogue import Catalogue
from tests.question_kinds.search_pages import create_arena, create_search, image_names

expect.set_options(timeout=TIMEOUT_MS)

TASKS = ("target-shown", "target-remembered", "own-wish")
FEW_SECONDS = "target_seconds = 2"


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
        catalogue.close(study)


def stored(catalogue: Catalogue, study: str) -> tuple[list[str], list[str]]:
    """The texts and the endings of a study's searches, in their order."""
    with catalogue.database.reading() as session:
        row = catalogue.study(session, study)
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


def votes(catalogue: Catalogue, study: str) -> list[tuple[int, bool]]:
    with catalogue.database.reading() as session:
        row = catalogue.study(session, study)
        return [(vote.preference, vote.both_bad) for vote in read_votes(session, row)]


def test_an_arena_by_keyboard(
    catalogue: Catalogue, rivals: list[DrawnRetriever], context: BrowserContext
) -> None:
    study = create_arena(catalogue, rivals, "arena-keys")
    with opened(catalogue, context, study) as page:
        write(page, "is red")
        expect_list(page, 1)
        for name in ("List 1", "List 2"):
            images = page.get_by_role("region", name=name, exact=True).locator("img")
            expect(images).to_have_count(3)
        frames = boxes(page, ".search-side .frame")
        first, second = frames[0], frames[3]  # neither list may look better
        assert second.width == pytest.approx(first.width, abs=0.1)
        assert second.height == pytest.approx(first.height, abs=0.1)
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
        first, second = boxes(page, ".search-side")
        assert first.bottom <= second.top  # one above the other
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
        page.locator("#hsfiq-search-text").fill("is blue")
        page.locator(".search-send").tap()
        expect_list(page, 2)
        assert list(faults(page)) == []
    assert votes(catalogue, study) == [(0, False)]


LIST_SIZES = [
    (320, 568), (390, 844), (768, 1024), (1024, 700), (1280, 720), (1440, 900), (2560, 1440),
]  # fmt: skip


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


def test_stopping_a_search_is_confirmed_and_the_page_asks_in_order(
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
        names = "all => all.map(({ dataset }) => dataset.field)"
        fields = page.locator(".search-form [data-field]")
        assert fields.evaluate_all(names) == ["vote", "nearest", "text"]
        tops = [box.top for box in boxes(page, ".search-form [data-field]")]
        assert tops == sorted(tops)
        page.locator(".search-stop").click()  # the lists have not been judged
        expect(dialog).to_be_hidden()
        assert page.locator(".unanswered").evaluate_all(names) == ["vote", "nearest"]
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


PATIENCE_MS = 500
"""After this, Enter is pressed again: a browser under load may not have taken it for a user's."""


def pick(page: Page, control: Locator, file: Path) -> None:
    """Go to the control with Tab, and open the browser's list of files with Enter."""
    choosers: list[FileChooser] = []

    def keep(chooser: FileChooser) -> None:
        choosers.append(chooser)

    page.on("filechooser", keep)
    for _ in range(TIMEOUT_MS // PATIENCE_MS):
        # The page may be busy with the last picture, and take the focus away when it answers.
        expect(page.locator(".busy")).to_have_count(0)
        while not control.evaluate("control => control === document.activeElement"):
            page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        page.wait_for_timeout(PATIENCE_MS)
        if choosers:
            break
    page.remove_listener("filechooser", keep)
    choosers[0].set_files(file)


def test_a_picture_is_picked_by_keyboard(
    catalogue: Catalogue, retriever: DrawnRetriever, context: BrowserContext, tmp_path: Path
) -> None:
    study = create_search(catalogue, retriever, "upload-keys", "own-wish", "uploads = true")
    photo, note = tmp_path / "photo.jpg", tmp_path / "note.jpg"
    Image.new("RGB", (600, 800), "teal").save(photo)
    note.write_text("no picture")
    with opened(catalogue, context, study) as page:
        control = page.get_by_label(TEXT["search_upload"])
        expect(control).to_be_visible()
        assert list(faults(page)) == []
        for file, told in ((note, TEXT["search_upload_unreadable"]), (photo, "")):
            pick(page, control, file)
            if told:
                expect(page.locator(".notice-text")).to_have_text(told)
        expect(page.locator(".search-target figcaption")).to_have_text(TEXT["search_upload_start"])
        expect(page.locator(".notice")).to_be_hidden()
        expect(control).to_be_hidden()
        shown = page.locator(".search-target img")
        assert shown.evaluate("image => image.decode().then(() => image.naturalWidth)") == 600
        assert list(faults(page)) == []
        page.reload()
        expect(page.locator(".search-target figcaption")).to_have_text(TEXT["search_upload_start"])
        write(page, "is red")
        expect_list(page, 1)
        about = page.locator(".search-turns img")
        assert about.evaluate("image => image.decode().then(() => image.naturalWidth)") == 600
    assert stored(catalogue, study) == (["is red"], [])
    with catalogue.database.reading() as session:
        newest = select(SearchUpload.width).order_by(SearchUpload.uploaded_at.desc())
        assert session.scalars(newest).first() == 600


def test_a_phone_uploads_a_picture(
    catalogue: Catalogue, retriever: DrawnRetriever, phone: BrowserContext, tmp_path: Path
) -> None:
    study = create_search(catalogue, retriever, "upload-phone", "own-wish", "uploads = true")
    photo = tmp_path / "photo.png"
    Image.new("RGB", (900, 600), "teal").save(photo)
    with opened(catalogue, phone, study) as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
        (button,) = boxes(page, ".search-upload .button")
        assert button.height >= 44
        with page.expect_file_chooser() as chooser:
            page.locator("#hsfiq-search-upload").tap()
        chooser.value.set_files(photo)
        expect(page.locator(".search-upload")).to_be_hidden()
        expect(page.locator(".search-target img")).to_be_visible()
        page.locator("#hsfiq-search-text").fill("is red")
        page.locator(".search-send").tap()
        expect_list(page, 1)


ROUNDS = 3


def test_each_turn_is_timed_until_its_list_is_painted(
    catalogue: Catalogue, chromium: Browser
) -> None:
    """The third text is the first of another search."""
    retriever = DrawnRetriever(image_names(catalogue))
    study = create_search(catalogue, retriever, "painted")
    context = new_context_of(chromium)
    page = context.new_page()
    page.goto(catalogue.server.url)
    page.get_by_role("button", name="Begin").click()
    seconds = painted_turns(page, ROUNDS, ROUNDS, 0.0, Random(0))
    assert len(seconds) == ROUNDS
    assert min(seconds) > 0
    assert retriever.asked == ROUNDS + 2  # two searches begin with the query's text
    context.close()
    retriever.stop()
    catalogue.close(study)
