"""A practice question from the study's own data, answered in a browser."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from hsfiq.study.config import Practice
from tests.annotate.question_page import TEXT, OpenPage, press, press_next_when_ready
from tests.annotate.served_studies import SYSTEMS, Place, ThreadServer, make_study

pytestmark = pytest.mark.browser

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
