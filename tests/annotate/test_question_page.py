"""The question page in a real Chromium, with a keyboard and on a phone."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import BrowserContext, expect

from hsfiq.db.engine import open_database
from hsfiq.db.tables import Response
from tests.annotate.drawn_frames import note_frames, wait_until_at_rest
from tests.annotate.page_requests import stored
from tests.annotate.question_page import TEXT, OpenPage, answer, boxes, expect_step, press
from tests.annotate.served_studies import Place, Server, ThreadServer, make_study, newcomer

pytestmark = pytest.mark.browser


def rows(server: ThreadServer | Server) -> list[Response]:
    database = open_database(server.place.url)
    answers = stored(database)
    database.close()
    return answers


def test_an_answer_by_mouse_reaches_the_database(server: ThreadServer, open_page: OpenPage) -> None:
    page = open_page(server)
    expect_step(page, "question", "1 / 6")
    sets = page.locator(".set")
    sets.nth(0).locator(".option").nth(4).click()
    sets.nth(1).locator(".option").nth(2).click()
    page.locator(".preference .option").nth(1).click()
    page.get_by_role("checkbox").check()
    page.locator(".button.reason").click()
    page.get_by_label(TEXT["reason_prompt"]).fill("both miss the sleeves <b>")
    page.locator(".next").click()
    expect_step(page, "question", "2 / 6")
    (row,) = rows(server)
    assert (row.score_1, row.score_2, row.preferred, row.irrelevant) == (5, 3, 2, True)
    assert (row.reason, row.revision) == ("both miss the sleeves <b>", 1)
    assert row.first_interaction_at
    assert row.submitted_at
    assert row.served_at
    assert row.served_at <= row.first_interaction_at <= row.submitted_at
    assert row.active_seconds is not None
    assert row.active_seconds > 0


def test_a_page_that_nobody_touches_draws_nothing(
    server: ThreadServer, context: BrowserContext
) -> None:
    page = context.new_page()
    note_frames(page)
    page.goto(f"{server.url}/start/{newcomer(server.place)}")
    expect_step(page, "question", "1 / 6")
    wait_until_at_rest(page)


def test_the_page_continues_after_the_server_was_killed(
    process_server: Server, open_page: OpenPage
) -> None:
    server = process_server
    page = open_page(server)
    answer(page)
    expect_step(page, "question", "2 / 6")
    server.kill()
    answer(page)
    expect(page.locator(".notice-text")).to_have_text(TEXT["offline"])
    expect_step(page, "question", "2 / 6")
    expect(page.locator(".set").nth(0).get_by_role("radio").nth(3)).to_be_checked()
    server.start()
    page.get_by_role("button", name=TEXT["retry"]).click()
    expect_step(page, "question", "3 / 6")
    expect(page.locator(".notice")).to_be_hidden()
    answer(page)
    expect_step(page, "check", "3 / 6")
    assert [row.revision for row in rows(server)] == [1, 1, 1]


def test_a_reload_keeps_the_place_and_the_draft(server: ThreadServer, open_page: OpenPage) -> None:
    page = open_page(server)
    answer(page)
    expect_step(page, "question", "2 / 6")
    press(page, "3", "w", "x")
    page.reload()
    expect_step(page, "question", "2 / 6")
    expect(page.locator(".set").nth(0).get_by_role("radio").nth(2)).to_be_checked()
    expect(page.get_by_role("radio", name="Search results 2 W")).to_be_checked()
    expect(page.get_by_role("checkbox")).to_be_checked()
    assert len(rows(server)) == 1


def test_missing_inputs_are_named(server: ThreadServer, open_page: OpenPage) -> None:
    page = open_page(server)
    expect(page.locator(".next")).to_have_attribute("aria-disabled", "true")
    press(page, "4", "Enter")
    score = TEXT["score_for"].format(set="Search results 2")
    message = TEXT["still_missing"].format(items=f"{score}, {TEXT['preference']}")
    expect(page.locator(".live")).to_have_text(message)
    expect(page.locator(".notice-text")).to_have_text(message)
    press(page, "Shift+Digit1")
    message = TEXT["still_missing"].format(items=TEXT["preference"])
    expect(page.locator(".notice-text")).to_have_text(message)
    press(page, "q")
    expect(page.locator(".notice")).to_be_hidden()
    expect(page.locator(".next")).to_have_attribute("aria-disabled", "false")
    assert rows(server) == []


def test_keys_are_ignored_while_typing_repeating_or_with_ctrl(
    server: ThreadServer, open_page: OpenPage
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
    expect_step(page, "question", "2 / 6")
    assert len(rows(server)) == 1


def test_the_labels_name_the_keys(server: ThreadServer, open_page: OpenPage) -> None:
    """This study has no ties; the other tests press these keys."""
    page = open_page(server)
    expect(page.locator(".set h3 kbd")).to_have_text(["1 \N{EN DASH} 5", "Shift 1 \N{EN DASH} 5"])
    expect(page.locator(".actions :visible kbd, .bar kbd")).to_have_text(
        ["?", "B", "X", "R", "Q", "W", "Enter"]
    )
    press(page, "?")
    others = ("tie", "extra", "search_", "arena_")
    meanings = [text for name, text in TEXT["shortcuts"].items() if not name.startswith(others)]
    expect(page.locator(".shortcut-list dd")).to_have_text(meanings)
    expect(page.locator(".shortcut-list kbd")).to_have_text(
        ["1 \N{EN DASH} 5", "Shift 1 \N{EN DASH} 5", "Q   W", "X", "R", "Z", "F", "Enter", "B", "?"]
    )


def test_a_touch_screen_of_any_size_has_no_key_hints(
    server: ThreadServer, open_page: OpenPage
) -> None:
    page = open_page(server, 1280, 800, has_touch=True, is_mobile=True)
    for width, height in ((390, 844), (1280, 800)):
        page.set_viewport_size({"width": width, "height": height})
        expect(page.locator("kbd:visible")).to_have_count(0)


def test_a_double_click_on_next_submits_once(server: ThreadServer, open_page: OpenPage) -> None:
    page = open_page(server)
    press(page, "4", "Shift+Digit2", "q")
    page.locator(".next").dblclick()
    expect_step(page, "question", "2 / 6")
    assert len(rows(server)) == 1


def test_back_and_revise(server: ThreadServer, open_page: OpenPage) -> None:
    page = open_page(server)
    answer(page)
    expect_step(page, "question", "2 / 6")
    press(page, "5", "b")
    expect_step(page, "question", "1 / 6")
    expect(page.locator(".notice-text")).to_have_text(TEXT["revising"].format(number=1))
    press(page, "Enter")  # nothing changed: nothing is written
    expect_step(page, "question", "2 / 6")
    expect(page.locator(".set").nth(0).get_by_role("radio").nth(4)).to_be_checked()
    press(page, "b")
    expect_step(page, "question", "1 / 6")
    press(page, "1", "Enter")
    expect_step(page, "question", "2 / 6")
    assert [(row.revision, row.score_1) for row in rows(server)] == [(1, 4), (2, 1)]


def test_two_tabs_make_no_second_row(server: ThreadServer, open_page: OpenPage) -> None:
    page = open_page(server)
    second_tab = page.context.new_page()
    second_tab.goto(f"{server.url}/study/")
    expect_step(second_tab, "question", "1 / 6")
    answer(page)
    expect_step(page, "question", "2 / 6")
    answer(second_tab)
    expect(second_tab.locator(".notice-text")).to_have_text(TEXT["answered_elsewhere"])
    expect_step(second_tab, "question", "2 / 6")
    assert len(rows(server)) == 1


def test_zoom_pages_through_a_set_beside_the_reference(
    server: ThreadServer, open_page: OpenPage
) -> None:
    page = open_page(server)
    page.locator(".set").nth(1).locator(".frame").nth(4).click()
    dialog = page.get_by_role("dialog", name=TEXT["zoom"])
    expect(dialog).to_contain_text("Image 5 of 5, Search results 2")
    press(page, "ArrowRight", "4")
    expect(dialog).to_contain_text("Image 1 of 5, Search results 2")
    press(page, "ArrowLeft", "ArrowUp")
    expect(dialog).to_contain_text("Image 5 of 5, Search results 1")
    expect(dialog.locator(".zoom-reference img")).to_be_visible()
    press(page, "Escape")
    expect(dialog).to_be_hidden()
    expect(page.locator('.set[data-side="1"] .option').nth(3).locator("input")).to_be_checked()
    assert page.locator("input:checked").count() == 1
    answer(page)  # Enter goes on; it does not press the image again
    expect_step(page, "question", "2 / 6")


def test_a_missing_image_can_be_skipped(
    place: Place, serve: Callable[[Place], ThreadServer], open_page: OpenPage
) -> None:
    make_study(place, missing=frozenset(range(20))).close()
    server = serve(place)
    page = open_page(server)
    expect(page.locator(".reference .missing")).to_have_text(TEXT["image_missing"])
    page.get_by_role("button", name=TEXT["skip"]).click()
    expect_step(page, "question", "2 / 6")
    assert [row.skipped for row in rows(server)] == ["missing-image"]


@pytest.mark.parametrize(("width", "height"), [(1280, 720), (1440, 900), (1920, 1080)])
def test_nothing_needs_scrolling_on_a_desktop(
    server: ThreadServer, open_page: OpenPage, width: int, height: int
) -> None:
    page = open_page(server, width, height)
    expect_step(page, "question", "1 / 6")
    size = page.evaluate(
        "[document.documentElement.scrollWidth, document.documentElement.scrollHeight]"
    )
    assert size == [width, height]
    for part in (".reference .frame", ".user-text", ".frame", ".option:visible", ".button.next"):
        places = boxes(page, part)
        assert places, part
        for box in places:
            assert box.top >= 0, part
            assert box.bottom <= height, part
            assert box.right <= width, part


@pytest.mark.parametrize("language", ["en", "ko"])
def test_the_fullest_page_fits_a_desktop(
    place: Place, serve: Callable[[Place], ThreadServer], open_page: OpenPage, language: str
) -> None:
    make_study(
        place,
        missing=frozenset(range(20)),
        preference_ties=True,
        reason_every=1,
        presentation={"languages": (language,)},
    ).close()
    page = open_page(serve(place))
    expect_step(page, "question", "1 / 6")
    for part in (
        *(".option:visible", ".actions .button:visible", ".notice-text"),
        ".option:visible > span",
    ):
        places = boxes(page, part)
        assert places, part
        for box in places:
            assert box.left >= 0, part
            assert box.right <= 1280, part
            assert box.bottom <= 720, part
    assert page.locator(".likert .option").evaluate_all(
        "(options) => options.every((box) => box.scrollHeight <= box.clientHeight + 1)"
    )


def test_the_layout_does_not_move(server: ThreadServer, open_page: OpenPage) -> None:
    page = open_page(server)
    boxes = "[...document.querySelectorAll('.frame, .option, .button')]"
    places = f"{boxes}.map((box) => box.getBoundingClientRect().top)"
    before = page.evaluate(places)
    press(page, "Enter")
    assert page.evaluate(places) == before
    answer(page)
    expect_step(page, "question", "2 / 6")
    assert page.evaluate(places) == before


def test_a_phone_needs_no_sideways_scrolling(server: ThreadServer, open_page: OpenPage) -> None:
    page = open_page(server, 390, 844)
    expect_step(page, "question", "1 / 6")
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    controls = boxes(page, ".frame, .option:visible, .actions .button:visible")
    assert controls
    for box in controls:
        assert box.left >= 0
        assert box.right <= 390
        assert box.width >= 44
        assert box.height >= 44
    sets = page.locator(".set")
    sets.nth(0).locator(".option").nth(4).click()
    sets.nth(1).locator(".option").nth(0).click()
    page.locator(".preference .option").nth(0).click()
    page.locator(".next").click()
    expect_step(page, "question", "2 / 6")
    assert len(rows(server)) == 1
