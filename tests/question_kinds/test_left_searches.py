"""Searches that participants leave, or go on with after a long pause, in a release."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import select

from hsfiq.actors import Role, User
from hsfiq.annotate.handlers import Services
from hsfiq.annotate.owner.dashboard import Dashboard
from hsfiq.annotate.owner.login import Identities
from hsfiq.collect.retrievers import TURN_TIMEOUT
from hsfiq.db.search_tables import SearchFeedback, SearchList, SearchTurn
from hsfiq.kinds.search import RECORDS_FILE
from hsfiq.kinds.search_rows import LATE
from hsfiq.sessions.record import read
from tests.drawn_retriever import DrawnRetriever
from tests.hsfiq.samples import hsfiq, rows
from tests.question_kinds.drawn_catalogue import Catalogue
from tests.question_kinds.search_pages import SearchPage, create_search, image_names


@pytest.fixture
def retriever(catalogue: Catalogue) -> Iterator[DrawnRetriever]:
    made = DrawnRetriever(image_names(catalogue))
    yield made
    made.stop()


def test_a_search_that_is_left_is_in_the_release(
    catalogue: Catalogue, retriever: DrawnRetriever, tmp_path: Path
) -> None:
    study = create_search(catalogue, retriever, "left")
    with closing(SearchPage(catalogue, study)) as page:
        page.list()
        page.ask("is red")
        page.stop()
        page.judge(why="gave-up")
        page.list()
        page.ask("is blue")
    arguments = ("export", "--study", study, "--release", "search")
    first = catalogue.release(study, "search")
    assert [row["stop"] for row in rows(first, "sessions")] == ["gave-up"]
    assert [row["rule"] for row in rows(first, "exclusions")] == ["unanswered"]
    move_back(catalogue)
    # Nobody else has gone on, so the lease counts from the last turn of this search, until the
    # study is closed.
    assert len(rows(catalogue.release(study, "search"), "sessions")) == 1
    catalogue.hsfiq("study", "close", "--study", study)
    folder = tmp_path / "release"
    catalogue.hsfiq(*arguments, "--out", folder)
    release = catalogue.release(study, "search")
    answered, left = rows(release, "sessions")
    assert (answered["stop"], answered["abandoned"], answered["resumed"]) == (
        "gave-up",
        False,
        False,
    )
    assert (left["stop"], left["abandoned"], left["success"], left["turns"]) == (
        "idle",
        True,
        None,
        2,
    )
    assert (left["resumed"], left["late_lists"]) == (True, 1)
    # The page of a search has no flag, whether it was finished or left.
    assert (answered["irrelevant"], left["irrelevant"]) == (None, None)
    assert left["longest_pause_seconds"] == pytest.approx(3600 - 2.5, abs=5)
    assert rows(release, "exclusions") == []
    turns = [turn for turn in rows(release, "turns") if turn["question_id"] == left["question_id"]]
    assert [turn["pause_seconds"] for turn in turns] == [left["longest_pause_seconds"], None]
    stops = [record.stop for record in read(folder / RECORDS_FILE)]
    assert [stop and stop.reason for stop in stops] == ["gave-up", "idle"]
    analysed = hsfiq("analyze", folder, "--resamples", "20", "--json")
    assert analysed.code == 0, analysed.err
    result = json.loads(analysed.out)
    outcomes = result["outcomes"]["rows"]["telltale-system"]
    with catalogue.database.reading() as session:
        services = Services.of(catalogue.database)
        plots = Dashboard(
            Identities(services.database, services.signer), services.images
        ).study_outputs(session, study, User("owner", Role.OWNER, 1))[2]
    assert "telltale-system; 95 % within" in plots
    assert "4 lists, 1 late, 0 missing" in plots
    assert (outcomes["left unfinished"]["value"], outcomes["resumed"]["value"]) == (0.5, 0.5)
    assert result["ratings"]["rows"]["telltale-system"]["ease"]["n"] == 1
    assert set(result["stops"]["rows"]) == {"gave-up", "idle"}


def move_back(catalogue: Catalogue) -> None:
    """The last search began an hour earlier, and the list of its last turn came late."""
    with catalogue.database.writing() as session:
        last, first = session.scalars(
            select(SearchTurn).order_by(SearchTurn.id.desc()).limit(2)
        ).all()
        lists = {
            each.turn_id: each
            for each in session.scalars(
                select(SearchList).where(SearchList.turn_id.in_([first.id, last.id]))
            )
        }
        first.asked_at -= timedelta(hours=1)
        lists[first.id].listed_at -= timedelta(hours=1)
        lists[last.id].listed_at += timedelta(seconds=LATE + 1)
        assert session.get_one(SearchFeedback, first.id).active_seconds == 2.5


def test_the_page_tells_participants_when_a_list_is_late() -> None:
    assert LATE == TURN_TIMEOUT
