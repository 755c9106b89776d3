"""The benchmarks `agreement`, `loop-learns`, `active-choice`: small runs and slow references."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest
from scipy.stats import spearmanr

from benchmarks import active_choice, agreement, loop_learns
from benchmarks.held_out import HeldOut
from benchmarks.information_vs_random import STRATEGIES
from benchmarks.loop_learns import METRICS, Plan
from hsfiq.demo import study
from tests.in_process import run_command

RESAMPLES = 20


@pytest.fixture(autouse=True)
def _few_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agreement, "RESAMPLES", RESAMPLES)


def test_the_agreement_of_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agreement, "hsfiq", run_command)
    monkeypatch.setattr(study, "GARMENTS_PER_CATEGORY", 40)
    options = ("--limit", "60", "--set", "epochs=5")
    result = agreement.measure(seed=3, answers=100, splits=("val",), training=options)
    assert result["simulated"]
    cases = {case["metric"]: case for case in result["cases"]}
    assert list(cases) == ["recall@5", "cirqrs", *agreement.KNOWING]
    for case in cases.values():
        assert (case["split"], case["n_sets"], case["n_participants"]) == ("val", 200, 2)
        assert case["ci"][0] <= case["ci"][1]
    assert cases["recall@5"]["above_recall_ci"] == [0, 0]
    # The scores of who knows were given to the right sets.
    rhos = {name: case["rho"] for name, case in cases.items()}
    assert max(rhos, key=lambda name: rhos[name]) == "oracle"


def drawn_rows(seed: int, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scores of three participants, and a metric that correlates with them and has ties."""
    rng = np.random.default_rng(seed)
    scores = rng.integers(1, 6, n).astype(float)
    people = np.array(["a", "b", "c"])[rng.integers(3, size=n)]
    return scores, np.round(scores + rng.normal(size=n)), people


def people_drawn(people: np.ndarray, seed: int) -> list[list[int]]:
    """The rows of each resample, participant by participant."""
    rng, names = np.random.default_rng(seed), sorted(set(people))
    return [
        [
            row
            for number in rng.integers(len(names), size=len(names))
            for row, person in enumerate(people)
            if person == names[number]
        ]
        for _ in range(RESAMPLES)
    ]


def test_correlations_of_resampled_people() -> None:
    scores, metric, people = drawn_rows(seed=1, n=40)
    sets = pd.DataFrame({"participant_id": people, "score": scores})
    values = {"metric": metric, "scores": scores}
    correlations = agreement.resampled(values, sets, np.random.default_rng(5))
    expected = [
        spearmanr(metric[rows], scores[rows]).statistic for rows in people_drawn(people, seed=5)
    ]
    assert correlations["metric"] == pytest.approx(expected)
    assert correlations["scores"] == pytest.approx(1)


def test_halves_of_resampled_people() -> None:
    _, metric, people = drawn_rows(seed=2, n=60)
    firsts, seconds = range(0, 60, 2), range(1, 60, 2)
    preferred = np.random.default_rng(3).integers(1, 3, 30)
    data = SimpleNamespace(
        sets=pd.DataFrame({"set_id": range(60)}),
        preferences=pd.DataFrame(
            {"participant_id": people[:30], "set_1": firsts, "set_2": seconds}
        ).assign(preferred=preferred),
    )
    correlations = agreement.resampled_halves({"metric": metric}, data, np.random.default_rng(5))  # type: ignore[arg-type]

    def right(row: int) -> float:
        better = metric[firsts[row]] - metric[seconds[row]]
        return 0.5 if better == 0 else float((better > 0) == (preferred[row] == 1))

    expected = [
        sum(right(row) for row in rows) / len(rows) for rows in people_drawn(people[:30], seed=5)
    ]
    assert correlations["metric"].tolist() == pytest.approx(expected)
    assert {right(row) for row in range(30)} == {0, 0.5, 1}


@pytest.mark.slow
@pytest.mark.usefixtures("forked_servers")
def test_a_small_loop_learns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_learns, "hsfiq", run_command)
    monkeypatch.setattr(agreement, "RESAMPLES", RESAMPLES)
    monkeypatch.setattr(study, "GARMENTS_PER_CATEGORY", 40)
    plan = Plan(
        seeds=1, answers=100, test_share=0.4, sizes=(30, 60), limit=60,
        training=("--set", "epochs=2", "--set", "n_def=1"), values={"epochs": "2"}, follow_up=3,
    )  # fmt: skip
    result = loop_learns.measure(3, plan)
    assert result["simulated"]
    assert [case["answers"] for case in result["cases"]] == [30, 60]
    assert (result["n_sets"], result["n_participants"]) == (80, 2)
    for key in METRICS:
        assert result[key] == result["cases"][-1][key]
        low, high = result[key]["ci"]
        assert low <= high
    # More answers change the retrained scorer, and nothing else.
    for name in ("recall@5", "before"):
        first, second = (case[name] for case in result["cases"])
        assert first == second
    assert result["cases"][0]["after"] != result["cases"][1]["after"]
    assert result["difference"]["value"] == pytest.approx(
        result["after"]["rho"] - result["before"]["rho"]
    )
    asking = result["asking"]
    assert (asking["answers"], asking["after_answers"], asking["seeds"]) == (3, 30, 1)
    for name in ("recall@5", "before"):
        assert asking[name] == result[name]
    information, random = (asking[name]["rho"] for name in STRATEGIES)
    assert information != random
    assert asking["difference"]["value"] == pytest.approx(information - random)


def test_means_over_seeds() -> None:
    rng = np.random.default_rng(1)
    by_seed = [
        HeldOut(
            rhos={name: float(rng.random()) for name in METRICS},
            resampled={name: rng.random(RESAMPLES) for name in METRICS},
            n_sets=4,
            n_participants=2,
        )
        for _ in range(3)
    ]
    result = loop_learns.figures(by_seed)
    for name in METRICS:
        assert result[name]["rho"] == pytest.approx(
            sum(agreement.rhos[name] for agreement in by_seed) / 3
        )
    differences = [
        sum(
            agreement.resampled["after"][i] - agreement.resampled["before"][i]
            for agreement in by_seed
        )
        / 3
        for i in range(RESAMPLES)
    ]
    expected = [np.quantile(differences, end) for end in (0.025, 0.975)]
    assert result["difference"]["ci"] == pytest.approx(expected)


@pytest.mark.slow
def test_a_small_choice_has_every_figure() -> None:
    tiny = replace(active_choice.SMALL, triplets=60, first=12, pool=16, held_out=12, chosen=6)
    with (
        patch.object(active_choice, "SMALL", tiny),
        patch.object(study, "GARMENTS_PER_CATEGORY", 40),
    ):
        result = active_choice.run(seed=3, full=False)
    assert (result["simulated"], result["seeds"]) == (True, 2)
    assert [case["strategy"] for case in result["cases"]] == list(active_choice.STRATEGIES)
    random, *others = result["cases"]
    assert -1 <= random["rho"] <= 1
    for case in others:
        low, high = case["ci"]
        assert low <= case["above_random"] <= high
        assert case["above_random"] == pytest.approx(case["rho"] - random["rho"])
