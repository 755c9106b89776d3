"""Answers wait for their images and record which were seen: a real Chromium, blocked, delayed."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, Route, expect
from sqlalchemy import select

from hsfiq.answer_rules import ImageStates
from hsfiq.db.source_tables import Image
from tests.annotate.page_requests import stored, token_of
from tests.annotate.question_page import (
    TEXT,
    OpenPage,
    answer,
    expect_step,
    press,
    press_next_when_ready,
    tab_to,
)
from tests.annotate.served_studies import K, ServeStudy, ThreadServer, all_of

pytestmark = pytest.mark.browser


N_IMAGES = 2 * K + 1
SEEN = ImageStates("shown", (("shown",) * K, ("shown",) * K))


class Gate:
    """Holds back requests for images until it is opened."""

    def __init__(self) -> None:
        self.held: list[Route] = []
        self.is_open = False

    def __call__(self, route: Route) -> None:
        if self.is_open:
            route.continue_()
        else:
            self.held.append(route)

    def open(self) -> None:
        self.is_open = True
        for route in self.held:
            route.continue_()


def block(route: Route) -> None:
    route.abort()


def states(server: ThreadServer) -> list[ImageStates | None]:
    """The states of the images of each stored row."""
    return [
        ImageStates.from_letters(row.images) if row.images else None
        for row in stored(server.database)
    ]


def answer_without_waiting(page: Page) -> None:
    for key in ("4", "Shift+Digit2", "q", "Enter"):
        page.keyboard.press(key)


def expect_choices_kept(page: Page) -> None:
    expect(page.locator(".set").nth(0).get_by_role("radio").nth(3)).to_be_checked()
    expect(page.locator(".set").nth(1).get_by_role("radio").nth(1)).to_be_checked()


# ------------------------------------------------------------------------------ waiting for images


def test_an_answer_waits_until_all_images_have_loaded(
    server: ThreadServer, open_page: OpenPage
) -> None:
    gate = Gate()
    page = open_page(server, images=gate)
    loading = TEXT["next_waiting"].format(loaded=0, total=N_IMAGES)
    expect(page.locator(".next-label")).to_have_text(loading)
    expect(page.locator(".frame.loading")).to_have_count(N_IMAGES)
    expect(page.locator(".frame.loading").first).to_have_css("animation-name", "none")
    answer_without_waiting(page)
    waiting = TEXT["images_waiting"].format(loaded=0, total=N_IMAGES)
    expect(page.locator(".notice-text")).to_have_text(waiting)
    page.locator(".next").click(force=True)
    expect(page.locator(".next")).to_have_attribute("aria-disabled", "true")
    gate.open()
    expect(page.locator(".next")).to_have_attribute("aria-disabled", "false")
    expect(page.locator(".next-label")).to_have_text(TEXT["next"])
    expect(page.locator(".notice")).to_be_hidden()
    assert stored(server.database) == []
    expect_choices_kept(page)
    press(page, "Enter")
    expect_step(page, "question", "2 / 6")
    assert states(server) == [SEEN]


def test_images_that_do_not_load_can_be_loaded_again(
    server: ThreadServer, open_page: OpenPage
) -> None:
    page = open_page(server, images=block)
    failed = TEXT["images_failed"].format(failed=N_IMAGES, total=N_IMAGES)
    expect(page.locator(".notice-text")).to_have_text(failed)
    expect(page.locator(".live")).to_have_text(failed)
    expect(page.locator(".next-label")).to_have_text(TEXT["next_failed"])
    answer_without_waiting(page)
    page.locator(".next").click(force=True)
    expect(page.locator(".notice-text")).to_have_text(failed)
    assert stored(server.database) == []
    tab_to(page, ".notice-action")
    page.keyboard.press("Enter")  # still blocked
    expect(page.locator(".notice-text")).to_have_text(failed)
    page.unroute("**/image/*")
    page.get_by_role("button", name=TEXT["retry_images"]).click()
    expect(page.locator(".next")).to_have_attribute("aria-disabled", "false")
    expect(page.locator(".notice")).to_be_hidden()
    expect(page.locator(".skip")).to_be_hidden()
    expect_choices_kept(page)
    press(page, "Enter")
    expect_step(page, "question", "2 / 6")
    assert states(server) == [SEEN]


def test_a_question_whose_images_do_not_load_can_be_skipped(
    server: ThreadServer, open_page: OpenPage
) -> None:
    blocked = []

    def block_one(route: Route) -> None:
        token = route.request.url.rpartition("/")[2]
        blocked[:] = blocked or [token]
        if token in blocked:
            route.abort()
        else:
            route.continue_()

    page = open_page(server, images=block_one)
    expect(page.locator(".frame.loading")).to_have_count(0)
    page.get_by_role("button", name=TEXT["skip"]).click()
    expect(page.locator(".count")).to_have_text("2 / 6")
    (row,) = stored(server.database)
    assert (row.skipped, row.score_1) == ("unloaded-image", None)
    assert states(server) == [ImageStates("unloaded", SEEN.sets)]


def test_images_that_take_long_can_be_loaded_again_or_skipped(
    server: ThreadServer, open_page: OpenPage
) -> None:
    gate = Gate()
    page = open_page(server, images=gate, is_clock_stopped=True)
    expect(page.locator(".frame.loading")).to_have_count(N_IMAGES)
    page.clock.fast_forward(25_000)
    slow = TEXT["images_slow"].format(loaded=0, total=N_IMAGES)
    expect(page.locator(".notice-text")).to_have_text(slow)
    expect(page.get_by_role("button", name=TEXT["skip"])).to_be_visible()
    gate.is_open = True  # the requests held before stay without a reply
    page.get_by_role("button", name=TEXT["retry_images"]).click()
    expect(page.locator(".next.waiting")).to_have_count(0)
    expect(page.locator(".notice")).to_be_hidden()
    answer(page)
    expect(page.locator(".count")).to_have_text("2 / 6")
    assert states(server) == [SEEN]


def test_an_answer_that_is_stored_needs_no_images(page: Page, server: ThreadServer) -> None:
    answer(page)
    expect_step(page, "question", "2 / 6")
    page.route("**/image/*", block)
    press(page, "b")
    expect(page.locator(".count")).to_have_text("1 / 6")
    page.reload()
    expect(page.locator(".count")).to_have_text("2 / 6")
    press(page, "b")
    expect(page.locator(".count")).to_have_text("1 / 6")
    expect(page.locator(".frame.failed").first).to_be_visible()
    expect(page.locator(".skip")).to_be_hidden()  # a skip would replace the answer
    press(page, "1")
    expect(page.locator(".next-label")).to_have_text(TEXT["next_failed"])
    press(page, "4")
    page.keyboard.press("Enter")
    expect(page.locator(".count")).to_have_text("2 / 6")
    assert len(stored(server.database)) == 1


def test_practice_question_waits_for_its_images(server: ThreadServer, open_page: OpenPage) -> None:
    page = open_page(server, is_ready=False, images=block)
    page.locator(".agree").click()
    page.locator(".guidelines .close").click()
    expect(page.locator(".count")).to_have_text(TEXT["practice"])
    answer_without_waiting(page)
    expect(page.locator(".feedback")).to_be_hidden()
    failed = TEXT["images_failed"].format(failed=N_IMAGES, total=N_IMAGES)
    expect(page.locator(".notice-text")).to_have_text(failed)
    page.get_by_role("button", name=TEXT["skip"]).click()
    expect(page.locator(".count")).to_have_text("1 / 6")
    assert stored(server.database) == []


# -------------------------------------------------------------------------- which images were seen


def test_an_answer_without_the_missing_images_is_recorded_as_such(
    serve_study: ServeStudy, open_page: OpenPage
) -> None:
    server = serve_study(missing=frozenset(range(20)))
    page = open_page(server)
    missing = all_of(server.database, select(Image.token).where(Image.id <= 20))
    shown = page.request.get(f"{server.url}/question").json()
    answer(page)
    expect_step(page, "question", "2 / 6")
    (stored,) = states(server)
    assert stored
    assert stored.reference == "missing"
    for images, states_of_set in zip(shown["sets"], stored.sets, strict=True):
        assert states_of_set == tuple(
            "missing" if token_of(image) in missing else "shown" for image in images
        )


def test_enlarged_images_are_recorded_and_those_of_an_earlier_revision_count(
    page: Page, server: ThreadServer
) -> None:
    page.locator(".set").nth(1).locator(".frame").nth(2).click()
    dialog = page.get_by_role("dialog", name=TEXT["zoom"])
    expect(dialog.locator(".zoom-image img")).to_have_js_property("complete", value=True)
    press(page, "ArrowRight")
    expect(dialog.locator(".zoom-image img")).to_have_js_property("complete", value=True)
    page.reload()  # what has been seen is part of the draft
    expect_step(page, "question", "1 / 6")
    answer(page)
    expect_step(page, "question", "2 / 6")
    second = ("shown", "shown", "enlarged", "enlarged", "shown")
    seen = ImageStates("enlarged", (SEEN.sets[0], second))
    assert states(server) == [seen]
    page.set_viewport_size({"width": 390, "height": 844})
    press(page, "b")
    expect_step(page, "question", "1 / 6")
    press(page, "1", "Enter")
    expect_step(page, "question", "2 / 6")
    assert states(server) == [seen, seen]


AT_THE_END = "scrollY + innerHeight >= document.documentElement.scrollHeight - 1"


def scroll_to_the_end(page: Page) -> None:
    """Scroll with the wheel, each step only after the page has moved by the one before."""
    while not page.evaluate(AT_THE_END):
        before = page.evaluate("scrollY")
        page.mouse.wheel(0, 200)
        page.wait_for_function(f"(before) => scrollY > before || {AT_THE_END}", arg=before)
    page.evaluate(
        "() => new Promise((shown) => requestAnimationFrame(() => requestAnimationFrame(shown)))"
    )


def test_on_a_phone_images_count_once_they_have_been_scrolled_to(
    server: ThreadServer, open_page: OpenPage
) -> None:
    page = open_page(server, 390, 844)
    # The browser scrolls to what is clicked, and a key to what it judges; a script to nothing.
    for option in ('[name="score_1"][value="4"]', '[name="score_2"]', '[name="preferred"]'):
        page.locator(f"input{option}").first.evaluate("(input) => input.click()")
    press_next_when_ready(page)
    expect_step(page, "question", "2 / 6")
    (unscrolled,) = states(server)
    assert unscrolled
    assert unscrolled.reference == "shown"
    assert unscrolled.sets[0] == SEEN.sets[0]
    assert unscrolled.sets[1][-1] == "loaded"
    scroll_to_the_end(page)
    answer(page)
    expect_step(page, "question", "3 / 6")
    assert states(server)[1] == SEEN


# ------------------------------------------------------------------------------ pages of before


def test_a_page_that_is_older_than_the_server_is_reloaded_without_a_loss(
    page: Page, server: ThreadServer
) -> None:

    def send_as_before(route: Route) -> None:
        payload = route.request.post_data_json
        del payload["images"]
        route.continue_(post_data=payload)

    page.route("**/submit", send_as_before)
    answer(page)
    expect(page.locator(".notice-text")).to_have_text(TEXT["outdated"])
    assert stored(server.database) == []
    page.unroute("**/submit")
    page.get_by_role("button", name=TEXT["reload"]).click()
    expect_step(page, "question", "1 / 6")
    expect_choices_kept(page)
    press(page, "Enter")
    expect_step(page, "question", "2 / 6")
    assert states(server) == [SEEN]
