"""No control and no text is cut or covered, whatever the size of the window and the options."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from hsfiq.annotate.question_page import VERSION
from hsfiq.answer_rules import LONGEST_REASON, SHORTEST_REASON
from hsfiq.study.languages import worded_texts
from tests.annotate.conftest import running
from tests.annotate.question_page import boxes, expect_step, press, resize
from tests.annotate.served_studies import ReusedStudy, ThreadServer, newcomer

pytestmark = pytest.mark.browser

SIZES = [
    (320, 568), (360, 740), (390, 844), (600, 960), (640, 360), (768, 1024), (822, 640),
    (844, 390), (860, 1180), (960, 540), (1024, 768), (1180, 820), (1280, 720), (1920, 1080),
    (2560, 1440),
]  # fmt: skip
"""In CSS pixels: 640 x 360 and 960 x 540 are 1280 x 720 and 1920 x 1080 at 200 % zoom."""

NAMES = ["The search engine of the first of the two shops", "그림과 글로 찾는 두번째가게"]
LONG_TEXT = "is longer, has wide sleeves with a lace border and no collar; " * 8

SEVEN = ["Disagree strongly", "Disagree", "", "Neither", "", "Agree", "Agree strongly indeed"]

EXTRA = [
    {
        "name": name,
        "type": name,
        "text": "How sure are you of this answer, on the whole?",
        "options": SEVEN if name in ("choice", "choices", "scale") else [],
        "required": name == "text",
    }
    for name in ("choice", "choices", "scale", "number", "text")
]

OPTIONS: list[dict[str, Any]] = [
    {"k": 5},
    {"k": 5, "ties": True, "asks_reason": True, "can_skip": True},
    {"k": 5, "ties": True, "asks_reason": True, "can_skip": True, "language": "ko"},
    {"k": 10, "ties": True, "asks_reason": True, "can_skip": True, "names": NAMES},
    {"k": 1, "ties": True, "can_skip": True, "text": LONG_TEXT, "has_open_reason": True},
    {"k": 2, "names": NAMES, "text": LONG_TEXT, "language": "ko"},
    {"k": 3, "asks_reason": True, "has_open_reason": True, "names": NAMES},
    {"k": 4, "ties": True, "text": "와" * 400, "language": "ko"},
    {"k": 6, "can_skip": True, "has_open_reason": True, "text": LONG_TEXT},
    {"k": 7, "ties": True, "asks_reason": True, "names": NAMES, "language": "ko"},
    {"k": 8, "asks_reason": True, "can_skip": True},
    {"k": 9, "ties": True, "has_open_reason": True, "text": "mail@" * 80},
    {"k": 30, "ties": True},
    {"k": 5, "anchors": SEVEN, "ties": True},
    {"k": 5, "extra": EXTRA, "asks_reason": True},
    {"k": 5, "extra": EXTRA[2:], "kind": "images", "levels": 2, "language": "ko"},
    {"k": 5, "anchors": SEVEN, "kind": "single"},
    {"k": 5, "anchors": ["전혀 아니다", "보통", "매우 그렇다"], "language": "ko"},
    {"k": 5, "kind": "single", "asks_reason": True, "can_skip": True},
    {"k": 10, "kind": "single", "language": "ko", "text": LONG_TEXT},
    {"k": 10, "kind": "images", "levels": 2, "can_skip": True, "asks_reason": True},
    {"k": 5, "kind": "images", "levels": 4, "language": "ko", "has_open_reason": True},
    {"k": 1, "kind": "images", "levels": 3, "names": NAMES},
    {"k": 5, "kind": "ranking", "sets": 3, "ties": True, "asks_reason": True, "can_skip": True},
    {"k": 10, "kind": "ranking", "sets": 5, "language": "ko", "names": [*NAMES, *"abc"]},
    {"k": 1, "kind": "query", "sets": 1, "language": "ko", "asks_reason": True},
    {"k": 1, "kind": "query", "sets": 0, "text": LONG_TEXT, "has_open_reason": True},
]

SHOW = """async ([version, opening, hasOpenReason]) => {
  const { start } = await import(new URL(`../page/${version}/page.js`, document.baseURI).href);
  start(opening);
  if (hasOpenReason) document.querySelector(".button.reason").click();
}"""

FAULTS = """async (root) => {
  await new Promise(requestAnimationFrame);  // the page has reacted to its size before a frame
  const faults = [];
  const { clientWidth: width, clientHeight: height, scrollWidth } = document.documentElement;
  if (scrollWidth > width) faults.push(`the page is ${scrollWidth} wide`);
  const name = ({ className, tagName, innerText }) =>
    `${className || tagName} "${innerText.slice(0, 20)}"`;
  const fault = (element) => {
    const { left, top, right, bottom } = element.getBoundingClientRect();
    const place = `${name(element)} at ${[left, top, right, bottom].map(Math.round)}`;
    if (left < -0.5 || right > width + 0.5) return `${place} is cut`;
    if (bottom - top <= height && (top < -0.5 || bottom > height + 0.5)) return `${place} is cut`;
    const uppermost = document.elementFromPoint((left + right) / 2, (top + bottom) / 2);
    const isFree = element.contains(uppermost) || uppermost?.closest("label")?.contains(element);
    return isFree ? "" : `${place} is covered by ${uppermost ? name(uppermost) : "nothing"}`;
  };
  const isOverflowing = ({ scrollWidth, clientWidth, scrollHeight, clientHeight }) =>
    scrollWidth > clientWidth + 1 || scrollHeight > clientHeight + 1;
  const controls =
    "button, a, textarea, input:not(.sr), .option, .flag, .user-text, .notice-text, kbd";
  const elements = [...document.querySelector(root).querySelectorAll(controls)]
    .filter((element) => element.checkVisibility({ visibilityProperty: true }));
  for (const element of elements.filter(fault)) {
    element.scrollIntoView({ block: "center", inline: "center", behavior: "instant" });
    const kept = fault(element);
    if (kept) faults.push(kept);
  }
  const withText = elements.filter((element) => element.matches("button, .option, .flag, a"));
  faults.push(...withText.filter(isOverflowing).map((element) => `${name(element)} cuts its text`));
  for (const frame of document.querySelectorAll(".set .frame")) {
    const { width: across, height: down } = frame.getBoundingClientRect();
    if (across < 44 || down < 60) faults.push(`an image is ${across} x ${down}`);
  }
  return faults;
}"""


OTHERS = {"de": "Deutsch", "pt-BR": "Português do Brasil", "th": "ไทย", "ar": "العربية"}


@pytest.fixture(scope="module")
def study(reused_study: ReusedStudy) -> Iterator[ThreadServer]:
    """The usual study, served: no test of this module changes it."""
    reused_study.restore()
    with running(reused_study.server()) as server:
        yield server


def first_question(study: ThreadServer, context: BrowserContext) -> Page:
    context.clear_cookies()  # the browser of another participant
    page = context.new_page()
    page.goto(f"{study.url}/start/{newcomer(study.place)}")
    expect_step(page, "question", "1 / 6")
    return page


@pytest.fixture(scope="module")
def question(study: ThreadServer, reused_context: BrowserContext) -> Iterator[Page]:
    """A page with the study's question; each test chooses the size of the window."""
    page = first_question(study, reused_context)
    yield page
    page.close()


