"""`images`, from a study's file to a report, over HTTP with simulated annotators."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median_low

import pytest

from hsfiq.errors import Refused
from hsfiq.kinds import KINDS, Rules
from tests.hsfiq.samples import hsfiq, rows
from tests.question_kinds.drawn_catalogue import Catalogue

ANSWERS, K = 8, 3


def test_a_study_of_images_becomes_a_report(catalogue: Catalogue, tmp_path: Path) -> None:
    design = 'levels = 4\nimage_order = "shuffled"\n'
    study = catalogue.answered("images", design=design)
    assert catalogue.hsfiq("study", "status", "--study", study)["answered"] == ANSWERS

    folder = tmp_path / "release"
    catalogue.hsfiq("export", "--study", study, "--release", "images", "--out", folder)
    release = catalogue.release(study, "images")
    images = rows(release, "relevance")
    assert len(images) == ANSWERS * K
    assert {row["relevance"] for row in images} <= set(range(4))
    assert [row["rank"] for row in images] == [1, 2, 3] * ANSWERS
    members = {row["set_id"]: row["image_ids"] for row in rows(release, "sets")}
    assert all(members[row["set_id"]][row["rank"] - 1] == row["image_id"] for row in images)

    given: dict[tuple[str, str], list[int]] = {}
    for row in images:
        given.setdefault((row["query_id"], row["image_id"]), []).append(row["relevance"])
    lines = [line.split() for line in (folder / "qrels.txt").read_text().splitlines()]
    assert {(query, image): int(level) for query, _, image, level in lines} == {
        key: median_low(levels) for key, levels in given.items()
    }

    report = tmp_path / "report"
    command = hsfiq("analyze", folder, "--resamples", "50", "--report", report, "--json")
    assert command.code == 0, command.err
    result = json.loads((report / "results.json").read_text())
    assert catalogue.unplotted(study, result) == []
    share = result["share_that_fits"]["rows"]["all"]["share"]
    assert share["value"] == pytest.approx(sum(row["relevance"] > 0 for row in images) / 24)
    for figures in result["retrieval_quality"]["rows"].values():
        assert set(figures) == {"P@3", "nDCG@3"}
        assert 0 <= figures["nDCG@3"]["value"] <= 1
    assert result["agreement"]["rows"]["images"]["alpha"]["n"] == ANSWERS * K
    assert "labelled targets that fit" in result["false_negatives"]["rows"]


@pytest.mark.parametrize("levels", [None, [0, 1], [0, 1, 4], [0, 1, -1], [0, 1, True]])
def test_other_judgements_are_refused(levels: object) -> None:
    rules = Rules(points=5, k=3, n_sets=1, ties=False, levels=4)
    read = KINDS["images"].read
    assert read is not None
    assert read({"relevance": [0, 3, 1]}, rules) == {"relevance": [0, 3, 1]}
    with pytest.raises(Refused):
        read({"relevance": levels}, rules)
