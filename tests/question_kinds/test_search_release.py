"""Searches of simulated participants over HTTP, their release, and their measures."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from hsfiq.kinds.search import RECORDS_FILE
from hsfiq.sessions.record import read
from tests.drawn_retriever import VERSION, DrawnRetriever
from tests.hsfiq.samples import hsfiq, rows
from tests.question_kinds.drawn_catalogue import Catalogue
from tests.question_kinds.search_pages import SEARCHES, image_names

SEARCHES_OF_ALL = 4


@pytest.fixture(scope="module")
def retriever(catalogue: Catalogue) -> Iterator[DrawnRetriever]:
    made = DrawnRetriever(image_names(catalogue))
    yield made
    made.stop()


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
    analysed = hsfiq(
        *("analyze", folder, "--metric", "recall@1", "--resamples", "50", "--json"),
        *("--report", report),
    )
    assert analysed.code == 0, analysed.err
    result = analysed.result
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
    assert [each["n_sessions"] for each in both["systems"].values()] == [
        SEARCHES_OF_ALL,
        len(queries_of(folder)),
    ]


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
    assert "wishes of the participants' own" in refused.err
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
