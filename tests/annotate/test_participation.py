"""A complete participation in a real Chromium: from the link to the completion code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect
from sqlalchemy import select
from starlette.types import ASGIApp, Receive, Scope, Send

from hsfiq.collect import participants
from hsfiq.collect.asked_questions import steps_of
from hsfiq.db.tables import CheckAnswer, Participant, Question
from hsfiq.study.config import Practice
from tests.annotate.axe import faults
from tests.annotate.page_requests import stored
from tests.annotate.question_page import (
    TEXT,
    OpenPage,
    answer,
    answer_practice,
    better_side,
    expect_step,
    press,
    press_next_when_ready,
    tab_to,
    type_sum,
)
from tests.annotate.served_studies import (
    SYSTEMS,
    Place,
    ReusedStudy,
    ServeStudy,
    ThreadServer,
    all_of,
    make_study,
    newcomer,
)

pytestmark = pytest.mark.browser

HOSTILE = (
    "<script>window.broken = 1</script><img src=x onerror='window.broken = 2'>",
    "\u202eright to left\u202c \u05e9\u05dc\u05d5\u05dd \u0645\u0631\u062d\u0628\u0627",
    "\N{DRESS}\N{ZERO WIDTH JOINER}\N{FLEXED BICEPS} {number} {{x}} ${y} `z` \\n",
    "is longer, " + "w" * 9_989,
)


def practise_by_keyboard(page: Page) -> None:
    """First a wrong and then the right answer; the sets are called shops A and B."""
    expect_step(page, "question", "Practice")
    answer_practice(page, is_right=False)
    press(page, "Enter")
    feedback = page.get_by_role("dialog", name=TEXT["practice_incorrect"])
    better = ("Shop A", "Shop B")[better_side(page) - 1]
    expect(feedback).to_contain_text(f"“is red and square”, and that is what {better} shows")
    press(page, "Escape")
    answer_practice(page)
    page.reload()  # the practice answer is a draft of this tab, no answer of the study
    expect_step(page, "question", "Practice")
    press(page, "Enter")
    expect(page.get_by_role("dialog", name=TEXT["practice_correct"])).to_be_visible()
    press(page, "Enter")


def test_from_link_to_code_by_keyboard_alone(serve_study: ServeStudy, open_page: OpenPage) -> None:
    server = serve_study(
        reason_every=3,
        preference_ties=True,
        presentation={"set_names": ("Shop A", "Shop B")},
        recruitment={"completion_code": "CODE-7", "completion_url": "https://app.example.org/c"},
    )
    page = open_page(server, is_ready=False)
    expect(page.get_by_role("heading", name=TEXT["consent_title"])).to_be_visible()
    press(page, "Enter", "1", "q", "x")  # nothing is agreed to by accident
    tab_to(page, ".agree")
    press(page, "Enter")
    expect(page.get_by_role("dialog", name=TEXT["guidelines"])).to_be_visible()
    press(page, "Enter")
    practise_by_keyboard(page)
    for number in (1, 2):
        expect_step(page, "question", f"{number} / 6")
        answer(page)
    expect_step(page, "question", "3 / 6")
    press(page, "3", "Shift+Digit3", "e", "Enter")
    reason = TEXT["a_reason"].format(shortest=3)
    expect(page.locator(".live")).to_have_text(TEXT["still_missing"].format(items=reason))
    expect(page.locator("#hsfiq-reason")).to_be_focused()
    page.keyboard.type("the same 1 q")
    press(page, "Escape", "Enter")
    expect_step(page, "check", "3 / 6")
    page.keyboard.type("1")
    press(page, "Enter")
    expect(page.locator(".sum-note")).to_have_text(TEXT["check_wrong"])
    type_sum(page)
    press(page, "Enter")
    expect_step(page, "question", "4 / 6")
    expect(page.locator(".time-left")).to_have_text("about 1 min left")
    for number in (4, 5):
        expect_step(page, "question", f"{number} / 6")
        press(page, "1", "Shift+Digit5", "w", "Enter")
    expect_step(page, "question", "6 / 6")
    press(page, "r")
    page.keyboard.type("closer in colour")
    press(page, "Escape", "1", "Shift+Digit5", "w", "Enter")
    expect_step(page, "done", "6 of 6 questions")
    expect(page.locator(".code strong")).to_have_text("CODE-7")
    assert page.locator(".completion a").get_attribute("href") == "https://app.example.org/c"
    last_step = TEXT["last_step_both"].format(button=TEXT["finish"])
    expect(page.locator(".last-step")).to_have_text(last_step)
    expect(page.locator(".live")).to_contain_text(last_step)
    expect(page.locator(".done")).not_to_contain_text(TEXT["may_close"])
    answers = stored(server.database)
    assert [(row.score_1, row.score_2, row.preferred, row.reason) for row in answers] == [
        *[(4, 2, 1, None)] * 2,
        (3, 3, 0, "the same 1 q"),
        *[(1, 5, 2, None)] * 2,
        (1, 5, 2, "closer in colour"),
    ]
    assert [
        check_answer.passed for check_answer in all_of(server.database, select(CheckAnswer))
    ] == [False, True]


def test_declining(server: ThreadServer, open_page: OpenPage) -> None:
    page = open_page(server, is_ready=False)
    tab_to(page, ".decline")
    press(page, "Space")
    asked = page.get_by_role("dialog", name=TEXT["decline_title"])
    expect(asked).to_be_visible()
    press(page, "Enter")  # nothing is declined by accident
    expect(asked).to_be_hidden()
    expect(page.get_by_role("heading", name=TEXT["consent_title"])).to_be_visible()
    tab_to(page, ".decline")
    press(page, "Space")
    tab_to(page, ".leave")
    press(page, "Enter")
    expect(page.get_by_role("heading", name=TEXT["farewell"]["declined"][0])).to_be_visible()
    page.reload()
    expect(page.get_by_role("heading", name=TEXT["farewell"]["declined"][0])).to_be_visible()
    press(page, "?")
    expect(page.get_by_role("dialog", name=TEXT["guidelines"])).to_be_visible()
    press(page, "Escape")
    page.get_by_role("button", name=TEXT["reconsider"]).click()
    expect(page.get_by_role("heading", name=TEXT["consent_title"])).to_be_visible()
    page.locator(".agree").click()
    expect_step(page, "question", "Practice")


def test_holding_a_key_counts_as_one_press_and_a_wrong_answer_is_tried_again(
    server: ThreadServer, open_page: OpenPage
) -> None:
    page = open_page(server, is_ready=False)
    tab_to(page, ".agree")
    guidelines = page.get_by_role("dialog", name=TEXT["guidelines"])
    page.keyboard.down("Enter")
    guidelines.wait_for()
    for _ in range(5):
        page.keyboard.down("Enter")
    page.keyboard.up("Enter")
    expect(guidelines).to_be_visible()
    press(page, "Enter")
    answer_practice(page, is_right=False)
    page.locator('.next[aria-disabled="false"]').wait_for()
    feedback = page.get_by_role("dialog", name=TEXT["practice_incorrect"])
    begin = page.get_by_role("button", name=TEXT["practice_begin"])
    page.keyboard.down("Enter")
    feedback.wait_for()
    for _ in range(5):
        page.keyboard.down("Enter")
    page.keyboard.up("Enter")
    press(page, "4", "b")  # nor do the question's keys reach through a dialog
    for _ in range(2):
        expect(feedback).to_contain_text(TEXT["practice_try_again"])
        expect(begin).to_be_hidden()
        press(page, "Enter")
        expect(feedback).to_be_hidden()
        expect_step(page, "question", "Practice")
        press(page, "Enter")
    begin.dblclick()  # nobody has to give up
    expect_step(page, "question", "1 / 6")
    page.evaluate(
        """() => {
          const keys = { key: "q", code: "KeyQ", bubbles: true };
          const target = document.querySelector(".main");
          target.dispatchEvent(new KeyboardEvent("keydown", { ...keys, isComposing: true }));
          target.dispatchEvent(new KeyboardEvent("keydown", { ...keys, keyCode: 229 }));
        }"""
    )
    assert page.locator("input:checked").count() == 0
    assert stored(server.database) == []


def test_a_question_reassigned_to_another_participant(page: Page, server: ThreadServer) -> None:
    with server.database.writing() as session:
        person = session.scalars(select(Participant)).one()
        current = steps_of(session, person.id).current
        assert current
        session.get_one(Question, current.question_id).reassigned = True
    answer(page)
    expect_step(page, "question", "1 / 5")
    expect(page.locator(".notice-text")).to_have_text(TEXT["question_reassigned"])
    assert page.locator("input:checked").count() == 0
    assert stored(server.database) == []
    with server.database.writing() as session:
        participants.set_status(session.scalars(select(Participant)).one(), "excluded")
    answer(page)
    title, text = TEXT["farewell"]["excluded"]
    expect(page.get_by_role("heading", name=title)).to_be_visible()
    expect(page.locator(".farewell-text")).to_have_text(text)


def test_hostile_texts_are_shown_as_text(serve_study: ServeStudy, open_page: OpenPage) -> None:
    hostile = HOSTILE[0]
    server = serve_study(
        texts=HOSTILE,
        queries=4,
        questions_per_form=2,
        presentation={
            "title": hostile,
            "consent": hostile,
            "guidelines": f"# {hostile}\n- {hostile}",
            "set_names": (hostile, "x" * 300),
        },
    )
    page = open_page(server, is_ready=False)
    expect(page.locator(".consent-text")).to_contain_text(hostile)
    expect(page.locator(".title")).to_have_text(hostile)
    page.locator(".agree").click()
    page.locator(".guidelines").wait_for()
    expect(page.locator(".guidelines-text h3")).to_have_text(hostile)
    press(page, "Enter")
    answer_practice(page)
    press_next_when_ready(page)
    expect(page.locator(".feedback-text")).to_contain_text(hostile)
    press(page, "Enter")
    texts = set()
    for number in (1, 2, 3, 4):
        expect(page.locator(".count")).to_have_text(f"{number} / 4")
        texts.add(page.locator(".user-text").text_content())
        assert page.locator(".wish *").count() == 0
        assert page.evaluate("document.documentElement.scrollWidth") == 1280
        if number == 2:
            press(page, "r")
            page.locator("#hsfiq-reason").fill(hostile)
            press(page, "Escape")
        while page.locator(".text-more").is_visible():
            page.locator(".text-more").click()
        answer(page)
        if number == 2:
            expect(page.locator("#hsfiq-sum")).to_be_focused()
            type_sum(page)
            press(page, "Enter")
    assert texts == set(HOSTILE)
    expect_step(page, "done", "4 of 4 questions")
    assert page.evaluate("window.broken") is None
    assert stored(server.database)[1].reason == hostile


def test_a_korean_study_is_shown_in_korean(serve_study: ServeStudy, open_page: OpenPage) -> None:
    page = open_page(serve_study(presentation={"languages": ("ko",)}))
    expect(page.locator(".set").nth(0)).to_contain_text("거의 일치하지 않음")
    assert page.evaluate("document.documentElement.lang") == "ko"
    page_text = page.locator(".page").inner_text().replace("Shift", "")
    english = {"Next", "Back", "Guidelines", "Reason", "Original", "prefer", "match", "order"}
    assert not english & set(page_text.split())
    press(page, "1", "Enter")
    missing = "아직 답하지 않은 항목: 세트 2 점수, 더 잘 일치하는 세트"
    expect(page.locator(".live")).to_have_text(missing)


class CountedImages:
    """Counts the requests for each image that arrive at an app."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self.requests: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"].startswith("/image/"):
            self.requests[scope["path"]] += 1
        await self.app(scope, receive, send)


