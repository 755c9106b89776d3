"""`query`, from a study's file to a report, over HTTP with simulated annotators."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hsfiq.errors import Refused
from hsfiq.kinds import KINDS, Rules
from hsfiq.kinds.query import VERDICTS
from tests.hsfiq.samples import hsfiq, rows
from tests.question_kinds.drawn_catalogue import Catalogue

ANSWERS = 8


@pytest.mark.parametrize("shows_target", [True, False])
def test_a_study_of_queries_becomes_a_report(
    catalogue: Catalogue, tmp_path: Path, *, shows_target: bool
) -> None:
    name = f"query-{shows_target}".lower()
    design = f"show_target = {str(shows_target).lower()}\n"
    study = catalogue.answered("query", name=name, design=design)
    progress = catalogue.hsfiq("study", "status", "--study", study)
    assert (progress["answered"], progress["images_painted"]) == (ANSWERS, ANSWERS)

    folder = tmp_path / "release"
    catalogue.hsfiq("export", "--study", study, "--release", "query", "--out", folder)
    ratings = rows(catalogue.release(study, "query"), "query_ratings")
    assert len(ratings) == ANSWERS
    given = [row["verdict"] for row in ratings]
    assert set(given) <= set(VERDICTS)
    assert not (folder / "sets.parquet").exists()

    report = tmp_path / "report"
    command = hsfiq("analyze", folder, "--resamples", "50", "--report", report, "--json")
    assert command.code == 0, command.err
    result = json.loads((report / "results.json").read_text())
    assert catalogue.unplotted(study, result) == []
    share = result["verdicts"]["rows"]["VALIDATED"]["share"]
    assert (share["value"], share["n"]) == (given.count("VALIDATED") / ANSWERS, ANSWERS)
    assert set(result["well_formed"]["rows"]) == {"by more than half", "by everybody"}
    alpha = result["agreement"]["rows"]["verdicts"]["alpha"]
    assert alpha["value"] is not None or alpha["reason"]
    card = (folder / "README.md").read_text()
    assert "sets" not in card.partition("## What was dropped")[0]

    refused = hsfiq("analyze", folder, "--metric", "recall@1")
    assert refused.code == 2
    assert refused.err == (
        "hsfiq: --metric: people gave no scores of sets in releases of kind query; leave it out\n"
    )


@pytest.mark.parametrize("verdict", [None, "GOOD", 1, ["VALIDATED"]])
def test_other_judgements_are_refused(verdict: object) -> None:
    read = KINDS["query"].read
    assert read is not None
    with_target = Rules(points=5, k=1, n_sets=1, ties=False)
    without = Rules(points=5, k=1, n_sets=0, ties=False)
    given = {"verdict": "INVALID_TARGET_IMAGE"}
    assert read(given, with_target) == given
    with pytest.raises(Refused, match="target"):
        read(given, without)
    with pytest.raises(Refused):
        read({"verdict": verdict}, with_target)
