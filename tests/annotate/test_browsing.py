"""The browser's Back and Forward, the keypad, and the enlarged images, in a real Chromium."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from hsfiq.annotate.question_page import FILES
from tests.annotate.page_requests import stored
from tests.annotate.question_page import TEXT, OpenPage, answer, expect_step, press
from tests.annotate.served_studies import ThreadServer

pytestmark = pytest.mark.browser


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


def test_back_leads_to_the_previous_question_and_loses_nothing(
    server: ThreadServer, open_page: OpenPage
) -> None:
    page = open_page(server)
    answer(page)
    expect_step(page, "question", "2 / 6")
    answer(page)
    expect_step(page, "question", "3 / 6")
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
    assert [(row.revision, row.score_1) for row in stored(server.database)] == [
        (1, 4), (1, 4), (2, 3),
    ]  # fmt: skip


def test_back_leads_on_after_a_reload_and_closes_what_is_open(
    server: ThreadServer, open_page: OpenPage
) -> None:
    page = open_page(server)
    for number in (2, 3):
        answer(page)
        expect_step(page, "question", f"{number} / 6")
    page.goto(f"{server.url}/study/")
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


def test_the_keypad_scores(server: ThreadServer, open_page: OpenPage) -> None:
    page = open_page(server)
    press_on_keypad(page, "4", num_lock=False)
    expect_scores(page, None, None)
    press_on_keypad(page, "4")
    press_on_keypad(page, "2", shift=True)
    expect_scores(page, 4, 2)


def test_scores_are_given_beside_the_enlarged_images(
    server: ThreadServer, open_page: OpenPage
) -> None:
    page = open_page(server)
    page.locator(".set").nth(1).locator(".frame").first.click()
    scores = page.locator(".zoom-score")
    expect(scores.nth(1)).to_have_class("zoom-score current")
    scores.nth(1).get_by_role("button", name=f"5: {TEXT['anchors'][4]}").click()
    press(page, "2")
    expect(page.locator(".score[aria-pressed='true']")).to_have_text(["2", "5"])
    press(page, "Escape")
    expect_scores(page, 2, 5)
    press(page, "q", "Enter")
    expect_step(page, "question", "2 / 6")
    press(page, "z")
    expect(page.locator(".score[aria-pressed='true']")).to_have_count(0)
    assert [(row.score_1, row.score_2) for row in stored(server.database)] == [(2, 5)]


def test_enlarged_images_are_shown_in_full_size(server: ThreadServer, open_page: OpenPage) -> None:
    page = open_page(server, 700, 500)
    press(page, "z")
    view = page.locator(".zoom-image .zoom-view")
    picture = view.locator("img")
    expect(picture).to_have_js_property("naturalWidth", 300)
    press(page, "f")
    expect(page.get_by_role("button", name=TEXT["full_size"])).to_have_attribute(
        "aria-pressed", "true"
    )
    box = picture.bounding_box()
    assert box
    assert box["width"] >= 300
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


def test_every_field_shows_the_focus(server: ThreadServer, open_page: OpenPage) -> None:
    page = open_page(server)
    answer(page)
    expect_step(page, "question", "2 / 6")
    press(page, "r")
    shown = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert shown == "solid"
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


def test_each_page_has_an_icon_and_a_sign_of_loading(
    server: ThreadServer, open_page: OpenPage
) -> None:
    page = open_page(server)
    assert page.locator("link[rel='icon']").first.get_attribute("href") != "data:,"
    page.route("**/page/*/page.js", lambda route: route.abort())
    page.reload()
    expect(page.locator(".loading a")).to_be_visible()  # loads the page again
    page.route("**/page/*/page.js", lambda _: None)
    page.goto(f"{server.url}/study/", wait_until="commit")
    expect(page.locator(".loading")).to_have_css("animation-name", "turn")


def resources(page: Page) -> list[tuple[str, int, int]]:
    """The address of each resource that the page has loaded, the bytes sent, and its size."""
    entries = page.evaluate(
        "performance.getEntriesByType('resource')"
        ".map(({ name, transferSize, encodedBodySize }) => [name, transferSize, encodedBodySize])"
    )
    return [(name, sent, size) for name, sent, size in entries]


def test_the_first_load_is_small_and_scripts_are_cached(
    server: ThreadServer, open_page: OpenPage
) -> None:
    """What the page loads besides the study's images."""
    page = open_page(server)
    files = {name: size for name, _, size in resources(page) if "/page/" in name}
    assert len(files) == len(FILES)
    own = "performance.getEntriesByType('navigation')[0].encodedBodySize"
    assert sum(files.values()) + page.evaluate(own) < 85_000
    page.reload()
    expect_step(page, "question", "1 / 6")
    again = {name: sent for name, sent, _ in resources(page) if "/page/" in name}
    assert again == dict.fromkeys(files, 0)
