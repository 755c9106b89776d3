"""The benchmark `bi-directional`: its recipes, a small training, and its figures."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks import bi_directional
from benchmarks.ablation_trials import Lists, Sampled
from benchmarks.bi_directional import (
    BI_BLIP4CIR,
    CODE,
    FIRST,
    FORMULA,
    FULL,
    FULLY,
    QUICK,
    Folders,
    Plan,
    Trained,
    cases,
    figure,
    markdown,
    planned,
    prepare,
    t_interval,
    train,
)
from hsfiq.model.system_recipes import BiBlip4cirRecipe
from tests.model.scorer.helpers import Drawn

SMALL = Plan(seeds=1, triplets=40, epochs=(1, 1), covr_epochs=1)


def test_the_rows_are_those_of_table_3() -> None:
    recipes = {trial.name: trial.recipe for trial in planned(0, FULL)[: len(BI_BLIP4CIR)]}
    settings = {
        name: (recipe.direction, recipe.negatives, recipe.alpha)
        for name, recipe in recipes.items()
        if isinstance(recipe, BiBlip4cirRecipe)
    }
    assert settings == {
        "BLIP4CIR, no reversed loss": ("none", "targets", (0.0, 0.0)),
        "negatives are references": ("token", "references", (0.4, 0.5)),
        "token backwards alone": ("backward-token", "targets", (0.4, 0.5)),
        "Bi-BLIP4CIR": ("token", "targets", (0.4, 0.5)),
        "Bi-BLIP4CIR, strings of the code": ("code", "targets", (0.4, 0.5)),
    }


def test_the_short_plan_has_one_stage_and_two_rows_of_each_system() -> None:
    trials = planned(3, QUICK)
    assert [trial.name for trial in trials] == [FIRST, FULLY, FORMULA, CODE]
    assert {len(trial.recipe.stages) for trial in trials} == {1}
    assert {trial.recipe.seed for trial in trials} == {3}
    assert {trial.recipe.seed for trial in planned(3, FULL)} == {3, 4, 5}


@pytest.mark.usefixtures("one_thread")
def test_a_small_training(drawn: Drawn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bi_directional, "catalogue", lambda _: drawn.data)
    monkeypatch.setattr(bi_directional, "BATCH", 16)
    folders = Folders(drawn.pictures, drawn.cache, tmp_path)
    trials = [trial for trial in planned(0, SMALL) if trial.name in (FULLY, FORMULA)]
    prepare(trials[0], folders)
    trained = {(trial.name, 0): train(trial, folders) for trial in trials}
    stages = trained[FULLY, 0].lists
    assert len(stages) == 2
    for stage in stages:
        assert list(stage) == ["forward", "reversed"]
        for way, goal in (("forward", "target"), ("reversed", "reference")):
            goals = sorted(getattr(example, goal) for example in drawn.data.val)
            assert sorted(stage[way].targets) == goals
            assert len(stage[way].ranks) == len(goals)
    (covr,) = trained[FORMULA, 0].lists
    assert list(covr) == ["forward"]
    assert covr["forward"].ranks != stages[0]["forward"].ranks


def test_students_interval_of_three_seeds() -> None:
    low, high = t_interval([1.0, 2.0, 3.0])
    assert (low + high) / 2 == pytest.approx(2)
    assert high - 2 == pytest.approx(4.302653 / 3**0.5, rel=1e-6)  # Student's t, 2 degrees


def test_figures_over_seeds_and_of_one_seed() -> None:
    base = [Sampled(value, np.array([value, value + 0.1])) for value in (0.1, 0.3)]
    other = [Sampled(value, np.array([value, value + 0.3])) for value in (0.3, 0.5)]
    both = figure(other, base)
    assert (both["value"], both["above"]) == (pytest.approx(0.4), pytest.approx(0.2))
    assert both["above_ci"] == [pytest.approx(0.2), pytest.approx(0.2)]  # equal in both seeds
    assert both["ci"][0] < 0.3
    single_seed = figure(other[:1], base[:1])
    assert single_seed["above_ci"] == pytest.approx([0.205, 0.395])  # paired resamples


def test_markdown_has_a_row_for_each_case() -> None:
    lists = Lists([str(rank) for rank in range(1, 21)], list(range(1, 21)))
    trained = {
        (FIRST, 0): Trained([{"forward": lists, "reversed": lists}], 1.0),
        (FORMULA, 0): Trained([{"forward": lists}], 2.0),
    }
    plan = {"triplets": 1500, "epochs": (5,), "covr_epochs": 5, "seeds": 1}
    data = {"queries": 20, "candidates": 20.0, "chance": [0.05, 0.5, 1.0]}
    time = {"seconds": 3.0, "set_up_seconds": 1.0}
    about = {"intervals": "bootstrap over targets", "cases": cases(trained, 0)}
    text = markdown({**plan, **data, **time, **about})
    assert "| BLIP4CIR, no reversed loss | I | 0.050 [" in text
    assert "| CoVR-BLIP, HN-NCE | I | 0.050 [" in text
    assert text.count("| I |") == 4
