"""`hsfiq evaluate` with --text-only and --image-only: the composition gap."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hsfiq.model.evaluation.benchmarks import Benchmark, Corpus, Part, Query, SystemLists
from hsfiq.model.evaluation.comparison import RESAMPLES
from hsfiq.model.evaluation.composition import (
    LABELS,
    ThreeAnswers,
    composition_intervals,
    figures_of,
    ks_of,
    query_values,
)
from tests.model.evaluation.helpers import (
    SHIRT_TRIPLETS,
    SHIRTS,
    evaluate,
    put,
    refusal,
    result,
    write_cirr,
)

TARGETS = [target for _, target in SHIRT_TRIPLETS]
PLACES = {"both": (2, 1, 50, 5), "text": (1, 60, 3, 12), "image": (60, 60, 60, 2)}
"""The places of the four targets, in complete rankings of the sixty shirts."""


def at(place: int, target: str, n: int = 60) -> list[str]:
    """The first n shirts of a ranking with the target at a place."""
    others = [image for image in SHIRTS if image != target]
    return [*others[: place - 1], target, *others[place - 1 :]][:n]


def write_runs(folder: Path, n: int = 60) -> dict[str, Path]:
    return {
        name: put(
            folder / f"{name}.json",
            {f"shirt.val.{i}": at(places[i], TARGETS[i], n) for i in range(4)},
        )
        for name, places in PLACES.items()
    }


def words(runs: dict[str, Path]) -> tuple[str | Path, ...]:
    return "--category", "shirt", "--text-only", runs["text"], "--image-only", runs["image"]


def test_hand_computed_figures(data: Path, tmp_path: Path) -> None:
    runs = write_runs(tmp_path)
    own: dict[str, Any] = result("fashioniq", data, runs["both"], *words(runs))["composition"]
    assert [own[f"{name}@5"] for name in ("both", "text", "image")] == [0.75, 0.5, 0.25]
    assert (own["gap@1"], own["gap@5"]) == (0.0, 0.25)
    # At 5 the text alone finds the first and the third target, the image alone the fourth.
    assert [own[f"{name}@5"] for name in LABELS] == [0.75, 0.25, 0.0]
    assert [own[f"{name}@1"] for name in LABELS] == [0.25, 0.25, 0.5]
    ndcg = {
        name: sum(1 / math.log2(place + 1) for place in places) / 4
        for name, places in PLACES.items()
    }
    for name, value in ndcg.items():
        assert own[f"ndcg_{name}"] == pytest.approx(value)
    best = max(ndcg["text"], ndcg["image"])
    assert own["composition_gap"] == pytest.approx(1 - best / ndcg["both"])
    cut = sum(1 / math.log2(place + 1) for place in PLACES["text"] if place <= 50) / 4
    assert own["ndcg_text@50"] == pytest.approx(cut)
    assert own["text_only"] == [str(runs["text"])]
    assert "reason" not in own
    text = evaluate("fashioniq", data, runs["both"], *words(runs)).out
    row = next(
        line for line in text.splitlines() if line.startswith("recall@5 ") and "25.00" in line
    )
    assert row.split()[1:] == ["75.00", "50.00", "25.00", "25.00", "75.00", "25.00", "0.00"]


def test_the_papers_gap_needs_complete_rankings(data: Path, tmp_path: Path) -> None:
    runs = write_runs(tmp_path, n=50)
    own = result("fashioniq", data, runs["both"], *words(runs))["composition"]
    assert own["ndcg_text"] is None
    assert own["composition_gap"] is None
    assert own["reason"]["ndcg_text"] == "1 of 4 queries have lists that are too short"
    assert own["composition_gap@50"] is not None
    assert own["gap@50"] == 1.0 - 0.75
    text = evaluate("fashioniq", data, runs["both"], *words(runs)).out
    assert "give complete rankings" in text


def test_intervals_are_of_the_gaps(data: Path, tmp_path: Path) -> None:
    runs = write_runs(tmp_path)
    own = result("fashioniq", data, runs["both"], *words(runs), "--intervals")["composition"]
    low, high = own["ci"]["gap@5"]
    assert low <= own["gap@5"] <= high
    assert own["ci_method"]["n_clusters"] == 3  # two queries share a reference
    text = evaluate("fashioniq", data, runs["both"], *words(runs), "--intervals").out
    assert "  gap@5  25.00 [" in text


def drawn_rows(seed: int) -> tuple[Benchmark, ThreeAnswers]:
    """Two parts of ten and five queries, in clusters of one to three, with random rankings."""
    rng = random.Random(seed)
    images = tuple(f"i{number}" for number in range(20))
    parts = [
        Part(
            name,
            tuple(
                Query(f"{name}.{i}", f"{name}-reference{i % 4}", "", rng.choice(images))
                for i in range(n)
            ),
            Corpus("split", images),
        )
        for name, n in (("dress", 10), ("shirt", 5))
    ]
    answers = [
        {
            part.name: SystemLists(
                {q.query_id: tuple(rng.sample(images, 20)) for q in part.queries}, {}
            )
            for part in parts
        }
        for _ in range(3)
    ]
    return Benchmark("drawn", "val", tuple(parts), keeps_reference=True), ThreeAnswers(*answers)


def test_figures_and_intervals_equal_their_twins() -> None:
    benchmark, answers = drawn_rows(1)
    rows = query_values(benchmark, answers)
    figures = figures_of(rows)
    k = 5
    shares = []
    for part in benchmark.parts:
        hits = [
            {
                name: query.target in getattr(answers, name)[part.name].lists[query.query_id][:k]
                for name in ("both", "text", "image")
            }
            for query in part.queries
        ]
        solved = [each["text"] or each["image"] for each in hits]
        shares.append(
            (
                sum(solved) / len(hits),
                sum(each["both"] and not alone for each, alone in zip(hits, solved, strict=True))
                / len(hits),
            )
        )
    assert figures[f"shortcut_solvable@{k}"].value == pytest.approx(np.mean([s[0] for s in shares]))
    assert figures[f"composition_required@{k}"].value == pytest.approx(
        np.mean([s[1] for s in shares])
    )
    for k in ks_of(benchmark):
        total = sum(figures[f"{name}@{k}"].value or 0 for name in LABELS)
        assert total == pytest.approx(1)

    intervals = composition_intervals(rows, figures, seed=3)
    streams = [np.random.default_rng((3, number)) for number in range(2)]
    gaps = []
    for _ in range(RESAMPLES):
        drawn = []
        for part, stream in zip(benchmark.parts, streams, strict=True):
            clusters = list(dict.fromkeys(query.reference for query in part.queries))
            for chosen in stream.integers(len(clusters), size=len(clusters)):
                drawn += [r for r in rows if (r.part, r.cluster) == (part.name, clusters[chosen])]
        means = {
            name: np.mean(
                [
                    np.mean([row.values[name] for row in drawn if row.part == part.name])
                    for part in benchmark.parts
                ]
            )
            for name in ("ndcg_both", "ndcg_text", "ndcg_image")
        }
        gaps.append(1 - max(means["ndcg_text"], means["ndcg_image"]) / means["ndcg_both"])
    own = intervals["composition_gap"]
    assert (own.low, own.high) == pytest.approx(tuple(np.quantile(gaps, [0.025, 0.975])))


def test_a_system_that_finds_nothing_has_no_gap_of_ndcg() -> None:
    benchmark, answers = drawn_rows(2)
    empty = {part.name: SystemLists({}, {}) for part in benchmark.parts}
    figures = figures_of(query_values(benchmark, ThreeAnswers(empty, answers.text, answers.image)))
    assert figures["both@5"].value == 0.0
    assert figures["composition_gap"].value is None
    assert figures["composition_gap"].reason


def test_what_is_refused(data: Path, tmp_path: Path) -> None:
    runs = write_runs(tmp_path)
    shirts = ("--category", "shirt")
    line = refusal(evaluate("fashioniq", data, runs["both"], *shirts, "--text-only", runs["text"]))
    assert "--image-only: is missing" in line
    cirr = write_cirr(tmp_path / "cirr")
    alone = ("--text-only", runs["text"], "--image-only", runs["image"])
    refused = refusal(evaluate("cirr", cirr, runs["both"], "--split", "test1", *alone))
    assert "the targets of test1 are withheld" in refused
