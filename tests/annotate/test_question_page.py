"""The question page in a real Chromium, with a keyboard and on a phone."""

from __future__ import annotations

from contextlib import closing

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from hsfiq.annotate.question_page import FILES
from hsfiq.db.engine import open_database
from hsfiq.study.languages import standard_texts
from tests.annotate.page_requests import stored
from tests.annotate.question_page import (
    TEXT,
    OpenPage,
    answer,
    boxes,
    expect_step,
    note_frames,
    press,
    resize,
    wait_until_at_rest,
)
from tests.annotate.served_studies import Server, ServeStudy, ThreadServer, newcomer
from tests.annotate.test_layout import LONG

pytestmark = pytest.mark.browser


def test_answer_by_mouse_and_double_click_is_stored_once(page: Page, server: ThreadServer) -> None:
    sets = page.locator(".set")
    sets.nth(0).locator(".option").nth(4).click()
    sets.nth(1).locator(".option").nth(2).click()
    page.locator(".preference .option").nth(1).click()
    page.get_by_role("checkbox").check()
    page.locator(".button.reason").click()
    page.get_by_label(TEXT["reason_prompt"]).fill("both miss the sleeves <b>")
    page.locator(".next").dblclick()
    expect_step(page, "question", "2 / 6")
    (row,) = stored(server.database)
    assert (row.score_1, row.score_2, row.preferred, row.irrelevant) == (5, 3, 2, True)
    assert (row.reason, row.revision) == ("both miss the sleeves <b>", 1)
    assert row.first_interaction_at
    assert row.submitted_at
    assert row.served_at
    assert row.served_at <= row.first_interaction_at <= row.submitted_at
    assert (row.active_seconds or 0) > 0


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
    with closing(open_database(server.place.url)) as database:
        assert [row.revision for row in stored(database)] == [1, 1, 1]


def test_a_reload_keeps_the_draft_and_a_second_tab_makes_no_second_row(
    page: Page, server: ThreadServer
) -> None:
    answer(page)
    expect_step(page, "question", "2 / 6")
    press(page, "3", "w", "x")
    page.reload()
    expect_step(page, "question", "2 / 6")
    expect(page.locator(".set").nth(0).get_by_role("radio").nth(2)).to_be_checked()
    expect(page.get_by_role("radio", name="Set 2 W")).to_be_checked()
    expect(page.get_by_role("checkbox")).to_be_checked()
    assert len(stored(server.database)) == 1
    second_tab = page.context.new_page()
    second_tab.goto(f"{server.url}/study/")
    expect_step(second_tab, "question", "2 / 6")
    answer(page)
    expect_step(page, "question", "3 / 6")
    answer(second_tab)
    expect(second_tab.locator(".notice-text")).to_have_text(TEXT["answered_elsewhere"])
    expect_step(second_tab, "question", "3 / 6")
    assert len(stored(server.database)) == 2


def test_missing_inputs_are_named_and_the_layout_does_not_move(
    page: Page, server: ThreadServer
) -> None:
    frames = "[...document.querySelectorAll('.frame, .option, .button')]"
    places = f"{frames}.map((box) => box.getBoundingClientRect().top)"
    before = page.evaluate(places)
    expect(page.locator(".next")).to_have_attribute("aria-disabled", "true")
    press(page, "Enter")
    assert page.evaluate(places) == before
    press(page, "4", "Enter")
    score = TEXT["score_for"].format(set="Set 2")
    message = TEXT["still_missing"].format(items=f"{score}, {TEXT['preference']}")
    expect(page.locator(".live")).to_have_text(message)
    expect(page.locator(".notice-text")).to_have_text(message)
    press(page, "Shift+Digit1")
    message = TEXT["still_missing"].format(items=TEXT["preference"])
    expect(page.locator(".notice-text")).to_have_text(message)
    press(page, "q")
    expect(page.locator(".notice")).to_be_hidden()
    expect(page.locator(".next")).to_have_attribute("aria-disabled", "false")
    assert stored(server.database) == []
    press(page, "Enter")
    expect_step(page, "question", "2 / 6")
    assert page.evaluate(places) == before


def test_keys_score_also_on_the_keypad_but_not_while_typing_or_with_ctrl(
    page: Page, server: ThreadServer
) -> None:
    press(page, "r")
    page.keyboard.type("1 q x b Enter?")
    press(page, "Enter", "Escape")
    press(page, "Control+Digit1", "Alt+Digit2", "Meta+Digit3")
    press_on_keypad(page, "4", num_lock=False)
    expect_scores(page, None, None)
    assert page.locator("input:checked").count() == 0
    expect(page.locator("#hsfiq-reason")).to_have_value("1 q x b Enter?\n")
    press_on_keypad(page, "4")
    press_on_keypad(page, "2", shift=True)
    expect_scores(page, 4, 2)
    press(page, "q")
    page.keyboard.down("Enter")
    for _ in range(5):
        page.keyboard.down("Enter")  # what a held key sends: repeats
    page.keyboard.up("Enter")
    expect_step(page, "question", "2 / 6")
    assert len(stored(server.database)) == 1


