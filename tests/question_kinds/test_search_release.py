"""Searches and arenas of simulated and other participants: their releases, and their measures."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from hsfiq.collect.retrievers import TURN_TIMEOUT
from hsfiq.collect.searches import read_votes
from hsfiq.db.search_tables import SearchFeedback, SearchList, SearchTurn
from hsfiq.kinds.search import RECORDS_FILE
from hsfiq.kinds.search_rows import LATE
from hsfiq.sessions.record import read
from tests.annotate.studio.shown_figures import figures_in
from tests.drawn_retriever import VERSION, DrawnRetriever
from tests.hsfiq.samples import hsfiq, rows
from tests.question_kinds.drawn_catalogue import Catalogue
from tests.question_kinds.search_pages import (
    SEARCHES,
    SearchPage,
    arena_queries,
    create_search,
    image_names,
)

SEARCHES_OF_ALL = 4


@pytest.mark.parametrize("task", ["target-shown", "own-wish"])
def test_searches_become_a_release_that_is_measured(
    catalogue: Catalogue, retriever: DrawnRetriever, tmp_path: Path, task: str
) -> None:
    queries = SEARCHES.format(task=task, url=retriever.url, more="")
    study = catalogue.answered("search", name=f"release-{task}", queries=queries)
    release = catalogue.release(study, "search")
    sessions, turns = rows(release, "sessions"), rows(release, "turns")
    assert len(sessions) == SEARCHES_OF_ALL
    assert {row["system"] for row in sessions} == {"telltale-system"}
    assert {turn["system_version"] for turn in turns} == {VERSION}
    assert all(turn["rank"] is None for turn in turns) == (task == "own-wish")
    for row in sessions:
        own = [turn for turn in turns if turn["question_id"] == row["question_id"]]
        assert [turn["turn"] for turn in own] == list(range(1, row["turns"] + 1))
        assert own[0]["from_query"] == (task != "own-wish")
        assert row["satisfaction"] == own[-1]["satisfaction"]
        assert (row["stop"] == "found") == (task != "own-wish" and row["declared_id"] is not None)
        if row["stop"] == "found":
            assert row["final_rank"] <= len(own[-1]["image_ids"])
    folder = tmp_path / "release"
    if task == "own-wish":
        strike(catalogue, study, turns[0])
        catalogue.hsfiq("export", "--study", study, "--release", "search", "--out", folder)
        refuse_wishes(folder, retriever.url)
        return

    catalogue.hsfiq("export", "--study", study, "--release", "search", "--out", folder)
    records = read(folder / RECORDS_FILE)
    assert [record.session_id for record in records] == [row["question_id"] for row in sessions]
    assert {(record.task, record.is_simulated) for record in records} == {(task, True)}
    measured = hsfiq("sessions", "measure", folder / RECORDS_FILE, "--k", "1", "--json")
    assert measured.code == 0, measured.err
    hits = json.loads(measured.out)["systems"]["telltale-system"]["hits@1"]
    assert hits[0]["n"] == SEARCHES_OF_ALL
    at_once = [turn["rank"] == 1 for turn in turns if turn["turn"] == 1]
    assert hits[0]["value"] == pytest.approx(sum(at_once) / len(at_once))
    assert (folder / "croissant.json").is_file()
    compare_with_a_simulator(folder, retriever.url)
    report = tmp_path / "report"
    analyzed = hsfiq(
        *("analyze", folder, "--metric", "recall@1", "--resamples", "50", "--json"),
        *("--report", report),
    )
    assert analyzed.code == 0, analyzed.err
    result = analyzed.result
    assert result == json.loads((report / "results.json").read_text())
    assert (
        result["measures"]["systems"]["telltale-system"]["hits@1"][0]["value"] == hits[0]["value"]
    )
    satisfied = result["satisfaction"]["rows"]["1"]["telltale-system"]
    first = [turn["satisfaction"] for turn in turns if turn["turn"] == 1]
    assert satisfied["value"] == pytest.approx(sum(first) / len(first))
    assert catalogue.unplotted(study, result) == []
    assert "simulated annotators" in (report / "report.html").read_text()
    assert (report / "tables" / "nearest.csv").is_file()


def compare_with_a_simulator(folder: Path, url: str) -> None:
    simulated = play_on_the_same_queries(folder, url)
    compared = hsfiq("sessions", "measure", simulated, "--people", folder, "--json").result
    (comparison,) = compared["people"]["comparisons"]
    assert (comparison["system"], comparison["simulator"]) == ("telltale-system", "drawn-full")
    assert comparison["n_people_sessions"] == SEARCHES_OF_ALL
    assert comparison["n_simulator_sessions"] == comparison["n_queries"] == len(queries_of(folder))
    at_once = comparison["figures"]["hits@3"][0]
    assert at_once["difference"]["value"] == 0  # both begin with the query's text
    both = hsfiq(
        "sessions", "measure", folder / RECORDS_FILE, simulated, "--k", "3", "--json"
    ).result
    n_sessions = [each["n_sessions"] for each in both["systems"].values()]
    assert n_sessions == [SEARCHES_OF_ALL, len(queries_of(folder))]


def play_on_the_same_queries(release: Path, url: str) -> Path:
    out = release.with_name("simulated.jsonl")
    played = hsfiq(
        *("sessions", "play", "--system", url, "--data", "drawn", "--queries", release),
        *("--simulator", "drawn-full", "--k", "3", "--stop-at", "3", "--rounds", "3", "--out", out),
    )
    assert played.code == 0, played.err
    assert {each.query_id for each in read(out)} == queries_of(release)
    return out


def refuse_wishes(release: Path, url: str) -> None:
    """No simulator knows what people wished for."""
    out = release.with_name("wishes.jsonl")
    play = ("sessions", "play", "--system", url, "--data", "drawn", "--simulator", "drawn-full")
    refused = hsfiq(*play, "--queries", release, "--out", out)
    assert (refused.code, refused.out, out.exists()) == (2, "", False)
    assert "has searches without given targets" in refused.err
    measured = hsfiq("sessions", "measure", release / RECORDS_FILE, "--people", release)
    assert (measured.code, measured.out) == (2, "")
    assert "--people: holds no search of people for a target" in measured.err


def queries_of(release: Path) -> set[str]:
    lines = (release / "queries.jsonl").read_text().splitlines()
    return {json.loads(line)["query_id"] for line in lines}


def strike(catalogue: Catalogue, study: str, turn: Mapping[str, Any]) -> None:
    """A struck text is in no file of a release."""
    for was_struck in (False, True):
        done = catalogue.hsfiq("study", "strike", turn["question_id"], "1", "--study", study)
        assert done["was_struck"] == was_struck
    release = catalogue.release(study, "search")
    first = rows(release, "turns")[0]
    assert (first["text"], first["struck"], first["words"]) == (None, True, None)
    excluded = rows(release, "exclusions")
    assert [(row["rule"], row["value"]) for row in excluded] == [("struck-text", "turn 1")]
    assert [(row["rules"], row["values"]) for row in excluded] == [(["struck-text"], ["turn 1"])]
    record = json.loads(release.files[RECORDS_FILE].splitlines()[0])
    assert "text" not in record["rounds"][0]
    arguments = ("study", "strike", "p9.form_1.0", "1", "--study", study)
    unknown = hsfiq(*arguments, "--database", catalogue.place.url)
    assert (unknown.code, unknown.out) == (2, "")


NOISES = (0.0, 0.3, 3.0)


@pytest.fixture(scope="module")
def rivals(catalogue: Catalogue) -> Iterator[list[DrawnRetriever]]:
    made = [DrawnRetriever(image_names(catalogue), noise=noise) for noise in NOISES]
    yield made
    for retriever in made:
        retriever.stop()


def test_an_arena_becomes_votes(
    catalogue: Catalogue, rivals: list[DrawnRetriever], tmp_path: Path
) -> None:
    study = catalogue.answered("arena", queries=arena_queries(rivals))
    with catalogue.database.reading() as session:
        row = catalogue.study(session, study)
        live = read_votes(session, row)
        shown = figures_in(session, row, catalogue.database)
        assert "telltale-3" in shown  # as a retriever
        assert "counts for both systems" in shown
    release = catalogue.release(study, "arena")
    sessions, turns, votes = (rows(release, name) for name in ("sessions", "turns", "votes"))
    assert len(sessions) == SEARCHES_OF_ALL
    met = Counter(frozenset((row["system_1"], row["system_2"])) for row in sessions)
    assert sorted(met.values()) == [1, 1, 2]
    assert {turn["system_version_1"] for turn in turns} == {VERSION}
    own = {(row["question_id"], row["turn"]): row for row in turns}
    assert len(own) == len(turns) == sum(row["turns"] for row in sessions)

    names = ("question_id", "turn", "participant_id", "query_id", "triplet_id", "system_1",
             "system_2", "preference", "both_bad")  # fmt: skip
    assert [{name: vote[name] for name in names} for vote in votes] == [
        {name: asdict(vote)[name] for name in names} for vote in live
    ]
    for vote in votes:
        turn = own[vote["question_id"], vote["turn"]]
        lists = [turn["image_ids_1"], turn["image_ids_2"]]
        assert [len(images) for images in lists] == [3, 3]
        assert vote["common_images"] == len(set(lists[0]) & set(lists[1]))
        assert (turn["preference"], turn["both_bad"]) == (vote["preference"], vote["both_bad"])
        assert not (vote["both_bad"] and vote["preference"])
        if turn["nearest_id"] is not None:
            assert turn["nearest_id"] == lists[turn["nearest_list"] - 1][turn["nearest_place"] - 1]
    for row in sessions:
        last = own[row["question_id"], row["turns"]]
        if row["declared_id"] is not None:
            assert row["stop"] == "found-other"
            assert row["declared_id"] in last[f"image_ids_{row['declared_list']}"]

    folder = tmp_path / "release"
    catalogue.hsfiq("export", "--study", study, "--release", "arena", "--out", folder)
    analyzed = hsfiq("analyze", folder, "--resamples", "20", "--json")
    assert analyzed.code == 0, analyzed.err
    assert "simulated" in (folder / "README.md").read_text(encoding="utf-8")
    strike_vote(catalogue, study, turns[0], folder)


def strike_vote(catalogue: Catalogue, study: str, turn: Mapping[str, Any], folder: Path) -> None:
    """A struck text is in no file of a release; its vote stays."""
    assert turn["text"] in (folder / "turns.jsonl").read_text(encoding="utf-8")
    catalogue.hsfiq("study", "strike", turn["question_id"], str(turn["turn"]), "--study", study)
    release = catalogue.release(study, "arena")
    first = rows(release, "turns")[0]
    assert (first["text"], first["struck"]) == (None, True)
    assert [row["rule"] for row in rows(release, "exclusions")] == ["struck-text"]
    assert rows(release, "votes")[0]["question_id"] == turn["question_id"]
    assert json.loads(release.files["manifest.json"])["simulated"]


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
    catalogue.close(study)
    folder = tmp_path / "release"
    catalogue.hsfiq(*arguments, "--out", folder)
    release = catalogue.release(study, "search")
    answered, left = rows(release, "sessions")
    ended = [(row["stop"], row["abandoned"], row["resumed"]) for row in (answered, left)]
    assert ended == [("gave-up", False, False), ("idle", True, True)]
    assert (left["success"], left["turns"], left["late_lists"]) == (None, 2, 1)
    # The page of a search has no flag, whether it was finished or left.
    assert (answered["irrelevant"], left["irrelevant"]) == (None, None)
    assert left["longest_pause_seconds"] == pytest.approx(3600 - 2.5, abs=5)
    assert rows(release, "exclusions") == []
    turns = [turn for turn in rows(release, "turns") if turn["question_id"] == left["question_id"]]
    assert [turn["pause_seconds"] for turn in turns] == [left["longest_pause_seconds"], None]
    stops = [record.stop for record in read(folder / RECORDS_FILE)]
    assert [stop and stop.reason for stop in stops] == ["gave-up", "idle"]
    analyzed = hsfiq("analyze", folder, "--resamples", "20", "--json")
    assert analyzed.code == 0, analyzed.err
    result = json.loads(analyzed.out)
    outcomes = result["outcomes"]["rows"]["telltale-system"]
    plots = catalogue.plots(study)
    assert "telltale-system; " in plots
    assert "95 % within" in plots
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
