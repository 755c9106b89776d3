"""The benchmark `evaluate-memory` on few candidates: both methods give the same ranking."""

from __future__ import annotations

import pytest

from benchmarks import evaluate_memory


@pytest.mark.parametrize("size", [3, 50, 600, 1300])
def test_both_methods_give_the_same_ranking(size: int) -> None:
    ours = evaluate_memory.streamed(5, size)
    assert ours.equal(evaluate_memory.naive(5, size))
    assert not ours.equal(evaluate_memory.naive(6, size))


def test_unmeasured_times_are_scaled_and_marked() -> None:
    result = evaluate_memory.measure(seed=5, sizes=(600, 1300), naive_limit=600)
    assert result["equal"]
    assert result["theirs_measured_on"] == 600
    assert [case["equal"] for case in result["cases"]] == [True, None]
    case = result["cases"][0]
    beyond = case["theirs_peak_mb"] - case["torch_mb"]
    assert result["theirs"] == round(case["torch_mb"] + beyond * 1300 / 600, 1)