def test_the_labels_name_the_keys_and_every_field_shows_the_focus(page: Page) -> None:
    """This study has no ties; the other tests press these keys."""
    scores = ["1 \N{EN DASH} 5", "Shift 1 \N{EN DASH} 5"]
    expect(page.locator(".set h3 kbd")).to_have_text(scores)
    expect(page.locator(".actions :visible kbd, .bar kbd")).to_have_text(
        ["?", "B", "X", "R", "Q", "W", "Enter"]
    )
    press(page, "?")
    others = ("tie", "extra", "search_", "arena_")
    meanings = [text for name, text in TEXT["shortcuts"].items() if not name.startswith(others)]
    expect(page.locator(".shortcut-list dd")).to_have_text(meanings)
    keys = [*scores, "Q   W", "X", "R", "Z", "F", "Enter", "B", "?"]
    expect(page.locator(".shortcut-list kbd")).to_have_text(keys)
    press(page, "Escape")
    answer(page)
    expect_step(page, "question", "2 / 6")
    press(page, "r")
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    press(page, "Escape")
    seen = set()
    for _ in range(36):
        press(page, "Tab")
        name, is_visible = page.evaluate("""() => {
          const field = document.activeElement, shown = field.closest("label") ?? field;
          return [`${field.name || ""} ${field.className}`, getComputedStyle(shown).outlineStyle];
        }""")
        seen.add(name)
        assert is_visible == "solid" or name in (" main", " "), name
    assert {"score_1 sr", "score_2 sr", "preferred sr", " irrelevant", " frame"} <= seen


def test_back_and_revise(page: Page, server: ThreadServer) -> None:
    answer(page)
    expect_step(page, "question", "2 / 6")
    press(page, "5", "b")
    expect_step(page, "question", "1 / 6")
    expect(page.locator(".notice-text")).to_have_text(TEXT["revising"].format(number=1))
    press(page, "Enter")  # nothing changed: nothing is written
    expect_step(page, "question", "2 / 6")
    expect_scores(page, 5)
    press(page, "b")
    expect_step(page, "question", "1 / 6")
    expect(page.locator(".text-more")).to_be_hidden()
    press(page, "1", "Enter")
    expect_step(page, "question", "2 / 6")
    rows = stored(server.database)
    assert [(row.revision, row.score_1) for row in rows] == [(1, 4), (2, 1)]
    assert [row.text_in_view for row in rows] == [True, True]  # the text is short


@pytest.mark.parametrize("width", [390, 1280])
def test_next_waits_until_the_whole_text_was_in_view(
    serve_study: ServeStudy, open_page: OpenPage, width: int
) -> None:
    server = serve_study(texts=[LONG * 8, "is red"])
    page = open_page(server, width)
    while not page.locator(".user-text.long").count():  # the queries are in a random order
        press(page, "4", "Shift+Digit2", "q", "Enter")
        page.wait_for_function("document.querySelector('.next').ariaDisabled === 'true'")
    n_stored = len(stored(server.database))
    text, following = page.locator(".user-text"), page.locator(".next")
    press(page, "?")  # what is covered is not in view
    for _ in range(60):
        text.evaluate("(text) => text.scrollBy(0, 20)")
    press(page, "Escape")
    for name in ("score_1", "score_2", "preferred"):
        page.locator(f'input[name="{name}"]').first.check(force=True)
    expect(following).to_have_attribute("aria-disabled", "true")
    text.evaluate("(text) => text.scrollTo(0, 0)")
    following.click(force=True)
    expect(page.locator(".notice-text")).to_have_text(TEXT["text_unread"])
    assert len(stored(server.database)) == n_stored
    # A jump to the end leaves a gap: Next brings it back.
    text.evaluate("(text) => text.scrollTo(0, text.scrollHeight)")
    expect(page.locator(".text-more")).to_be_hidden()
    expect(following).to_have_attribute("aria-disabled", "true")
    following.click(force=True)
    expect(page.locator(".text-more")).to_be_visible()
    assert text.evaluate("(text) => text.scrollTop < text.scrollHeight / 2")
    while page.locator(".text-more").is_visible():
        page.locator(".text-more").click()
    expect(page.locator(".notice")).to_be_hidden()
    page.locator('.next[aria-disabled="false"]').click()
    expect(page.locator(".count")).not_to_have_text(f"{n_stored + 1} / 6")
    assert stored(server.database)[-1].text_in_view is True


