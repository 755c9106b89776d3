"""The benchmark `ablation`: one small complete run, and its figures against slow references."""

from __future__ import annotations

import json
import math
from io import BytesIO
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from PIL import Image

from benchmarks import ablation, ablation_report, ablation_trials
from benchmarks.ablation import FIGURES, FULL, Plan
from benchmarks.ablation_trials import (
    BESIDE,
    SPLITS,
    Judged,
    Lists,
    Sampled,
    Trained,
    Trial,
    target_ranks,
)
from hsfiq.demo import study
from hsfiq.model.evaluation.benchmarks import Benchmark, Corpus, Part, Query, SystemLists
from hsfiq.model.evaluation.metrics import evaluate
from tests.in_process import run_command
from tests.processes import pool_of_one

RESAMPLES = 20


@pytest.fixture(autouse=True)
def _few_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ablation, "RESAMPLES", RESAMPLES)


def set_up_worker() -> None:
    """Prepare a process of the benchmark's pool: commands run in it, on fewer pictures."""
    ablation_trials.one_thread()
    vars(ablation_trials)["hsfiq"] = run_command
    vars(study)["GARMENTS_PER_CATEGORY"] = 40


@pytest.mark.slow
def test_the_complete_benchmark(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(ablation, "STRATEGIES", ("corpus", "qure"))
    monkeypatch.setattr(ablation, "one_thread", set_up_worker)
    monkeypatch.setattr(ablation, "ProcessPoolExecutor", pool_of_one)
    plan = Plan(seeds=1, limit=40, epochs=5, answers=100, sizes=(), continued=("corpus",))
    result = ablation.measure(seed=3, plan=plan)
    assert result["simulated"]
    assert result["same_warm_up"]
    assert [(case["strategy"], case["start"], case["split"]) for case in result["cases"]] == [
        (*way, split)
        for split in ("val", "test")
        for way in (("corpus", "nothing"), ("qure", "nothing"), ("corpus", "corpus"))
    ]
    begun, continued = (result["cases"][row]["val_recall_by_epoch"] for row in (0, 2))
    assert begun != continued
    for case in result["cases"]:
        assert (case["n_sets"], case["n_participants"]) == (200, 2)
        assert 0 <= case["recall@1"]["value"] <= case["recall@50"]["value"] <= 1
        assert len(case["val_recall_by_epoch"]) == 5
        for name in FIGURES:
            low, high = case[name]["ci"]
            assert low <= high
            if case["strategy"] == "corpus":
                assert case[name]["above_corpus"] == 0
                assert case[name]["above_corpus_ci"] == [0, 0]
    # The scores of who knows were given to the right sets.
    for split in SPLITS:
        own = [case for case in result["beside"] if case["split"] == split]
        assert max(own, key=lambda case: case["rho"]["value"])["metric"] == "oracle"
    for path in ablation.write(result, tmp_path / "out"):
        assert Path(path).stat().st_size > 0


def test_trainings_of_a_seed_differ_only_in_their_negatives() -> None:
    trials = ablation.planned(7, FULL)
    n_trials = len(ablation.STRATEGIES) + len(FULL.sizes) + len(FULL.continued)
    assert len(trials) == len(set(trials)) == 3 * n_trials
    for seed in (7, 8, 9):
        base, *other_recipes = [trial.recipe for trial in trials if trial.seed == seed]
        assert base.strategy == "corpus"
        assert base.seed == trials[0].recipe.seed + seed - 7
        differing = [set(base.changes(recipe)) for recipe in other_recipes]
        assert all(options <= {"strategy", "n_neg"} for options in differing)
        names = {trial.name for trial in trials if trial.seed == seed}
        assert len(names) == len(other_recipes) + 1 == n_trials


def test_ranks_give_the_recall_that_an_evaluation_gives() -> None:
    benchmark, answers = random_lists(np.random.default_rng(4), n_queries=30)
    lists = target_ranks(benchmark, answers)
    assert math.inf in lists.ranks
    expected = evaluate(benchmark, answers).overall.figures
    for k in (1, 10, 50):
        assert ablation.recall(lists, k, seed=1).value == pytest.approx(
            expected[f"recall@{k}"].value
        )


def random_lists(
    rng: np.random.Generator, n_queries: int
) -> tuple[Benchmark, dict[str, SystemLists]]:
    """Two parts of as many queries, whose lists of 50 are drawn from 80 images."""
    images = tuple(f"image-{number}" for number in range(80))
    parts, answers = [], {}
    for name in ("dress", "shirt"):
        queries = [
            Query(f"{name}.{number}", "reference", "is red", str(rng.choice(images[:20])))
            for number in range(n_queries)
        ]
        parts.append(Part(name, tuple(queries), Corpus("catalogue", images)))
        lists = {query.query_id: tuple(rng.permutation(images)[:50].tolist()) for query in queries}
        answers[name] = SystemLists(lists, {})
    return Benchmark("drawn", "test", tuple(parts), keeps_reference=True), answers


def test_recall_of_resampled_targets() -> None:
    rng = np.random.default_rng(2)
    targets = [f"garment-{number}" for number in rng.integers(9, size=40)]
    ranks = [float(rank) for rank in rng.integers(1, 30, size=40)]
    estimate = ablation.recall(Lists(targets, ranks), 10, seed=5)
    assert estimate.value == sum(rank <= 10 for rank in ranks) / 40
    names = sorted(set(targets))
    draws = np.random.default_rng(5).integers(len(names), size=(RESAMPLES, len(names)))
    for share, draw in zip(estimate.resamples, draws, strict=True):
        resampled_ranks = [
            rank
            for place in draw
            for rank, target in zip(ranks, targets, strict=True)
            if target == names[place]
        ]
        assert share == pytest.approx(
            sum(rank <= 10 for rank in resampled_ranks) / len(resampled_ranks)
        )


def test_a_different_warm_up_is_detected() -> None:
    first, second = (Trial(strategy, None, 0, 60, 10) for strategy in ("corpus", "qure"))
    assert first.recipe.period == 2
    curve = [0.1, 0.2, 0.3]
    assert ablation.same_warm_up({first: trained(curve), second: trained([0.1, 0.2, 0.9])})
    assert not ablation.same_warm_up({first: trained(curve), second: trained([0.1, 0.21, 0.3])})
    later = Trial("qure", None, 1, 60, 10)
    assert ablation.same_warm_up({first: trained(curve), later: trained([0.5, 0.6])})
    continued = Trial("qure", None, 0, 60, 10, "corpus")
    assert ablation.same_warm_up({first: trained(curve), continued: trained([0.5, 0.6])})


def trained(curve: list[float], seed: int = 0) -> Trained:
    """An invented training result: four targets with five queries each."""
    rng = np.random.default_rng(seed)
    ranks = [float(rank) for rank in rng.integers(1, 60, size=20)]
    lists = Lists([f"garment-{place % 4}" for place in range(20)], ranks)
    return Trained(curve, sizes=[12.0], lists=dict.fromkeys(SPLITS, lists))


def test_summary_over_seeds() -> None:
    figures = [
        {"value": value, "above_corpus": value - 0.5, "above_corpus_ci": ci}
        for value, ci in ((0.6, [0.01, 0.2]), (0.4, [-0.3, 0.1]), (0.2, [-0.4, -0.2]))
    ]
    summary = ablation.over_seeds(figures)
    assert summary["seeds"] == [0.6, 0.4, 0.2]
    assert (summary["lowest"], summary["highest"]) == (0.2, 0.6)
    assert summary["mean"] == pytest.approx(0.4)
    assert summary["above_corpus"]["mean"] == pytest.approx(-0.1)
    assert summary["above_corpus"]["n_clear"] == 2


@pytest.fixture(scope="module")
def made_up_result() -> dict[str, Any]:
    """A result of three seeds and two further sizes, with random figures."""
    plan = Plan(
        seeds=3, limit=60, epochs=5, answers=100, sizes=(3, 50), continued=("corpus", "qure")
    )
    trials = ablation.planned(0, plan)
    names = {trial.name for trial in trials} | set(BESIDE)
    rng = np.random.default_rng(8)
    sampled = {name: Sampled(rng.random(), rng.random(RESAMPLES)) for name in sorted(names)}
    study = Judged(sampled, sampled, n_sets=200, n_participants=2)
    results = {trial: trained([0.1], seed) for seed, trial in enumerate(trials)}
    cases = [
        case
        for seed in range(3)
        for split in SPLITS
        for case in ablation.cases_of(seed, split, results, study)
    ]
    return {
        "name": "ablation", "simulated": True, "seeds": 3, "triplets": 60, "epochs": 5,
        "answers": 100, "same_warm_up": True, "intervals": ablation.INTERVALS,
        "summary": ablation.summary(cases), "cases": cases,
        "beside": ablation.beside({(seed, split): study for seed in range(3) for split in SPLITS}),
    }  # fmt: skip


def test_tables_show_the_results_values(made_up_result: dict[str, Any]) -> None:
    text = ablation.markdown(made_up_result)
    assert "simulated annotators" in text
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert {row.count("|") for row in rows} == {7}
    first = next(row for row in made_up_result["summary"] if row["strategy"] == "qure")
    summary = first["recall@10"]
    cell = f"{summary['mean']:.3f} ({summary['lowest']:.3f} to {summary['highest']:.3f})"
    assert next(row for row in rows if row.startswith("| qure |")).split("|")[3].strip() == cell
    sizes = [row.split("|")[1].strip() for row in rows if row.startswith(("| val, ", "| test, "))]
    expected = [f"{split}, {size}" for split in SPLITS for size in (3, 12, 50)]
    assert sizes[: len(expected)] == expected
    assert len(sizes) == len(expected) + len(made_up_result["cases"]) + len(
        made_up_result["beside"]
    )


def test_figures_are_reproducible(made_up_result: dict[str, Any], tmp_path: Path) -> None:
    paths = [Path(path) for path in ablation.write(made_up_result, tmp_path / "one")]
    assert [path.name for path in paths] == [
        "ablation.json", "ablation.md", "ablation.svg", "ablation.png",
        "ablation-sizes.svg", "ablation-sizes.png",
    ]  # fmt: skip
    assert json.loads(paths[0].read_text()) == made_up_result
    for svg, png in ((paths[2], paths[3]), (paths[4], paths[5])):
        assert ET.fromstring(svg.read_bytes()).tag.endswith("svg")
        with Image.open(BytesIO(png.read_bytes())) as image:
            assert image.width > image.height > 500
    redrawn = ablation_report.figures(made_up_result["cases"])
    assert [redrawn[path.name] for path in paths[2:]] == [path.read_bytes() for path in paths[2:]]


def test_marks_and_lines_are_at_their_values(made_up_result: dict[str, Any]) -> None:
    cases = made_up_result["cases"]
    case = next(case for case in cases if (case["strategy"], case["seed"]) == ("top-k", 1))
    panel = ablation_report.strategies_figure(cases).axes[3]
    assert panel.get_title() == "Spearman's rho"
    lines = [
        (np.asarray(line.get_xdata()).tolist(), line.get_label()) for line in panel.get_lines()
    ]
    assert ([case["rho"]["value"]], "seed 1") in lines
    assert case["rho"]["ci"] in [values for values, _ in lines]
    sizes = ablation_report.sizes_of(cases)
    panel = ablation_report.sizes_figure(sizes).axes[0]
    means = {
        row["n_neg"]: row["recall@1"]["mean"]
        for row in made_up_result["summary"]
        if (row["strategy"], row["start"], row["split"]) == ("cirqrs", "nothing", "val")
    }
    mean = panel.get_lines()[0]
    assert np.asarray(mean.get_xdata()).tolist() == [3, 12, 50]
    assert np.asarray(mean.get_ydata()).tolist() == [means[size] for size in (3, 12, 50)]
