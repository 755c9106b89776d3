"""The person in Chromium of the benchmark `turns`."""

from __future__ import annotations

from random import Random

from playwright.sync_api import Browser

from benchmarks.painted_turns import painted_turns
from tests.browser import new_context_of
from tests.drawn_retriever import DrawnRetriever
from tests.question_kinds.drawn_catalogue import Catalogue
from tests.question_kinds.search_pages import create_search, image_names

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
    catalogue.hsfiq("study", "close", "--study", study)
