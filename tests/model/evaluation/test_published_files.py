"""The published benchmarks with random lists, compared with figures computed by numpy."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hsfiq.model.evaluation import benchmarks
from tests.model.evaluation.helpers import evaluate, put, refusal, result

pytestmark = pytest.mark.shared

Lists = dict[str, list[str]]

SIZES = {"dress": (2017, 3817, 2628), "shirt": (2038, 6346, 3089), "toptee": (1961, 5373, 2902)}
"""Triplets, images of the split, images of the union."""


def load(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def recall(lists: Sequence[Sequence[str]], targets: Sequence[str], k: int) -> float:
    """The share of rows with the target in their first k columns."""
    hits = np.array([[image == target for image in row[:k]] for row, target in zip(lists, targets)])  # noqa: B905
    return float(hits.any(axis=1).mean())


def drawn(rng: random.Random, targets: Mapping[str, str], images: Sequence[str], n: int) -> Lists:
    """Random lists of n images; two thirds have the target among the first 80."""
    lists = {}
    for query, target in targets.items():
        ranked = rng.sample(images, n)
        if rng.random() < 2 / 3:
            ranked = [image for image in ranked if image != target]
            ranked.insert(rng.randrange(min(80, n)), target)
        lists[query] = ranked[:n]
    return lists


def fashioniq(shared: Path, category: str) -> tuple[dict[str, str], list[str]]:
    """Targets by query, and the split's images."""
    folder = shared / "data" / "fashioniq"
    images = load(folder / "image_splits" / f"split.{category}.val.json")
    captions = load(folder / "captions" / f"cap.{category}.val.json")
    return {f"{category}.val.{i}": each["target"] for i, each in enumerate(captions)}, images


def test_fashioniq_over_the_split(shared: Path, tmp_path: Path) -> None:
    rng = random.Random(7)
    lists: dict[str, Lists] = {}
    targets = {}
    for category in SIZES:
        targets[category], images = fashioniq(shared, category)
        lists[category] = drawn(rng, targets[category], images, 60)
    run = put(tmp_path / "run.json", {k: v for part in lists.values() for k, v in part.items()})
    figures = result("fashioniq", shared / "data" / "fashioniq", run)
    for k in (1, 5, 10, 50):
        expected = {
            category: recall(list(lists[category].values()), list(targets[category].values()), k)
            for category in SIZES
        }
        for category, value in expected.items():
            assert figures["categories"][category][f"recall@{k}"] == pytest.approx(value, abs=1e-12)
        assert figures[f"recall@{k}"] == pytest.approx(np.mean(list(expected.values())), abs=1e-12)
    assert 0.3 < figures["recall@50"] < 0.7
    assert figures["mean"] == pytest.approx((figures["recall@10"] + figures["recall@50"]) / 2)
    assert figures["corpus"] == {"name": "split", "size": 15536}
    assert figures["n_queries"] == 6016
    for category, (n, size, _) in SIZES.items():
        part = figures["categories"][category]
        assert (part["n_queries"], part["corpus"]) == (n, {"name": "split", "size": size})
    assert figures["notes"] == []


def test_the_unions_of_fashioniq(shared: Path) -> None:
    benchmark = benchmarks.fashioniq(shared / "data" / "fashioniq", corpus="union")
    assert {part.name: len(part.corpus.images or ()) for part in benchmark.parts} == {
        category: union for category, (_, _, union) in SIZES.items()
    }
    assert benchmarks.comparability_notes(benchmark) == []


