"""The benchmark `agreement`: one small complete run, and its intervals against slow references."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import spearmanr

from benchmarks import agreement
from hsfiq.demo import study
from tests.in_process import run_command

RESAMPLES = 20


@pytest.fixture(autouse=True)
def _few_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agreement, "RESAMPLES", RESAMPLES)


def test_the_complete_benchmark(monkeypatch: pytest.MonkeyPatch) -> None:
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
