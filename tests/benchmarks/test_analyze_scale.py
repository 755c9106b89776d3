"""The benchmark `analyze-scale` at a small size: the command runs, and both methods agree."""

from __future__ import annotations

from benchmarks import analyze_scale


def test_the_command_and_the_twin_run_on_a_drawn_release() -> None:
    result = analyze_scale.measure(seed=1, sizes=(150,), twin_size=100, resamples=10)
    assert result["equal"]
    assert result["twin_resamples"] == 11  # the rows as they are come first
    (case,) = result["cases"]
    assert case["participants"] == 3
    assert case["cpu_seconds"] > 0
    assert case["within_goal"]
