"""The step "Rehearse and launch": what blocks the launch is said in words where it is repaired."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from typing import Any

import pytest

from hsfiq.actors import OWNER
from hsfiq.drafts import change_draft, draw
from tests.annotate.studio.conftest import StudioClient, fill
from tests.annotate.studio.test_design import text_of


def filled(studio: StudioClient, values: Mapping[str, Any]) -> str:
    """A draft with own data, two people of three questions each, and these values."""
    token = studio.new_draft()
    fill(studio, token)
    usual = {"design.questions_per_form": 3, "design.annotators_per_query": None}
    with studio.database.writing() as session:
        change_draft(session, token, OWNER, lambda content: content.with_values(usual | values))
    return token


def missing(studio: StudioClient, token: str) -> list[tuple[str, str]]:
    """Each line that blocks the launch, with the address at which it is repaired."""
    page = studio.get(f"draft/{token}/launch").text
    rows = re.findall(r"<li data-key.*?</li>", page.partition("Before you open it")[2], re.DOTALL)
    lines = [(text_of(row), re.findall(r'href="([^"]*)"', row)[-1:]) for row in rows]
    return [(text, *place) for text, place in lines if text.startswith("Missing")]


GOLD = "There is not enough data for a question with an obvious answer."
PRACTICE = {"query": "q99", "systems": ["mine", "theirs"], "expected": "1"}
PLAN = {"question": "systems", "pair": ["mine", "nobody"]}


@pytest.mark.parametrize(
    ("values", "said", "step"),
    [
        ({"checks.gold": 1}, GOLD, "design"),
        ({"checks.gold": 1, "design.questions_per_form": 6}, GOLD, "design"),
        ({"checks.repeated": 9}, "is more than the questions of a form", "design"),
        (
            {"recruitment.participants": 99, "design.annotators_per_query": 2},
            "There are too few questions for so many people.",
            "design",
        ),
        (
            {"recruitment.quotas": {"shirt": 2}, "design.categories": "one"},
            "A quota does not fit the questions and people.",
            "people",
        ),
        ({"recruitment.quotas": {"shirt": 2}}, "quotas:", "people"),
        (
            {"queries.sample": 9, "design.annotators_per_query": 1},
            "Fewer queries are left than the study asks about.",
            "design",
        ),
        (
            {"design.k": 7},
            "There are too few queries with a list of each system that is long enough.",
            "systems",
        ),
        ({"design.kind": "ranking"}, "3 are needed", "systems"),
        ({"design.kind": "arena"}, "retrievers: is missing", "question#f-searches.retrievers"),
        ({"analysis": PLAN}, "There is no system nobody.", "design"),
        (
            {"practice": PRACTICE},
            "The practice question cannot be made of these queries and lists.",
            "question",
        ),
        ({"queries.categories": ["none"]}, "No query is in the chosen groups.", "images"),
        ({"queries.systems": ["mine", "nobody"]}, "no system is called 'nobody'", "systems"),
        ({"recruitment.mode": "prolific"}, "completion code: is missing", "people"),
        ({"study.title": ""}, "title: is empty", "question"),
        ({"recruitment.enrolments_per_address": "x"}, "enrolments per address:", "people"),
    ],
)
def test_what_blocks_the_launch_is_said_with_a_link(
    studio: StudioClient, values: Mapping[str, Any], said: str, step: str
) -> None:
    token = filled(studio, values)
    lines = missing(studio, token)
    assert [address for text, address in lines if said in text] == [step]
    assert not [text for text, _ in lines if re.search(r"[a-z]+_[a-z]+|\b[a-z]+\.[a-z]+\b", text)]
    assert len(lines) < 3
    assert studio.act(f"draft/{token}/launch", "open").status_code == 422


def test_an_empty_draft_says_what_it_needs(studio: StudioClient) -> None:
    lines = missing(studio, studio.new_draft())
    assert {place for _, place in lines} == {"images", "systems", "people"}


def test_a_name_that_another_study_has_blocks_the_launch(studio: StudioClient) -> None:
    draw(studio.database, filled(studio, {}), OWNER)
    token = filled(studio, {"study.name": "study"})
    assert missing(studio, token) == [
        ("Missing Another study has this name. Go there", "question#f-study.name")
    ]


# Questions with an obvious answer.


@pytest.mark.parametrize("kind", ["pair", "single", "images"])
@pytest.mark.parametrize("questions", [1, 3, 6])
def test_the_default_asks_for_nothing_obvious_where_that_is_impossible(
    studio: StudioClient, kind: str, questions: int
) -> None:
    values = {"checks.gold": None, "design.kind": kind, "design.questions_per_form": questions}
    token = filled(studio, values)
    assert missing(studio, token) == []
    assert studio.draft(token).content.value("checks.gold") == 0
    draw(studio.database, token, OWNER)


def test_it_is_left_out_with_one_click(studio: StudioClient) -> None:
    rule = {"checks.on_failure": "exclude", "recruitment.max_failed_checks": 1}
    token = filled(studio, {"checks.gold": 1, **rule})
    page = html.unescape(studio.get(f"draft/{token}/design").text)
    assert "Too few images are shown for other queries" in page
    assert 'data-act="leave-out-gold"' in page
    for step in ("launch", "design"):
        done = studio.act(f"draft/{token}/{step}", "leave-out-gold")
        assert done.json()["undo"] == {"act": "undo"}
        assert missing(studio, token) == []
        assert "Too few images" not in studio.get(f"draft/{token}/design").text
        studio.act(f"draft/{token}/{step}", "undo")
        assert GOLD in missing(studio, token)[0][0]


def test_queries_and_lists_of_a_dataset_are_checked(studio: StudioClient) -> None:
    draw(studio.database, filled(studio, {}), OWNER)  # its dataset is in the database then
    token = filled(studio, {"queries.dataset": "study"})
    with studio.database.writing() as session:
        dataset = {"dataset": "study", "files": ()}
        change_draft(session, token, OWNER, lambda content: content.model_copy(update=dataset))
    assert missing(studio, token) == []
    studio.save(token, "systems", "queries.systems", "mine\nnobody", type="list")
    assert "systems" in [place for _, place in missing(studio, token)]
    studio.save(token, "systems", "queries.systems", None)
    studio.save(token, "images", "queries.categories", "none", type="list")
    texts = {place: text for text, place in missing(studio, token)}
    assert "No query is in the chosen groups." in texts["images"]
