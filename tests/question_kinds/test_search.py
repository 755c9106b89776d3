"""Searches over several turns with a live retriever, as their page sends them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest
from sqlalchemy import delete, select

from hsfiq.db.search_tables import SearchEnding, SearchFeedback, SearchList, SearchTurn
from hsfiq.db.tables import Question
from hsfiq.demo.study import IMAGE_FOLDER
from tests.drawn_retriever import VERSION, DrawnRetriever
from tests.hsfiq.samples import hsfiq
from tests.question_kinds.drawn_catalogue import STUDY, Catalogue
from tests.question_kinds.search_pages import SEARCHES, SearchPage, at, create_search, image_names


@contextmanager
def searching(
    catalogue: Catalogue, retriever: DrawnRetriever, name: str, task: str, more: str = ""
) -> Iterator[SearchPage]:
    """A participant of a new study, which is closed afterwards."""
    study = create_search(catalogue, retriever, name, task, more)
    with closing(SearchPage(catalogue, study)) as page:
        yield page
    catalogue.close(study)


@pytest.fixture
def page(
    catalogue: Catalogue, retriever: DrawnRetriever, request: pytest.FixtureRequest
) -> Iterator[SearchPage]:
    name = request.node.name.replace("_", "-")
    with searching(catalogue, retriever, name, "target-shown") as made:
        yield made


def test_a_search_begins_with_the_list_of_the_querys_text(
    page: SearchPage, catalogue: Catalogue, retriever: DrawnRetriever
) -> None:
    view = page.view
    assert (view["step"], view["awaits_list"], view["turns"]) == ("search", True, [])
    view = page.list()
    (turn,) = view["turns"]
    (images,) = turn["lists"]
    assert (len(images), turn["reference"], turn["nearest"]) == (3, view["start"], None)
    assert view["target"] in images  # the retriever reads the text exactly
    asked = retriever.asked
    assert page.list() == view
    assert page.current() == view
    assert retriever.asked == asked
    with catalogue.database.reading() as session:
        stored = session.scalars(select(SearchList).order_by(SearchList.turn_id.desc())).first()
        assert stored is not None
        assert (stored.system_version, stored.rank is not None) == (VERSION, True)


def test_a_turn_is_stored_before_its_list(page: SearchPage, catalogue: Catalogue) -> None:
    page.list()
    nearest = page.view["turns"][0]["lists"][0][1]
    payload = page.turn("is  red ", opinion=page.opinion(nearest=2, satisfaction=5))
    view = page.post("/search/turn", payload)
    assert page.post("/search/turn", payload) == view  # sent again: stored once
    first, second = view["turns"]
    assert (first["satisfaction"], first["nearest"]) == (5, at(2))
    assert (second["text"], second["reference"], second["lists"]) == ("is  red ", nearest, None)
    assert view["awaits_list"]
    stale = page.turn("is blue")  # of another tab, from an earlier list
    page.view = view
    assert page.list()["turns"][1]["lists"] is not None
    page.post("/search/turn", stale, 409)
    assert [turn["text"] for turn in page.current()["turns"]][1:] == ["is  red "]
    with catalogue.database.reading() as session:
        turns = session.scalars(select(SearchTurn).order_by(SearchTurn.id.desc()).limit(2)).all()
        feedback = session.get_one(SearchFeedback, turns[1].id)
        assert (feedback.satisfaction, feedback.nearest, feedback.active_seconds) == (5, 2, 2.5)
        assert (turns[0].pasted, turns[0].first_key_seconds, turns[1].pasted) == (False, 0.5, None)


def test_other_turns_are_refused(page: SearchPage) -> None:
    page.list()
    for changes, status in (
        ({"opinion": None}, 422),
        ({"assignment": "altered"}, 403),
        ({"submit_key": "short"}, 422),
        ({"typed": page.turn(" ")["typed"]}, 422),
        ({"typed": page.turn("a" * 401)["typed"]}, 422),
        ({"typed": page.turn("is red")["typed"] | {"last_key_seconds": -1.0}}, 422),
    ):
        page.post("/search/turn", page.turn("is red", **changes), status)
    opinion = page.opinion() or {}
    for wrong in ({"satisfaction": 6}, {"satisfaction": 0}, {"nearest": at(4)}, {"nearest": at(0)}):
        page.post("/search/turn", page.turn("is red", opinion=opinion | wrong), 422)
    assert page.current() == page.view


def test_a_search_that_was_set_back_says_so(page: SearchPage, catalogue: Catalogue) -> None:
    page.list()
    page.ask("is red")
    turn = page.turn("is blue")
    with catalogue.database.writing() as session:
        last = session.scalars(select(SearchTurn).order_by(SearchTurn.id.desc())).first()
        assert last is not None
        session.execute(delete(SearchList).where(SearchList.turn_id == last.id))
        session.delete(last)
        first = select(SearchTurn.id).order_by(SearchTurn.id.desc()).limit(1).scalar_subquery()
        session.execute(delete(SearchFeedback).where(SearchFeedback.turn_id == first))
    assert page.post("/search/turn", turn, 403)["set_back"]
    assert len(page.current()["turns"]) == 1


def test_server_decides_whether_target_was_found(page: SearchPage, catalogue: Catalogue) -> None:
    page.list()
    place = page.view["turns"][0]["lists"][0].index(page.view["target"]) + 1
    view = page.stop(place)
    assert (view["ending"], view["declared"]) == ("declared", at(place))
    assert page.current() == view
    page.post("/submit", page.judgement(why="enough"), 422)  # nothing to explain
    page.post("/search/turn", page.turn("is red", opinion=None), 403)  # no search any more
    following = page.judge()
    assert (following["number"], following["answered"]) == (2, 1)
    page.list()
    page.post("/submit", page.judgement() | {"assignment": view["assignment"]}, 409)
    page.ask("is red")
    page.ask("is blue")
    assert len(page.view["turns"]) == page.view["rounds"] == 3
    page.post("/search/turn", page.turn("is green"), 422)
    assert page.stop()["ending"] == "max-rounds"
    assert page.judge()["step"] == "done"
    with catalogue.database.reading() as session:
        endings = session.execute(
            select(SearchEnding.reason).order_by(SearchEnding.question_id.desc()).limit(2)
        ).scalars()
        assert sorted(endings) == ["declared", "max-rounds"]


def test_a_retriever_that_is_down_loses_no_text(
    page: SearchPage, retriever: DrawnRetriever
) -> None:
    retriever.stop()
    try:
        assert page.list()["is_unavailable"]
        assert page.stop()["ending"] == "stopped"
    finally:
        retriever.start()
    page.post("/submit", page.judgement(), 422)  # why is missing
    assert page.judge(why="technical")["number"] == 2
    page.list()
    retriever.stop()
    try:
        view = page.ask("is red")
        assert view["is_unavailable"]
        assert (view["turns"][1]["text"], view["turns"][1]["lists"]) == ("is red", None)
    finally:
        retriever.start()
    assert page.list()["turns"][1]["lists"] is not None
    assert not page.view["is_unavailable"]


def test_nothing_sent_names_system_image_or_a_rank(page: SearchPage, catalogue: Catalogue) -> None:
    texts = [json.dumps(page.view), json.dumps(page.list()), json.dumps(page.ask("is red"))]
    names = [*image_names(catalogue), "telltale"]
    assert not [name for text in texts for name in names if name in text]
    assert set(page.view) == {
        "step", "number", "total", "answered", "back", "text_version", "language", "messages",
        "minutes_left", "standing_at", "task", "chooser", "rounds", "start", "target",
        "target_seconds", "may_upload", "is_own_picture", "turns", "awaits_list", "is_unavailable",
        "ending", "declared", "earlier", "assignment", "draft",
    }  # fmt: skip
    assert set(page.view["turns"][0]) == {
        "number", "text", "is_given", "reference", "lists", "satisfaction", "vote", "nearest"
    }  # fmt: skip


def test_own_wish_begins_with_the_participants_text(
    catalogue: Catalogue, retriever: DrawnRetriever
) -> None:
    with searching(catalogue, retriever, "own-wish", "own-wish") as page:
        assert (page.view["awaits_list"], page.view["target"]) == (False, None)
        view = page.ask("is red")
        assert view["turns"][0]["reference"] == view["start"]
    with catalogue.database.reading() as session:
        stored = session.scalars(select(SearchList).order_by(SearchList.turn_id.desc())).first()
        assert stored is not None
        assert stored.rank is None


def test_a_remembered_target_is_shown_once(catalogue: Catalogue, retriever: DrawnRetriever) -> None:
    seconds = "target_seconds = 5"
    with searching(catalogue, retriever, "remembered", "target-remembered", seconds) as page:
        assert page.view["target"] is not None
        assert 0 < page.view["target_seconds"] <= 5
        with catalogue.database.writing() as session:
            served = select(Question).where(Question.served_at.is_not(None))
            question = session.scalars(served.order_by(Question.id.desc())).first()
            assert question is not None
            assert question.served_at is not None
            question.served_at = question.served_at.replace(year=2020)
        view = page.current()
        assert (view["target"], view["target_seconds"]) == (None, 0.0)


def test_a_broken_image_that_a_retriever_may_list_is_refused(
    catalogue: Catalogue, retriever: DrawnRetriever
) -> None:
    """The study shows it only if it is found, so no question names it."""
    queries = SEARCHES.format(task="own-wish", url=retriever.url, more="")
    path = catalogue.folder / "broken.toml"
    path.write_text(STUDY.format(name="broken", kind="search", design="", queries=queries, k=3))
    image = max((catalogue.folder / IMAGE_FOLDER).rglob("*.*"))  # a shirt, not a dress
    whole = image.read_bytes()
    try:
        image.write_bytes(whole[:-40])
        refused = hsfiq("study", "create", path, "--database", catalogue.place.url)
    finally:
        image.write_bytes(whole)
    assert refused.code == 2
    assert f"{image}: cannot be decoded" in refused.err
