"""An arena of three systems end to end: simulated participants over HTTP, and its release."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from hsfiq.actors import Role, User
from hsfiq.annotate.handlers import Services
from hsfiq.annotate.owner.dashboard import Dashboard
from hsfiq.annotate.owner.login import Identities
from hsfiq.collect.searches import read_votes
from hsfiq.collect.studies import find_study
from tests.drawn_retriever import VERSION, DrawnRetriever
from tests.hsfiq.samples import hsfiq, rows
from tests.question_kinds.drawn_catalogue import Catalogue
from tests.question_kinds.search_pages import arena_queries, image_names

NOISES = (0.0, 0.3, 3.0)
SEARCHES_OF_ALL = 4


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
        row = find_study(session, study)
        assert row is not None
        live = read_votes(session, row)
        services = Services.of(catalogue.database)
        dashboard = Dashboard(Identities(services.database, services.signer), services.images)
        shown = str(dashboard.study_outputs(session, study, User("owner", Role.OWNER, 1)))
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
    analysed = hsfiq("analyze", folder, "--resamples", "20", "--json")
    assert analysed.code == 0, analysed.err
    assert "simulated" in (folder / "README.md").read_text(encoding="utf-8")
    strike(catalogue, study, turns[0], folder)


def strike(catalogue: Catalogue, study: str, turn: Mapping[str, Any], folder: Path) -> None:
    """A struck text is in no file of a release; its vote stays."""
    assert turn["text"] in (folder / "turns.jsonl").read_text(encoding="utf-8")
    catalogue.hsfiq("study", "strike", turn["question_id"], str(turn["turn"]), "--study", study)
    release = catalogue.release(study, "arena")
    first = rows(release, "turns")[0]
    assert (first["text"], first["struck"]) == (None, True)
    assert [row["rule"] for row in rows(release, "exclusions")] == ["struck-text"]
    assert rows(release, "votes")[0]["question_id"] == turn["question_id"]
    assert json.loads(release.files["manifest.json"])["simulated"]