NEXT_IMAGES = "fetch('../question').then((reply) => reply.json()).then((view) => view.next_images)"

HAVE_LOADED = """
(images) => {
  const loaded = performance.getEntriesByType("resource").map((entry) => entry.name);
  return images.every((image) => loaded.some((address) => address.endsWith(`/${image}`)));
}
"""


@pytest.mark.usefixtures("copied")
def test_a_browser_asks_for_each_image_once(reused_study: ReusedStudy, open_page: OpenPage) -> None:
    server = reused_study.server()
    counted = CountedImages(reused_study.app)
    server.server.config.app = counted
    server.start()
    page = open_page(server)
    answer(page)
    expect_step(page, "question", "2 / 6")
    for _ in range(2):
        # A reload ends what is still loading, which is then asked for again.
        expect(page.locator(".next.waiting")).to_have_count(0)
        next_images = page.evaluate(NEXT_IMAGES)
        assert next_images
        page.wait_for_function(HAVE_LOADED, arg=next_images)
        page.reload()
        expect_step(page, "question", "2 / 6")
    page.close()
    server.stop()
    assert len(counted.requests) > 2 * 10
    assert set(counted.requests.values()) == {1}


def test_a_study_can_be_completed_on_a_phone_without_key_hints(
    server: ThreadServer, open_page: OpenPage
) -> None:
    page = open_page(server, 390, 844, is_ready=False, has_touch=True, is_mobile=True)
    page.locator(".agree").tap()
    page.locator(".guidelines .close").tap()
    expect_step(page, "question", "Practice")
    better = better_side(page) - 1
    for side, value in ((better, 4), (1 - better, 0)):
        page.locator(".set").nth(side).locator(".option").nth(value).tap()
    page.locator(".preference .option").nth(better).tap()
    page.locator(".next").tap()
    page.locator(".feedback .begin").tap()
    expect_step(page, "question", "1 / 6")
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    for width, height in ((1280, 800), (390, 844)):  # on a touch screen of any size
        page.set_viewport_size({"width": width, "height": height})
        expect(page.locator("kbd:visible")).to_have_count(0)
    page.locator(".set").nth(1).locator(".frame").nth(0).tap()
    expect(page.get_by_role("dialog", name=TEXT["zoom"])).to_be_visible()