def test_enlarged_images_are_paged_scored_and_shown_in_full_size(
    page: Page, server: ThreadServer
) -> None:
    second, dialog = page.locator(".set").nth(1), page.get_by_role("dialog", name=TEXT["zoom"])
    second.locator(".frame").nth(4).click()
    expect(dialog).to_contain_text("Image 5 of 5, Set 2")
    press(page, "ArrowRight", "4")
    expect(dialog).to_contain_text("Image 1 of 5, Set 2")
    press(page, "ArrowLeft", "ArrowUp")
    expect(dialog).to_contain_text("Image 5 of 5, Set 1")
    expect(dialog.locator(".zoom-reference img")).to_be_visible()
    press(page, "Escape")
    expect(dialog).to_be_hidden()
    expect_scores(page, 4, None)
    assert page.locator("input:checked").count() == 1
    answer(page)  # Enter goes on; it does not press the image again
    expect_step(page, "question", "2 / 6")
    second.locator(".frame").first.click()
    scores = page.locator(".zoom-score")
    expect(scores.nth(1)).to_have_class("zoom-score current")
    scores.nth(1).get_by_role("button", name=f"5: {TEXT['anchors'][4]}").click()
    press(page, "2")
    expect(page.locator(".score[aria-pressed='true']")).to_have_text(["2", "5"])
    press(page, "Escape")
    expect_scores(page, 2, 5)
    press(page, "q", "Enter")
    expect_step(page, "question", "3 / 6")
    assert [(row.score_1, row.score_2) for row in stored(server.database)] == [(4, 2), (2, 5)]
    resize(page, 700, 500)
    press(page, "z")
    expect(page.locator(".score[aria-pressed='true']")).to_have_count(0)
    check_full_size(page)


@pytest.mark.parametrize("opener", [".set .frame", ".open-guidelines"])
def test_enter_right_after_a_dialog_has_closed_presses_no_button(page: Page, opener: str) -> None:
    """The event that a dialog has closed may come after the next key."""
    page.locator(opener).first.click()
    focused = page.evaluate("""() => {
      document.querySelector("dialog[open]").close();
      return document.activeElement.className;
    }""")
    assert focused == "main"


def check_full_size(page: Page) -> None:
    view = page.locator(".zoom-image .zoom-view")
    picture = view.locator("img")
    expect(picture).to_have_js_property("naturalWidth", 300)
    press(page, "f")
    button = page.get_by_role("button", name=TEXT["full_size"])
    expect(button).to_have_attribute("aria-pressed", "true")
    (box,) = boxes(page, ".zoom-image .zoom-view img")
    assert box.width >= 300
    assert view.evaluate("(box) => box.scrollHeight > box.clientHeight")
    picture.click()
    assert view.evaluate("(box) => box.scrollHeight <= box.clientHeight")
    picture.click(position={"x": 5, "y": 5})  # beside the picture: its corner
    assert view.evaluate("(box) => [box.scrollLeft, box.scrollTop]") == [0, 0]
    press(page, "ArrowRight")  # moves the image, which has the focus
    expect(page.locator(".zoom-image figcaption")).to_contain_text("Image 1 of 5")
    press(page, "f", "ArrowRight")
    expect(page.locator(".zoom-image figcaption")).to_contain_text("Image 2 of 5")
    assert view.evaluate("(box) => box.scrollHeight <= box.clientHeight")


def test_nothing_needs_scrolling_on_a_desktop_nor_sideways_on_a_phone(page: Page) -> None:
    extent = "[document.documentElement.scrollWidth, document.documentElement.scrollHeight]"
    for width, height in ((1280, 720), (1440, 900), (1920, 1080)):
        resize(page, width, height)
        assert page.evaluate(extent) == [width, height]
        for part in (".reference .frame", ".user-text", ".frame", ".option:visible", ".next"):
            places = boxes(page, part)
            assert places, part
            for box in places:
                assert box.top >= 0, part
                assert box.bottom <= height, part
                assert box.right <= width, part
    resize(page, 390, 844)
    assert page.evaluate(extent)[0] == 390
    controls = boxes(page, ".frame, .option:visible, .actions .button:visible")
    assert controls
    for box in controls:
        assert box.left >= 0
        assert box.right <= 390
        assert box.width >= 44
        assert box.height >= 44
    for side, option in ((0, 4), (1, 0)):
        page.locator(".set").nth(side).locator(".option").nth(option).click()
    page.locator(".preference .option").nth(0).click()
    page.locator(".next").click()
    expect_step(page, "question", "2 / 6")


