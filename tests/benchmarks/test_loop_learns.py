"""The benchmark `loop-learns`: a small run, and its means over seeds."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import agreement, loop_learns
from benchmarks.held_out import HeldOut
from benchmarks.information_vs_random import STRATEGIES
from benchmarks.loop_learns import METRICS, Plan
from hsfiq.demo import study
from tests.in_process import run_command

RESAMPLES = 20


@pytest.mark.slow
@pytest.mark.usefixtures("forked_servers")
def test_a_small_run(monkeypatch: pytest.MonkeyPatch) -> None:
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
