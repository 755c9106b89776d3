"""`single`, from a study's file to a report, over HTTP with simulated annotators."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hsfiq.errors import Refused
from hsfiq.kinds import KINDS, Rules
from tests.hsfiq.samples import hsfiq, rows
from tests.question_kinds.drawn_catalogue import FOUR_DRESSES, Catalogue

QUESTIONS, ANSWERS = 4, 8


def test_a_study_of_single_sets_becomes_a_report(catalogue: Catalogue, tmp_path: Path) -> None:
    study = catalogue.answered("single")
    progress = catalogue.hsfiq("study", "status", "--study", study)
    assert (progress["questions"], progress["answered"]) == (ANSWERS, ANSWERS)
    assert progress["images_painted"] == ANSWERS

    folder = tmp_path / "release"
    exported = catalogue.hsfiq(
        "export", "--study", study, "--release", "single", "--split", "triplet", "--out", folder
    )
    assert exported["releases"][0]["kept"] == ANSWERS
    release = catalogue.release(study, "single")
    scores, sets = rows(release, "scores"), rows(release, "sets")
    assert len(scores) == len(sets) == ANSWERS
    assert len({row["item_id"] for row in scores}) == QUESTIONS
    assert {row["score"] for row in scores} <= set(range(1, 6))
    assert [row["score"] for row in sets] == [row["score"] for row in scores]
    assert [row["set_id"] for row in scores] == [f"{row['question_id']}.1" for row in scores]
    assert {len(row["image_ids"]) for row in sets} == {3}

    report = tmp_path / "report"
    command = hsfiq(
        *("analyze", folder, "--metric", "recall@3", "--resamples", "50"),
        *("--report", report, "--json"),
    )
    assert command.code == 0, command.err
    result = json.loads((report / "results.json").read_text())
    assert catalogue.unplotted(study, result) == []
    assert result == command.result
    overall = result["mean_scores"]["rows"]["all"]["mean score"]
    assert overall["value"] == pytest.approx(sum(row["score"] for row in scores) / ANSWERS)
    assert (overall["n"], overall["ci_method"]["n_clusters"]) == (ANSWERS, 2)
    assert result["agreement"]["rows"]["scores"]["alpha"]["n"] == ANSWERS
    assert result["correlation"]["rows"]["recall@3"]["rho"]["n"] == ANSWERS
    assert "simulated annotators" in (report / "report.html").read_text()
    assert (report / "tables" / "mean_scores.csv").is_file()

    text = hsfiq("analyze", folder, "--resamples", "50", "--part", "test").out
    assert "part test" in text
    assert "Mean score by system" in text


def test_one_system_is_enough(catalogue: Catalogue) -> None:
    catalogue.create("single", name="one-system", queries=FOUR_DRESSES + 'systems = ["sharp"]')
    status = catalogue.hsfiq("study", "status", "--study", "one-system")
    assert status["questions"] == ANSWERS
    catalogue.hsfiq("study", "close", "--study", "one-system")


@pytest.mark.parametrize(
    "given",
    [{}, {"score": 0}, {"score": 6}, {"score": 3.0}, {"score": True}, {"score": 3, "more": 1}],
)
def test_other_judgements_are_refused(given: dict[str, object]) -> None:
    rules = Rules(points=5, k=3, n_sets=1, ties=False)
    read = KINDS["single"].read
    assert read is not None
    assert read({"score": 5}, rules) == {"score": 5}
    with pytest.raises(Refused):
        read(given, rules)
