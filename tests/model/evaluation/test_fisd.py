"""FISD's figures: by hand, from a run, from a checkpoint, and beside the published table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hsfiq.cli import run
from hsfiq.drawn.fisd import write_drawn_fisd
from hsfiq.model.evaluation.benchmarks import Query
from hsfiq.model.evaluation.fisd import published_table, query_values
from hsfiq.readers.datasets import ASPECTS
from tests.model.scorer.helpers import Drawn

QUERY = Query("negation.t", "r", "has no dog", "t", hard_negatives=("n", "m"))


def values_of(*ranked: str, size: int = 6) -> dict[str, float | None]:
    return query_values(QUERY, ranked, size)


def test_the_values_of_a_complete_list() -> None:
    values = values_of("r", "n", "t", "a", "m", "b")
    assert values == {
        "with_reference.recall@1": 0,
        "with_reference.recall@5": 1,
        "with_reference.recall@10": 1,
        "with_reference.mrr": 1 / 3,
        "with_reference.hard_negative_above_target": 0.5,
        "with_reference.reference_first": 1,
        "without_reference.recall@1": 0,
        "without_reference.recall@5": 1,
        "without_reference.recall@10": 1,
        "without_reference.mrr": 1 / 2,
        "without_reference.hard_negative_above_target": 0.5,
    }
    assert values_of("r", "t", "n", "a", "m", "b")["without_reference.recall@1"] == 1


def test_a_list_that_is_cut_gives_only_what_it_determines() -> None:
    values = values_of("r", "n", "a", "b", "c", size=600)
    assert values["with_reference.recall@5"] == 0
    assert values["without_reference.recall@5"] is None  # the fifth place is not in the list
    assert values["with_reference.recall@10"] is None
    assert values["with_reference.mrr"] is None
    assert values["with_reference.hard_negative_above_target"] is None  # where m is, is not known
    assert query_values(QUERY, ("n", "m"), 600)["with_reference.hard_negative_above_target"] == 1
    assert query_values(QUERY, ("t",), 600)["with_reference.hard_negative_above_target"] == 0


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fisd") / "drawn"
    write_drawn_fisd(folder, seed=3, n=4)
    return folder


def triplets_of(folder: Path) -> dict[str, list[dict[str, str]]]:
    return {
        aspect: [json.loads(line) for line in (folder / f"{aspect}.jsonl").read_text().splitlines()]
        for aspect in ASPECTS
    }


def figures(capsys: pytest.CaptureFixture[str], *words: str | Path) -> dict[str, Any]:
    capsys.readouterr()
    assert run(["evaluate", "fisd", *map(str, words), "--json"]) == 0
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    return result


def test_a_run_in_which_one_aspect_returns_the_reference(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """All targets come first, but in negation the reference does, and the hard negative next."""
    lines = []
    for aspect, triplets in triplets_of(folder).items():
        images = [t[role] for t in triplets for role in ("reference", "target", "hard_negative")]
        for each in triplets:
            roles = ["target", "reference", "hard_negative"]
            if aspect == "negation":
                roles = ["reference", "hard_negative", "target"]
            first = [each[role] for role in roles]
            ranked = [*first, *(image for image in images if image not in first)]
            lines.append(json.dumps({"query_id": f"{aspect}.{each['id']}", "images": ranked}))
    path = tmp_path / "run.jsonl"
    path.write_text("\n".join(lines))

    result = figures(capsys, "--data", folder, "--run", path)
    assert result["drawn"]
    assert "published" not in result
    negation = result["figures"]["negation"]
    assert negation["with_reference"]["recall@1"]["value"] == 0
    assert negation["with_reference"]["reference_first"]["value"] == 1
    assert negation["without_reference"]["mrr"]["value"] == 1 / 2
    assert negation["without_reference"]["hard_negative_above_target"]["value"] == 1
    low, high = negation["with_reference"]["recall@1"]["ci"]
    assert (low, round(high, 4)) == (0, 0.6024)  # 1 - 0.025 ** (1 / 4)
    mean = result["figures"]["mean"]["with_reference"]["recall@1"]
    assert (round(mean["value"], 6), mean["n"]) == (round(5 / 6, 6), 24)

    assert run(["evaluate", "fisd", "--data", str(folder), "--run", str(path)]) == 0
    text = capsys.readouterr().out
    assert "FISD's aspects on drawn garments" in text
    assert "0.0 [0.0, 60.2]" in text


def test_a_checkpoint_gives_the_figures_of_its_lists(
    folder: Path,
    clip4cir: Path,
    drawn: Drawn,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    one_thread: None,
) -> None:
    lists = tmp_path / "lists.jsonl"
    options = ("--checkpoint", clip4cir, "--cache", drawn.cache, "--out", lists)
    of_scorer = figures(capsys, "--data", folder, *options)
    of_lists = figures(capsys, "--data", folder, "--run", lists)
    assert of_scorer["figures"] == of_lists["figures"]
    assert len(lists.read_text().splitlines()) == 24
    written = tmp_path / "retrieved.jsonl"
    words = ["retrieve", "--checkpoint", clip4cir, "--cache", drawn.cache]
    words += ["--data", folder, "--dataset", "fisd", "--k", 600, "--out", written]
    assert run([str(word) for word in words]) == 0
    assert written.read_bytes() == lists.read_bytes()


def test_table_1_stands_beside_the_published_sizes_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = []
    for aspect in ASPECTS:
        rows = [
            {"id": str(i), "reference": f"r{i}", "target": f"t{i}", "hard_negative": f"n{i}"}
            for i in range(200)
        ]
        rows = [row | {"caption": "as it says"} for row in rows]
        (tmp_path / f"{aspect}.json").write_text(json.dumps(rows))
        for row in rows:
            ranked = [row["target"], row["reference"], row["hard_negative"]]
            lines.append(json.dumps({"query_id": f"{aspect}.{row['id']}", "images": ranked}))
    path = tmp_path / "run.jsonl"
    path.write_text("\n".join(lines))
    result = figures(capsys, "--data", tmp_path, "--run", path)
    assert result["published"]["recall@1"]["SPRC"]["negation"] == 0.095
    assert any("not published" in note for note in result["notes"])
    assert result["figures"]["change"]["with_reference"]["recall@10"]["value"] == 1


def test_the_means_of_table_1_are_those_of_its_aspects() -> None:
    for row in published_table().values():
        mean = sum(row[aspect] for aspect in ASPECTS) / len(ASPECTS)
        assert abs(mean - row["mean"]) < 0.00006


def test_runs_exclude_checkpoints(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for options in ((), ("--run", "a.jsonl", "--checkpoint", "run")):
        assert run(["evaluate", "fisd", "--data", str(folder), *options]) == 2
        assert capsys.readouterr().err.count("\n") == 1