@pytest.fixture(scope="module")
def page(study: ThreadServer, reused_context: BrowserContext) -> Iterator[Page]:
    """A page on which each test shows its own question."""
    page = first_question(study, reused_context)
    yield page
    page.close()
    reused_context.clear_cookies()


def opening_of(view: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
    """What the server would send for a study with these options; the images repeat."""
    language, kind = options.get("language", "en"), options.get("kind", "pair")
    own = {"anchors": options["anchors"]} if "anchors" in options else {}
    texts = worded_texts(language, "composed", kind)["page"] | own
    tokens = [image for side in view["sets"] for image in side]
    n_sets = options.get("sets", 2 if kind == "pair" else 1)
    images = [(tokens * 4)[: options["k"]] for _ in range(n_sets)]
    if options.get("can_skip"):
        images[0] = [{"token": "", "missing": True}, *images[0][1:]]
    return {
        "study": {
            "title": "Which of these shops understood what you were looking for?",
            "kind": kind,
            "points": len(texts["anchors"]),
            "levels": options.get("levels", 0),
            "language": language,
            "direction": "ltr",
            "languages": [
                {"tag": tag, "name": name, "direction": "ltr"} for tag, name in OTHERS.items()
            ],
            "guidelines": "<h3>What to do</h3><p>Score both sets.</p>",
            "set_names": options.get("names", [f"Set {n + 1}" for n in range(n_sets)]),
            "extra_questions": options.get("extra", []),
            "ties_allowed": options.get("ties", False),
            "confirm_difference": None,
            "shortest_reason": SHORTEST_REASON,
            "longest_reason": LONGEST_REASON,
            "is_preview": False,
        },
        "texts": texts,
        "view": view
        | {
            "sets": images,
            "text": options.get("text", view["text"]),
            "reason_asked": options.get("asks_reason", False),
            "minutes_left": 12,
        },
    }


def shown_with(page: Page, options: dict[str, Any]) -> None:
    """Show the page's question as in a study with these options."""
    view = page.evaluate("async () => await (await fetch('../question')).json()")
    opening = opening_of(view, options)
    page.evaluate(SHOW, [VERSION, opening, options.get("has_open_reason", False)])


def faults_at(page: Page, root: str, sizes: Sequence[tuple[int, int]] = SIZES) -> Iterator[str]:
    page.add_style_tag(content="html { opacity: 0 }")  # laid out at each size, but not painted
    for width, height in sizes:
        resize(page, width, height)
        for fault in page.evaluate(FAULTS, root):
            yield f"{width} x {height}: {fault}"


def test_no_control_is_cut_or_covered(page: Page) -> None:
    """Each option at every other size, the next one at those between."""
    faults = []
    for number, options in enumerate(OPTIONS):
        shown_with(page, options)
        expect(page.locator(".next.waiting")).to_have_count(0)
        found = faults_at(page, ".page", SIZES[number % 2 :: 2])
        faults += [f"{json.dumps(options)[:90]}: {fault}" for fault in found]
    assert faults == [], f"{len(faults)}\n" + "\n".join(faults[:60])


def test_the_dialogs_are_not_cut(page: Page) -> None:
    for k in (1, 5, 10):
        shown_with(page, {"k": k, "names": NAMES, "text": LONG_TEXT, "language": "ko"})
        page.locator(".set .frame").first.click()
        faults = list(faults_at(page, "dialog.zoom"))
        press(page, "Escape")
        assert faults == [], k
    press(page, "?")
    assert list(faults_at(page, "dialog.guidelines")) == []
    press(page, "Escape")


def test_the_questions_at_the_end_are_not_cut(page: Page) -> None:
    opening = opening_of(page.evaluate("fetch('../question').then((r) => r.json())"), {"k": 5})
    opening["view"] |= {
        "step": "questionnaire",
        "note": LONG_TEXT,
        "questions": EXTRA,
        "assignment": "questionnaire",
        "draft": "questionnaire",
    }
    page.evaluate(SHOW, [VERSION, opening, False])
    expect(page.locator(".page[data-step=questionnaire] .send")).to_be_visible()
    page.locator(".send").click()
    assert list(faults_at(page, ".page")) == []


def test_nothing_covers_the_consent_text(page: Page) -> None:
    """The row for notices is there only when there is one."""
    opening = opening_of(page.evaluate("fetch('../question').then((r) => r.json())"), {"k": 5})
    opening["view"] |= {"step": "consent", "text": f"<p>{LONG_TEXT * 8}</p>"}
    resize(page, 1280, 720)
    page.evaluate(SHOW, [VERSION, opening, False])
    expect(page.locator(".page[data-step=consent] .agree")).to_be_visible()
    expect(page.locator(".bottom")).to_be_hidden()


def test_extra_questions_come_after_the_main_answer(page: Page) -> None:
    resize(page, 390, 844)
    shown_with(page, {"k": 5, "extra": EXTRA})
    parts = (".set[data-side='2']", ".preference", ".extra-questions", ".next")
    tops = [boxes(page, part)[0].top for part in parts]
    assert tops == sorted(tops)
    resize(page, 1280, 800)
    expect(page.locator(".question > .extra-questions")).to_have_count(1)


def test_images_use_large_screens_and_small_ones(question: Page) -> None:
    least = {(2560, 1440): (360, 480), (1920, 1080): (270, 330), (768, 1024): (110, 140)}
    for size, (width, height) in least.items():
        resize(question, *size)
        box = boxes(question, ".set .frame")[0]
        assert box.width > width, size
        assert box.height > height, size
    (reference,) = boxes(question, ".reference .frame")
    assert reference.width > 170
    assert reference.height > 200


def test_images_of_other_kinds_use_large_screens(page: Page) -> None:
    least: list[tuple[dict[str, Any], dict[tuple[int, int], int]]] = [
        ({"kind": "ranking", "sets": 3, "k": 5}, {(1280, 800): 140, (2560, 1440): 320}),
        ({"kind": "ranking", "sets": 5, "k": 5}, {(1920, 1080): 115, (2560, 1440): 180}),
        ({"kind": "images", "levels": 2, "k": 10}, {(1920, 1080): 280, (2560, 1440): 370}),
        ({"kind": "query", "sets": 1, "k": 1}, {(1024, 768): 290, (1920, 1080): 500}),
    ]
    for options, sizes in least:
        shown_with(page, options)
        for (width, height), lowest in sizes.items():
            resize(page, width, height)
            box = boxes(page, ".set .frame")[0]
            assert min(box.height, box.width * 4 / 3) > lowest, (options, width)
    resize(page, 1280, 800)
    for kind, controls in (("query", ".verdicts"), ("ranking", ".set[data-side='3'] .ranks")):
        shown_with(page, {"kind": kind, "sets": 1 if kind == "query" else 3, "k": 1})
        (box,), (foot,) = (boxes(page, part) for part in (controls, ".foot"))
        assert box.bottom <= foot.top, kind


def test_the_foot_takes_little_of_a_phone(question: Page) -> None:
    resize(question, 390, 844)
    covered = question.evaluate(
        "[...Array(844).keys()].map((y) => document.elementFromPoint(195, y))"
        ".filter((element) => element?.closest('.foot')).length"
    )
    assert covered <= 60


def test_the_reason_box_covers_no_image(question: Page) -> None:
    press(question, "r")
    for size in SIZES:
        resize(question, *size)
        (box,) = boxes(question, ".reason-panel")
        images = boxes(question, ".frame")
        assert images
        for image in images:
            is_apart = image.bottom <= box.top or box.bottom <= image.top
            assert is_apart or image.right <= box.left or box.right <= image.left, size
    press(question, "Escape")


REASON_OPTIONS: list[dict[str, Any]] = [
    {"k": 5},
    {"k": 5, "ties": True, "names": NAMES, "asks_reason": True, "language": "ko"},
    {"k": 10, "kind": "images", "levels": 4},
    {"k": 5, "kind": "ranking", "sets": 5},
    {"k": 5, "extra": EXTRA},
]


@pytest.mark.parametrize("options", REASON_OPTIONS, ids=str)
def test_the_reason_box_opens_in_view(page: Page, options: dict[str, Any]) -> None:
    shown_with(page, options)
    expect(page.locator(".next.waiting")).to_have_count(0)
    for width, height in [*SIZES, (1024, 700)]:
        resize(page, width, height)
        page.evaluate("scrollTo(0, 0)")
        press(page, "r")
        (panel,) = boxes(page, ".reason-panel")
        assert panel.top >= 0, (width, height)
        assert panel.bottom <= height, (width, height)
        if width >= 600 and height >= 560:
            (following,) = boxes(page, ".next")  # what is used next
            assert following.bottom <= height, (width, height)
        press(page, "Escape")


def test_all_sets_of_a_ranking_are_in_view(page: Page) -> None:
    laptops = [(1280, 720), (1440, 900), (1920, 1080)]
    smaller = [(768, 1024), (1024, 700)]
    cases = [(5, 5, smaller + laptops), (3, 5, smaller + laptops), (5, 10, laptops)]
    for n_sets, k, sizes in cases:
        shown_with(page, {"kind": "ranking", "sets": n_sets, "k": k})
        expect(page.locator(".next.waiting")).to_have_count(0)
        for width, height in sizes:
            resize(page, width, height)
            page.evaluate("scrollTo(0, 0)")
            (bottom,) = boxes(page, ".bottom")
            sets = boxes(page, ".set")
            assert len(sets) == n_sets
            assert sets[-1].bottom <= bottom.top, (n_sets, width, height)
            assert min(image.height for image in boxes(page, ".set .frame")) >= 80, (n_sets, width)


def test_the_key_hint_of_a_ranking_is_on_the_set_that_the_keys_rank(page: Page) -> None:
    resize(page, 1280, 720)
    shown_with(page, {"kind": "ranking", "sets": 5, "k": 5})
    expect(page.locator(".next.waiting")).to_have_count(0)
    hints = page.locator(".set h3 kbd")
    shown = "all => all.map((hint) => getComputedStyle(hint).visibility === 'visible')"
    assert hints.evaluate_all(shown) == [True, False, False, False, False]
    press(page, "3")
    assert hints.evaluate_all(shown) == [False, True, False, False, False]


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


def options_of(kind: str, text: str) -> dict[str, object]:
    n_sets = {"pair": 2, "ranking": 3}.get(kind, 1)
    k = {"query": 1, "images": 8}.get(kind, 5)
    return {"k": k, "kind": kind, "sets": n_sets, "levels": 3, "text": text}


def test_what_is_used_together_is_close_together_and_has_key_hints(question: Page) -> None:
    for size in SIZES:
        resize(question, *size)
        (scores,) = boxes(question, ".set[data-side='2'] .likert")
        (preference,), (following,) = (boxes(question, part) for part in (".preference", ".next"))
        assert preference.top - scores.bottom < 130, size
        assert following.left - preference.right < 40, size
        assert following.top - preference.bottom < 130, size
        assert len(boxes(question, ".set h3 kbd, .picks kbd, .next kbd")) == 5, size


@pytest.mark.parametrize("kind", KINDS)
def test_no_text_is_cut_without_sign_and_reference_shrinks_before(page: Page, kind: str) -> None:
    faults = []
    for n_times in (1, 4):
        shown_with(page, options_of(kind, LONG * n_times))
        expect(page.locator(".next.waiting")).to_have_count(0)
        for width, height in SIZES:
            resize(page, width, height)
            page.locator(".user-text").scroll_into_view_if_needed()
            faults += [f"{width} x {height}, {n_times}: {f}" for f in page.evaluate(UNSIGNED)]
    assert faults == []
    shown_with(page, options_of(kind, LONG))
    for width, height in ((1280, 720), (1440, 900), (1920, 1080), (2560, 1440)):
        resize(page, width, height)
        expect(page.locator(".text-more")).to_be_hidden()
        (reference,) = boxes(page, ".reference .frame")
        assert reference.height >= 140, width
