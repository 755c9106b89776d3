"""The benchmark `mapnet`: its rows, its intervals, and one small run."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import mapnet
from benchmarks.mapnet import FULL, ROWS, Plan, Trained, Trial, resampled_recall
from tests.processes import pool_of_one


def test_rows_differ_only_in_what_they_name() -> None:
    for system, rows in ROWS.items():
        recipes = {row: Trial(system, row, 7, FULL).recipe for row in rows}
        complete = next(recipe for row, recipe in recipes.items() if not rows[row])
        assert complete.seed == 1007
        for row, values in rows.items():
            assert set(complete.changes(recipes[row])) == set(values) - unchanged(values)
    assert Trial("mapnet", "contrastive", 0, Plan(1, 50, 2)).recipe.epochs == (2,)


def unchanged(values: dict[str, str]) -> set[str]:
    """The recipe's own reading of C is named where the readings are compared."""
    return {
        key for key, value in values.items() if (key, value) == ("proximity", "cosine-distance")
    }


def test_recall_of_resampled_targets() -> None:
    rng = np.random.default_rng(2)
    targets = [f"garment-{number}" for number in rng.integers(9, size=40)]
    ranks = [int(rank) for rank in rng.integers(1, 30, size=40)]
    value, resamples = resampled_recall(Trained(ranks, targets, 0), 10, seed=5)
    assert value == sum(rank <= 10 for rank in ranks) / 40
    names = sorted(set(targets))
    draws = np.random.default_rng(5).integers(len(names), size=(mapnet.RESAMPLES, len(names)))
    for share, draw in zip(resamples[:20], draws[:20], strict=True):
        drawn = [
            rank
            for place in draw
            for rank, target in zip(ranks, targets, strict=True)
            if target == names[place]
        ]
        assert share == pytest.approx(sum(rank <= 10 for rank in drawn) / len(drawn))


@pytest.mark.slow
def test_the_benchmark(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = {
        system: {row: ROWS[system][row] for row in rows}
        for system, rows in (
            ("mapnet", ("contrastive", "contrastive + MSI + RPLoss")),
            ("sprc", ("itc",)),
        )
    }
    monkeypatch.setattr(mapnet, "ROWS", chosen)
    monkeypatch.setattr(mapnet, "ProcessPoolExecutor", pool_of_one)
    result = mapnet.measure(3, Plan(seeds=1, limit=130, epochs=1))
    assert [case["row"] for case in result["cases"]] == [
        row for rows in chosen.values() for row in rows
    ]
    for case in result["cases"]:
        assert 0 <= case["recall@1"]["value"] <= case["recall@10"]["value"] <= 1
    assert result["cases"][0]["recall@10"]["above_first_ci"] == [0, 0]
    assert mapnet.markdown(result).count("\n| mapnet |") == 4
