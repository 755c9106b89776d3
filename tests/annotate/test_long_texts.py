"""A long text is never cut without a sign, and Next waits until all of it was in view."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.annotate.conftest import running
from tests.annotate.page_requests import stored
from tests.annotate.question_page import TEXT, OpenPage, expect_step, press, resize
from tests.annotate.reused_study import ReusedStudy
from tests.annotate.served_studies import Place, ThreadServer, make_study
from tests.annotate.test_layout import SIZES, first_question, shown_with

pytestmark = pytest.mark.browser

LONG = (
    "is longer than the one in the picture, reaching well below the knee, with wide sleeves that "
    "end in a lace border, no collar and a narrow belt of the same cloth; the pattern should be "
    "small white flowers on a dark green ground, the skirt pleated, the buttons hidden, the "
    "neckline round and high, and the whole should suit a wedding outdoors in the afternoon. "
)
KINDS = ("pair", "single", "images", "ranking", "query")

UNSIGNED = """() => {
  const text = document.querySelector(".user-text");
  const more = document.querySelector(".text-more");
  const { left, top, bottom } = text.getBoundingClientRect();
  const isAt = (y) => text.contains(document.elementFromPoint(left + 2, y));
  const hidden = text.scrollHeight - text.clientHeight - text.scrollTop;
  const hasSign = more.checkVisibility() && getComputedStyle(text).maskImage !== "none";
  const faults = [];
  if (hidden > 1 && !hasSign) faults.push(`${hidden} px are hidden without a sign`);
  if (hidden <= 1 && hasSign) faults.push("a sign of more where there is none");
  if (!isAt(top + 3) || !isAt(bottom - 3)) faults.push("the text is covered");
  return faults;
}"""


@pytest.fixture(scope="module")
def page(reused_study: ReusedStudy, reused_context: BrowserContext) -> Iterator[Page]:
    """A page on which each test shows its own question."""
    reused_study.restore()
    with running(reused_study.server()) as server:
        page = first_question(server, reused_context)
        yield page
        page.close()
    reused_context.clear_cookies()


def options_of(kind: str, text: str) -> dict[str, object]:
    n_sets = {"pair": 2, "ranking": 3}.get(kind, 1)
    k = {"query": 1, "images": 8}.get(kind, 5)
    return {"k": k, "kind": kind, "sets": n_sets, "levels": 3, "text": text}


@pytest.mark.parametrize("kind", KINDS)
def test_no_text_is_cut_without_a_sign(page: Page, kind: str) -> None:
    faults = []
    for n_times in (1, 4):
        shown_with(page, options_of(kind, LONG * n_times))
        expect(page.locator(".next.waiting")).to_have_count(0)
        for width, height in SIZES:
            resize(page, width, height)
            page.locator(".user-text").scroll_into_view_if_needed()
            faults += [f"{width} x {height}, {n_times}: {f}" for f in page.evaluate(UNSIGNED)]
    assert faults == []


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [(1280, 720), (1440, 900), (1920, 1080), (2560, 1440)])
def test_the_reference_shrinks_before_a_text_scrolls(
    page: Page, kind: str, size: tuple[int, int]
) -> None:
    resize(page, *size)
    shown_with(page, options_of(kind, LONG))
    expect(page.locator(".text-more")).to_be_hidden()
    box = page.locator(".reference .frame").bounding_box()
    assert box
    assert box["height"] >= 140


def open_with_long_texts(
    serve: Callable[[Place], ThreadServer], open_page: OpenPage, place: Place, width: int
) -> tuple[ThreadServer, Page]:
    make_study(place, texts=[LONG * 8, "is red"]).close()
    server = serve(place)
    page = open_page(server, width)
    while not page.locator(".user-text.long").count():  # the queries are in a random order
        press(page, "4", "Shift+Digit2", "q", "Enter")
        page.wait_for_function("document.querySelector('.next').ariaDisabled === 'true'")
    return server, page


@pytest.mark.parametrize("width", [390, 1280])
def test_next_waits_until_the_whole_text_was_in_view(
    serve: Callable[[Place], ThreadServer], open_page: OpenPage, place: Place, width: int
) -> None:
    server, page = open_with_long_texts(serve, open_page, place, width)
    n_stored = len(stored(server.database))
    for name in ("score_1", "score_2", "preferred"):
        page.locator(f'input[name="{name}"]').first.check(force=True)
    expect(page.locator(".next")).to_have_attribute("aria-disabled", "true")
    page.locator(".next").click(force=True)
    expect(page.locator(".notice-text")).to_have_text(TEXT["text_unread"])
    assert len(stored(server.database)) == n_stored
    text = page.locator(".user-text")
    # A jump to the end leaves a gap: Next brings it back.
    text.evaluate("(text) => text.scrollTo(0, text.scrollHeight)")
    expect(page.locator(".text-more")).to_be_hidden()
    expect(page.locator(".next")).to_have_attribute("aria-disabled", "true")
    page.locator(".next").click(force=True)
    expect(page.locator(".text-more")).to_be_visible()
    assert text.evaluate("(text) => text.scrollTop") < text.evaluate(
        "(text) => text.scrollHeight / 2"
    )
    while page.locator(".text-more").is_visible():
        page.locator(".text-more").click()
    expect(page.locator(".notice")).to_be_hidden()
    page.locator('.next[aria-disabled="false"]').click()
    expect(page.locator(".count")).not_to_have_text(f"{n_stored + 1} / 6")
    assert stored(server.database)[-1].text_in_view is True


def test_a_text_that_is_covered_is_not_in_view(
    serve: Callable[[Place], ThreadServer], open_page: OpenPage, place: Place
) -> None:
    _server, page = open_with_long_texts(serve, open_page, place, 1280)
    press(page, "?")
    text = page.locator(".user-text")
    for _ in range(60):
        text.evaluate("(text) => text.scrollBy(0, 20)")
    press(page, "Escape")
    for name in ("score_1", "score_2", "preferred"):
        page.locator(f'input[name="{name}"]').first.check(force=True)
    expect(page.locator(".next")).to_have_attribute("aria-disabled", "true")


def test_a_short_text_is_in_view_at_once(server: ThreadServer, open_page: OpenPage) -> None:
    page = open_page(server)
    press(page, "4", "Shift+Digit2", "q", "Enter")
    expect_step(page, "question", "2 / 6")
    (row,) = stored(server.database)
    assert row.text_in_view is True
    press(page, "b")  # a revision keeps what was seen before it
    expect_step(page, "question", "1 / 6")
    expect(page.locator(".text-more")).to_be_hidden()
    press(page, "5", "Enter")
    expect_step(page, "question", "2 / 6")
    assert [row.text_in_view for row in stored(server.database)] == [True, True]