def test_a_press_while_offline_loses_nothing_and_stores_nothing_twice(
    page: Page, server: ThreadServer
) -> None:
    page.context.set_offline(offline=True)
    press(page, "4", "Shift+Digit2", "q")
    page.locator(".next").click()
    expect(page.locator(".notice-text")).to_contain_text(TEXT["disconnected"])
    expect(page.locator(".live")).to_contain_text(TEXT["disconnected"])
    expect_step(page, "question", "1 / 6")

    def connect_and_fail(route: Any) -> None:
        page.context.set_offline(offline=False)
        route.abort()

    page.route("**/submit", connect_and_fail, times=1)  # the connection returns during a request
    press(page, "Enter")
    expect(page.locator(".notice-text")).to_have_text(TEXT["connected"])
    expect(page.locator(".set").nth(0).get_by_role("radio").nth(3)).to_be_checked()
    page.context.set_offline(offline=True)
    press(page, "Enter")
    expect(page.locator(".notice-text")).to_contain_text(TEXT["disconnected"])
    expect(page.locator(":root.busy")).to_have_count(0)
    page.context.set_offline(offline=False)
    expect(page.locator(".notice-text")).to_have_text(TEXT["connected"])
    page.get_by_role("button", name="Try again").dblclick()
    expect_step(page, "question", "2 / 6")
    expect(page.locator(".notice")).to_be_hidden()

    def deliver_but_hang_up(route: Any) -> None:
        route.fetch()
        route.abort()

    page.route("**/submit", deliver_but_hang_up, times=1)
    answer(page)
    expect(page.locator(".notice-text")).to_contain_text(TEXT["offline"])
    page.get_by_role("button", name="Try again").click()
    expect_step(page, "question", "3 / 6")
    assert [(row.score_1, row.revision) for row in stored(server.database)] == [(4, 1)] * 2