@pytest.mark.parametrize("language", ["en", "ko"])
def test_the_fullest_page_fits_a_desktop_and_is_skipped(
    serve_study: ServeStudy, open_page: OpenPage, language: str
) -> None:
    server = serve_study(
        missing=frozenset(range(20)),
        preference_ties=True,
        reason_every=1,
        presentation={"languages": (language,)},
    )
    page, text = open_page(server), standard_texts(language)["page"]
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
    expect(page.locator(".reference .missing")).to_have_text(text["image_missing"])
    page.get_by_role("button", name=text["skip"]).click()
    expect_step(page, "question", "2 / 6")
    assert [row.skipped for row in stored(server.database)] == ["missing-image"]


def go_back(page: Page) -> None:
    """Press the browser's Back: no new document is loaded."""
    page.evaluate("history.back()")


def expect_scores(page: Page, *scores: int | None) -> None:
    for side, score in enumerate(scores, start=1):
        chosen = page.locator(f".set[data-side='{side}'] input:checked")
        if score is None:
            expect(chosen).to_have_count(0)
        else:
            expect(chosen).to_have_value(str(score))


def test_the_browsers_back_leads_to_the_previous_question_and_loses_nothing(
    page: Page, server: ThreadServer
) -> None:
    for number in (2, 3):
        answer(page)
        expect_step(page, "question", f"{number} / 6")
    press(page, "5", "w")
    go_back(page)
    expect_step(page, "question", "2 / 6")
    expect_scores(page, 4, 2)
    press(page, "3")
    go_back(page)
    expect_step(page, "question", "1 / 6")
    expect_scores(page, 4, 2)
    page.evaluate("history.forward()")
    expect_step(page, "question", "2 / 6")
    expect_scores(page, 3, 2)  # a changed answer that is not sent yet
    press(page, "Enter")
    expect_step(page, "question", "3 / 6")
    expect_scores(page, 5, None)
    rows = [(row.revision, row.score_1) for row in stored(server.database)]
    assert rows == [(1, 4), (1, 4), (2, 3)]
    page.goto(f"{server.url}/study/")  # also after a reload, and it closes what is open
    expect_step(page, "question", "3 / 6")
    press(page, "z")
    go_back(page)
    expect(page.locator("dialog.zoom")).to_be_hidden()
    expect_step(page, "question", "3 / 6")
    for number in (2, 1):
        go_back(page)
        expect_step(page, "question", f"{number} / 6")


def press_on_keypad(page: Page, key: str, *, shift: bool = False, num_lock: bool = True) -> None:
    """The event that a browser sends on Windows for the keypad's key `key`."""
    arrows = {"4": "ArrowLeft", "2": "ArrowDown"}
    page.evaluate(
        "(options) => document.dispatchEvent(new KeyboardEvent('keydown', options))",
        {
            "code": f"Numpad{key}",
            "key": key if num_lock != shift else arrows[key],
            "modifierNumLock": num_lock,
            "bubbles": True,
        },
    )


def resources(page: Page) -> list[tuple[str, int, int]]:
    """The address of each resource that the page has loaded, the bytes sent, and its size."""
    entries = page.evaluate(
        "performance.getEntriesByType('resource')"
        ".map(({ name, transferSize, encodedBodySize }) => [name, transferSize, encodedBodySize])"
    )
    return [(name, sent, size) for name, sent, size in entries]


def test_the_first_load_is_small_cached_and_shows_a_sign_of_loading(
    page: Page, server: ThreadServer
) -> None:
    """What the page loads besides the study's images."""
    files = {name: size for name, _, size in resources(page) if "/page/" in name}
    assert len(files) == len(FILES)
    own = "performance.getEntriesByType('navigation')[0].encodedBodySize"
    assert sum(files.values()) + page.evaluate(own) < 85_000
    assert page.locator("link[rel='icon']").first.get_attribute("href") != "data:,"
    page.reload()
    expect_step(page, "question", "1 / 6")
    again = {name: sent for name, sent, _ in resources(page) if "/page/" in name}
    assert again == dict.fromkeys(files, 0)
    page.route("**/page/*/page.js", lambda route: route.abort())
    page.reload()
    expect(page.locator(".loading a")).to_be_visible()  # loads the page again
    page.route("**/page/*/page.js", lambda _: None)
    page.goto(f"{server.url}/study/", wait_until="commit")
    expect(page.locator(".loading")).to_have_css("animation-name", "turn")
