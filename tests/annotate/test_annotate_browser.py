"""The question page in a real Chromium: what a person at a keyboard, or with a phone, meets."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from hsfiq.db.engine import open_database
from hsfiq.db.tables import Response
from tests.annotate.annotate_pages import stored
from tests.annotate.annotate_studies import NearServer, Place, Server, make_study

pytestmark = pytest.mark.browser

Open = Callable[..., Page]


def at(page: Page, step: str, count: str) -> None:
    """Wait until the page shows this step, this far on."""
    expect(page.locator(".page")).to_have_attribute("data-step", step)
    expect(page.locator(".count")).to_have_text(count)


def press(page: Page, *keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)


def answer(page: Page) -> None:
    """One whole answer by keyboard: 4 and 2, the first set preferred."""
    press(page, "4", "Shift+Digit2", "q", "Enter")


def rows(server: NearServer | Server) -> list[Response]:
    database = open_database(server.place.url)
    found = stored(database)
    database.close()
    return found


def test_an_answer_by_mouse_reaches_the_database(server: NearServer, open_page: Open) -> None:
    page = open_page(server)
    at(page, "question", "1 / 6")
    sets = page.locator(".set")
    sets.nth(0).locator(".option").nth(4).click()
    sets.nth(1).locator(".option").nth(2).click()
    page.locator(".preference .option").nth(1).click()
    page.get_by_role("checkbox").check()
    page.locator(".button.reason").click()
    page.get_by_label("Why did you answer so?").fill("both miss the sleeves <b>")
    page.locator(".next").click()
    at(page, "question", "2 / 6")
    (row,) = rows(server)
    assert (row.score_1, row.score_2, row.preferred, row.irrelevant) == (5, 3, 2, True)
    assert (row.reason, row.revision) == ("both miss the sleeves <b>", 1)
    assert row.first_interaction_at
    assert row.submitted_at
    assert row.served_at
    assert row.served_at <= row.first_interaction_at <= row.submitted_at
    assert row.active_seconds is not None
    assert row.active_seconds > 0


def test_it_goes_on_after_the_server_was_killed(far_server: Server, open_page: Open) -> None:
    server = far_server
    page = open_page(server)
    answer(page)
    at(page, "question", "2 / 6")
    server.kill()
    answer(page)
    expect(page.locator(".notice-text")).to_contain_text("could not be sent")
    at(page, "question", "2 / 6")
    expect(page.locator(".set").nth(0).get_by_role("radio").nth(3)).to_be_checked()
    server.start()
    page.get_by_role("button", name="Try again").click()
    at(page, "question", "3 / 6")
    expect(page.locator(".notice")).to_be_hidden()
    answer(page)
    at(page, "check", "3 / 6")
    assert [row.revision for row in rows(server)] == [1, 1, 1]


def test_a_reload_keeps_the_place_and_the_draft(server: NearServer, open_page: Open) -> None:
    page = open_page(server)
    answer(page)
    at(page, "question", "2 / 6")
    press(page, "3", "w", "x")
    page.reload()
    at(page, "question", "2 / 6")
    expect(page.locator(".set").nth(0).get_by_role("radio").nth(2)).to_be_checked()
    expect(page.get_by_role("radio", name="Shopping Mall 2 W")).to_be_checked()
    expect(page.get_by_role("checkbox")).to_be_checked()
    assert len(rows(server)) == 1


def test_what_is_missing_is_said(server: NearServer, open_page: Open) -> None:
    page = open_page(server)
    expect(page.locator(".next")).to_have_attribute("aria-disabled", "true")
    press(page, "4", "Enter")
    said = "Still missing: a score for Shopping Mall 2, your preference."
    expect(page.locator(".live")).to_have_text(said)
    expect(page.locator(".notice-text")).to_have_text(said)
    press(page, "Shift+Digit1", "q")
    expect(page.locator(".notice")).to_be_hidden()
    expect(page.locator(".next")).to_have_attribute("aria-disabled", "false")
    assert rows(server) == []


def test_keys_do_nothing_while_writing_repeating_or_held_with_ctrl(
    server: NearServer, open_page: Open
) -> None:
    page = open_page(server)
    press(page, "r")
    page.keyboard.type("1 q x b Enter?")
    press(page, "Enter", "Escape")
    press(page, "Control+Digit1", "Alt+Digit2", "Meta+Digit3")
    assert page.locator("input:checked").count() == 0
    expect(page.locator("#hsfiq-reason")).to_have_value("1 q x b Enter?\n")
    press(page, "4", "Shift+Digit2", "q")
    page.keyboard.down("Enter")
    for _ in range(5):
        page.keyboard.down("Enter")  # what a held key sends: repeats
    page.keyboard.up("Enter")
    at(page, "question", "2 / 6")
    assert len(rows(server)) == 1


def test_a_double_click_on_next_is_one_answer(server: NearServer, open_page: Open) -> None:
    page = open_page(server)
    press(page, "4", "Shift+Digit2", "q")
    page.locator(".next").dblclick()
    at(page, "question", "2 / 6")
    assert len(rows(server)) == 1


def test_back_and_revise(server: NearServer, open_page: Open) -> None:
    page = open_page(server)
    answer(page)
    at(page, "question", "2 / 6")
    press(page, "5", "b")
    at(page, "question", "1 / 6")
    expect(page.locator(".notice-text")).to_contain_text("your earlier answer to question 1")
    press(page, "Enter")  # nothing changed: nothing is written
    at(page, "question", "2 / 6")
    expect(page.locator(".set").nth(0).get_by_role("radio").nth(4)).to_be_checked()
    press(page, "b")
    at(page, "question", "1 / 6")
    press(page, "1", "Enter")
    at(page, "question", "2 / 6")
    assert [(row.revision, row.score_1) for row in rows(server)] == [(1, 4), (2, 1)]


def test_two_tabs_make_no_second_row(server: NearServer, open_page: Open) -> None:
    page = open_page(server)
    other = page.context.new_page()
    other.goto(f"{server.url}/study/")
    at(other, "question", "1 / 6")
    answer(page)
    at(page, "question", "2 / 6")
    answer(other)
    expect(other.locator(".notice-text")).to_contain_text("answered in another window")
    at(other, "question", "2 / 6")
    assert len(rows(server)) == 1


def test_zoom_pages_through_a_set_beside_the_reference(server: NearServer, open_page: Open) -> None:
    page = open_page(server)
    page.locator(".set").nth(1).locator(".frame").nth(4).click()
    dialog = page.get_by_role("dialog", name="Images, enlarged")
    expect(dialog).to_contain_text("Image 5 of 5, Shopping Mall 2")
    press(page, "ArrowRight", "4")
    expect(dialog).to_contain_text("Image 1 of 5, Shopping Mall 2")
    press(page, "ArrowLeft", "ArrowUp")
    expect(dialog).to_contain_text("Image 5 of 5, Shopping Mall 1")
    expect(dialog.locator(".zoom-reference img")).to_be_visible()
    press(page, "Escape")
    expect(dialog).to_be_hidden()
    assert page.locator("input:checked").count() == 0
    answer(page)  # Enter goes on; it does not press the image again
    at(page, "question", "2 / 6")


def test_a_missing_image_can_be_skipped(
    place: Place, serve: Callable[[Place], NearServer], open_page: Open
) -> None:
    make_study(place, missing=frozenset(range(20))).close()
    server = serve(place)
    page = open_page(server)
    expect(page.locator(".reference .missing")).to_have_text("Image missing")
    page.get_by_role("button", name="Skip: image missing").click()
    at(page, "question", "2 / 6")
    assert [row.skipped for row in rows(server)] == ["missing-image"]


@pytest.mark.parametrize(("width", "height"), [(1280, 720), (1440, 900), (1920, 1080)])
def test_nothing_needs_scrolling_on_a_desktop(
    server: NearServer, open_page: Open, width: int, height: int
) -> None:
    page = open_page(server, width, height)
    at(page, "question", "1 / 6")
    size = page.evaluate(
        "[document.documentElement.scrollWidth, document.documentElement.scrollHeight]"
    )
    assert size == [width, height]
    for part in (".reference .frame", ".wish", ".frame", ".option", ".button.next"):
        for found in page.locator(part).all():
            box = found.bounding_box()
            assert box, part
            assert box["y"] >= 0, part
            assert box["y"] + box["height"] <= height, part
            assert box["x"] + box["width"] <= width, part


@pytest.mark.parametrize("language", ["en", "ko"])
def test_the_fullest_page_fits_a_desktop(
    place: Place, serve: Callable[[Place], NearServer], open_page: Open, language: str
) -> None:
    make_study(
        place,
        missing=frozenset(range(20)),
        preference_ties=True,
        reason_every=1,
        presentation={"language": language},
    ).close()
    page = open_page(serve(place))
    at(page, "question", "1 / 6")
    for part in (".option", ".actions .button:visible", ".notice-text", ".option > span"):
        for found in page.locator(part).all():
            box = found.bounding_box()
            assert box, part
            assert box["x"] >= 0, part
            assert box["x"] + box["width"] <= 1280, part
            assert box["y"] + box["height"] <= 720, part
    shown = page.locator(".likert .option").all()
    assert all(one.evaluate("(box) => box.scrollHeight <= box.clientHeight + 1") for one in shown)


def test_the_boxes_stay_where_they_are(server: NearServer, open_page: Open) -> None:
    page = open_page(server)
    boxes = "[...document.querySelectorAll('.frame, .option, .button')]"
    places = f"{boxes}.map((box) => box.getBoundingClientRect().top)"
    before = page.evaluate(places)
    press(page, "Enter")
    assert page.evaluate(places) == before
    answer(page)
    at(page, "question", "2 / 6")
    assert page.evaluate(places) == before


def test_a_phone_needs_no_sideways_scrolling(server: NearServer, open_page: Open) -> None:
    page = open_page(server, 390, 844)
    at(page, "question", "1 / 6")
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    for found in page.locator(".frame, .option, .actions .button:visible").all():
        box = found.bounding_box()
        assert box
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 390
        assert box["width"] >= 44
        assert box["height"] >= 44
    sets = page.locator(".set")
    sets.nth(0).locator(".option").nth(4).click()
    sets.nth(1).locator(".option").nth(0).click()
    page.locator(".preference .option").nth(0).click()
    page.locator(".next").click()
    at(page, "question", "2 / 6")
    assert len(rows(server)) == 1