Choices = dict[str, int]
CASES: dict[str, tuple[int, str, Choices, Choices]] = {
    "pair": (2, "2", {"score_1": 4, "score_2": 2, "preferred": 2}, {"score_2": 5}),
    "single": (1, "4-5", {"score_1": 3}, {"score_1": 4}),
    "images": (1, "1 3", {f"image_{n}": 1 for n in range(1, 6)}, dict.fromkeys(
        ("image_2", "image_4", "image_5"), 0
    )),
    "ranking": (3, "2 1 3", {"rank_1": 1, "rank_2": 2, "rank_3": 3}, {"rank_1": 2, "rank_2": 1}),
    "query": (0, "QUERY_TOO_BROAD", {"verdict": 0}, {"verdict": 4}),
}  # fmt: skip
"""For each kind the number of systems, what is expected, a wrong answer, and what rights it."""


def choose(page: Page, choices: Choices) -> None:
    for name, value in choices.items():
        page.locator(f'label:has(input[name="{name}"][value="{value}"])').click()


@pytest.mark.parametrize("kind", CASES)
def test_a_wrong_answer_is_explained_in_the_owners_words(
    place: Place, serve: Callable[[Place], ThreadServer], open_page: OpenPage, kind: str
) -> None:
    n_systems, expected, wrong, right = CASES[kind]
    practice = Practice(
        "telltale.val.0", SYSTEMS[:n_systems], expected, "Because <b>I</b> say so.\n\nReally."
    )
    make_study(place, kind=kind, practice=practice).close()
    page = open_page(serve(place), is_ready=False)
    page.locator(".agree").click()
    page.locator(".guidelines[open]").wait_for()
    press(page, "Enter")
    expect(page.locator(".user-text")).to_have_text("is more green and has 3/4 sleeves")
    choose(page, wrong)
    press_next_when_ready(page)
    feedback = page.get_by_role("dialog", name=TEXT["practice_incorrect"])
    expect(feedback.locator("p").nth(0)).to_have_text("Because <b>I</b> say so.")
    expect(feedback.locator("p").nth(1)).to_have_text("Really.")
    expect(feedback).to_contain_text(TEXT["practice_try_again"])
    press(page, "Enter")
    expect(feedback).to_be_hidden()
    choose(page, right)
    press_next_when_ready(page)
    expect(page.get_by_role("dialog", name=TEXT["practice_correct"])).to_be_visible()


