"""Searches with two live retrievers side by side, as their page sends them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest
from sqlalchemy import func, select

from hsfiq.db.search_tables import SearchEnding, SearchList
from hsfiq.drawn.garments import garment_of
from tests.annotate.served_studies import the_one
from tests.drawn_retriever import DrawnRetriever
from tests.hsfiq.samples import hsfiq
from tests.question_kinds.drawn_catalogue import STUDY, Catalogue
from tests.question_kinds.search_pages import (
    Listener,
    SearchPage,
    arena_queries,
    at,
    create_arena,
    image_names,
)

PRIVATE = "is red like my grandmother's curtains"


@pytest.fixture
def page(
    catalogue: Catalogue, rivals: list[Listener], request: pytest.FixtureRequest
) -> Iterator[SearchPage]:
    """A participant of a new arena, who has sent a first text."""
    study = create_arena(catalogue, rivals, request.node.name.replace("_", "-"))
    with closing(SearchPage(catalogue, study)) as made:
        yield made
    catalogue.close(study)


def n_lists(catalogue: Catalogue) -> int:
    return the_one(catalogue.database, select(func.count()).select_from(SearchList)) or 0


def test_both_systems_are_asked_the_same(page: SearchPage, rivals: list[Listener]) -> None:
    assert (page.view["awaits_list"], page.view["target"]) == (False, None)
    (turn,) = page.ask("is red")["turns"]
    assert [len(images) for images in turn["lists"]] == [3, 3]
    nearest = turn["lists"][1][2]
    second = page.ask("is blue", opinion=page.opinion(nearest=3, side=2, vote=1))["turns"][1]
    assert second["reference"] == nearest  # of either list
    assert rivals[0].last == rivals[1].last
    first = page.view["turns"][0]
    assert first["vote"] == {"preference": 1, "both_bad": False}
    assert (first["nearest"], first["satisfaction"]) == (at(3, side=2), None)
    assert page.current() == page.view


def test_a_vote_is_required(page: SearchPage, catalogue: Catalogue) -> None:
    page.ask("is red")
    opinion = page.opinion() or {}
    for wrong in (
        {"vote": None},
        {"vote": {"preference": 3, "both_bad": False}},
        {"vote": {"preference": 1, "both_bad": True}},
        {"vote": {"preference": True, "both_bad": False}},
        {"satisfaction": 3},
        {"nearest": at(4)},
        {"nearest": at(1, side=3)},
        {"images": [["shown"] * 3]},
        {"images": [["shown"] * 3, ["shown"] * 2]},
    ):
        page.post("/search/turn", page.turn("is blue", opinion=opinion | wrong), 422)
    stop = {"assignment": page.view["assignment"], "submit_key": "k" * 20, "declared": at(1)}
    page.post("/search/stop", stop | {"opinion": None}, 422)
    page.post("/search/stop", stop | {"opinion": opinion, "declared": at(1, side=3)}, 422)
    assert page.current() == page.view
    view = page.stop(2, side=2)
    assert (view["ending"], view["declared"]) == ("declared", at(2, side=2))
    with catalogue.database.reading() as session:
        last = select(SearchEnding).order_by(SearchEnding.question_id.desc())
        ending = session.scalars(last).first()
        assert ending is not None
        assert ending.declared_side == 2
    assert page.judge()["number"] == 2


def test_no_half_turn_is_stored_or_shown(
    page: SearchPage, catalogue: Catalogue, rivals: list[Listener]
) -> None:
    before = n_lists(catalogue)
    for failing in rivals:  # on either side
        failing.stop()
        try:
            view = page.ask("is red") if not page.view["turns"] else page.list()
        finally:
            failing.start()
        assert view["is_unavailable"]
        assert view["turns"][0]["lists"] is None
        assert n_lists(catalogue) == before
    assert len(page.list()["turns"][0]["lists"]) == 2
    assert n_lists(catalogue) == before + 2
    assert page.current() == page.view


def test_two_tabs_get_the_same_lists(page: SearchPage, catalogue: Catalogue) -> None:
    before = n_lists(catalogue)
    view = page.post("/search/turn", page.turn("is red"))
    with ThreadPoolExecutor(2) as tabs:
        asked = {"assignment": view["assignment"]}
        first_tab, second_tab = tabs.map(lambda _: page.post("/search/list", asked), range(2))
    assert first_tab["turns"] == second_tab["turns"]
    assert n_lists(catalogue) == before + 2


def test_nothing_sent_names_a_system_and_no_text_reaches_others(
    page: SearchPage, catalogue: Catalogue, rivals: list[Listener], request: pytest.FixtureRequest
) -> None:
    texts = [json.dumps(page.ask(PRIVATE)), json.dumps(page.ask("is blue"))]
    names = [*image_names(catalogue), "telltale", str(rivals[0].port), "scores", 'seconds": 0.']
    assert not [name for text in texts for name in names if name in text]
    assert set(page.view["turns"][0]) == {
        "number", "text", "is_given", "reference", "lists", "satisfaction", "vote", "nearest"
    }  # fmt: skip

    study = request.node.name.replace("_", "-")
    with closing(SearchPage(catalogue, study)) as other:
        other.ask("is green")
        public = [other.http.get(path) for path in ("/", "/question", f"/leaderboard/{study}")]
        assert [answer.status_code for answer in public] == [200, 200, 200]
        seen = [answer.text for answer in public] + [json.dumps(other.view)]
    assert PRIVATE in texts[0]
    assert not [text for text in seen if "grandmother" in text]


def test_systems_of_arena_search_same_images(catalogue: Catalogue, rivals: list[Listener]) -> None:
    names = image_names(catalogue)
    other = next(name for name in names if garment_of(name).category != "dress")
    fewer = DrawnRetriever([name for name in names if name != other])
    queries = arena_queries([rivals[0], fewer])
    path = catalogue.folder / "other-images.toml"
    path.write_text(STUDY.format(name="other", kind="arena", design="", queries=queries, k=3))
    refused = hsfiq("study", "create", path, "--database", catalogue.place.url)
    fewer.stop()
    assert refused.code == 2
    assert "telltale-2 and telltale-1 differ in 1 of the images" in refused.err