def test_cirr(shared: Path, tmp_path: Path) -> None:
    data = shared / "data" / "cirr"
    captions = load(data / "captions" / "cap.rc2.val.json")
    images = list(load(data / "image_splits" / "split.rc2.val.json"))
    rng = random.Random(9)
    targets = {str(caption["pairid"]): caption["target_hard"] for caption in captions}
    lists = drawn(rng, targets, images, 70)
    subset = {}
    for caption in captions:
        query = str(caption["pairid"])
        five = [name for name in caption["img_set"]["members"] if name != caption["reference"]]
        subset[query] = rng.sample(five, 3)
        if rng.random() < 0.5:  # as systems do that leave it to the server
            reference = caption["reference"]
            lists[query] = [reference, *(name for name in lists[query] if name != reference)]
    run = put(tmp_path / "recall.json", {"version": "rc2", "metric": "recall"} | lists)
    sets = put(tmp_path / "subset.json", {"version": "rc2", "metric": "recall_subset"} | subset)
    figures = result("cirr", data, run, "--run", sets)

    rows = [
        [name for name in lists[str(caption["pairid"])] if name != caption["reference"]]
        for caption in captions
    ]
    for k in (1, 5, 10, 50):
        expected = recall([row[:50] for row in rows], list(targets.values()), k)
        assert figures[f"recall@{k}"] == pytest.approx(expected, abs=1e-12)
    for k in (1, 2, 3):
        expected = recall([subset[query] for query in targets], list(targets.values()), k)
        assert figures[f"recall_subset@{k}"] == pytest.approx(expected, abs=1e-12)
    assert figures["mean"] == pytest.approx((figures["recall@5"] + figures["recall_subset@1"]) / 2)
    assert (figures["n_queries"], figures["corpus"]) == (4181, {"name": "split", "size": 2297})
    assert figures["notes"][0].startswith(
        "the reference is not a candidate: 2,296 candidates per query"
    )

    recall_figures = result("cirr", data, run)
    assert recall_figures["recall_subset@1"] is None
    assert recall_figures["reason"]["recall_subset@1"].endswith("; give the recall_subset run too")


def test_the_demo_files_of_cirrs_server(shared: Path, tmp_path: Path) -> None:
    data = shared / "data" / "cirr"
    demo = [
        data / "demo_files" / f"test1_pred_ranks_{kind}.json"
        for kind in ("recall", "recall_subset")
    ]
    figures = result("cirr", data, demo[0], "--run", demo[1], "--split", "test1")
    assert (figures["valid_submission"], figures["n_queries"]) == (True, 4148)
    out = tmp_path / "out"
    result("cirr", data, demo[0], "--run", demo[1], "--split", "test1", "--submission", out)
    assert sorted(path.name for path in out.iterdir()) == [path.name for path in demo]
    for path in demo:
        assert load(out / path.name) == load(path)
    content = load(demo[1])
    content["12063"].pop()
    line = refusal(evaluate("cirr", data, put(tmp_path / "it.json", content), "--split", "test1"))
    assert "it.json: 12063: 2 images, the server requires 3" in line


def official(shared: Path) -> dict[str, float]:
    """CIRCO's formula on its example: labels, cumulative precision, divided by min(|G|, k)."""
    data = shared / "data" / "circo"
    lists = load(data / "submission_val.json")
    values: dict[str, list[float]] = {}
    for query in load(data / "val.json"):
        ranked = np.array(lists[str(query["id"])])
        labels = np.isin(ranked, query["gt_img_ids"])
        precisions = np.cumsum(labels) * labels / np.arange(1, 51)
        for k in (5, 10, 25, 50):
            ap = precisions[:k].sum() / min(len(query["gt_img_ids"]), k)
            values.setdefault(f"map@{k}", []).append(ap)
            hit = float((ranked[:k] == query["target_img_id"]).any())
            values.setdefault(f"recall@{k}", []).append(hit)
            if k == 10:
                for aspect in query["semantic_aspects"]:
                    values.setdefault(aspect, []).append(ap)
    return {name: float(np.mean(numbers)) for name, numbers in values.items()}


def test_circos_example(shared: Path, tmp_path: Path) -> None:
    data = shared / "data" / "circo"
    example = data / "submission_val.json"
    figures = result("circo", data, example)
    expected = official(shared)
    ours = figures | figures["semantic_map@10"]
    assert {name: ours[name] for name in expected} == pytest.approx(expected, abs=1e-12)
    assert len(figures["semantic_map@10"]) == 9
    assert 0 < expected["map@5"] < expected["recall@50"]
    assert (figures["n_queries"], figures["corpus"]["size"]) == (220, None)
    assert figures["notes"] == []
    out = tmp_path / "out"
    result("circo", data, example, "--submission", out)
    assert load(out / "submission_val.json") == load(example)