def check(page: Page, name: str) -> None:
    violations = list(faults(page))
    assert violations == [], f"{name}:\n" + "\n".join(violations)


def test_the_plain_pages(page: Page, server: ThreadServer) -> None:
    page.context.clear_cookies()
    for path in ("/", "/start/nobody", "/study/", "/start?workerId=A1"):
        page.goto(server.url + path)
        check(page, path)


def test_the_pages_of_the_study(serve_study: ServeStudy, open_page: OpenPage) -> None:
    server = serve_study(
        missing=frozenset(range(14, 30)),
        reason_every=1,
        preference_ties=True,
        confirm_contradictions=True,
        questions_per_form=1,
        recruitment={"completion_code": "C1", "completion_url": "https://app.example.org/c"},
    )
    page = open_page(server, is_ready=False)
    check(page, "consent")
    page.locator(".agree").click()
    page.locator(".guidelines").wait_for()
    check(page, "guidelines")
    press(page, "Enter")
    answer_practice(page)
    press(page, "Enter")
    page.locator(".feedback").wait_for()
    check(page, "feedback")
    press(page, "Enter")
    expect(page.locator(".count")).to_have_text("1 / 2")
    press(page, "1", "Enter")
    check(page, "question, answered in part")
    page.locator("button.frame").first.click()
    check(page, "zoom")
    press(page, "Escape", "Shift+Digit1", "q", "r")
    page.keyboard.type("why not")
    check(page, "question with its reason")
    press(page, "Escape", "Enter")
    expect(page.locator("#hsfiq-sum")).to_be_focused()
    press(page, "Enter")
    check(page, "sum")
    type_sum(page)
    press(page, "Enter")
    expect(page.locator(".count")).to_have_text("2 / 2")
    press(page, "1", "Shift+Digit5", "q", "r")
    page.keyboard.type("why not")
    press(page, "Escape", "Enter")
    page.locator(".confirmation[open]").wait_for()
    check(page, "confirmation")
    press(page, "Tab", "Enter")
    expect(page.locator(".code strong")).to_have_text("C1")
    check(page, "done")
    page.goto(f"{server.url}/start/{newcomer(server.place, is_ready=False)}")
    page.locator(".decline").click()
    check(page, "declining")
    page.locator(".leave").click()
    expect(page.locator(".farewell-title")).to_be_visible()
    check(page, "declined")
    page.locator(".farewell .open-withdrawal").click()
    page.locator(".withdrawal[open]").wait_for()
    check(page, "withdrawal")
    page.locator(".confirm-withdrawal").click()
    expect(page.locator(".withdrawn")).to_be_visible()
    check(page, "withdrawn")
