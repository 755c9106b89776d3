"""The benchmarks `bootstrap` and `coverage`, small."""

from __future__ import annotations

import pytest

from benchmarks import bootstrap, coverage


def test_both_methods_give_the_same_rho(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bootstrap, "PARTICIPANTS", 8)
    result = bootstrap.measure(seed=1, resamples=30, part=20)
    assert result["equal"]
    assert result["n"] == 800
    assert result["theirs_vectorised_measured_on"] == 20
    assert result["ratio"] == result["cases"][0]["ratio"]
    assert [case["case"] for case in result["cases"]] == [
        "participant",
        "participant-triplet",
        "row",
    ]
    assert [case["compared"] for case in result["cases"]] == [30, 20, 20]


def test_coverage_counts_intervals_that_contain_the_truth(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coverage, "TRUTH_PARTICIPANTS", 2000)
    result = coverage.measure(seed=2, studies=12, sizes=(4, 12))
    assert 0.3 < result["truth"] < 0.5
    cases = {(case["participants"], case["interval"]): case for case in result["cases"]}
    assert len(cases) == 8
    for size in (4, 12):
        clustered, widened, sets = (
            cases[size, name] for name in ("participants", "participants, widened", "sets")
        )
        assert clustered["mean_length"] < widened["mean_length"]
        assert sets["mean_length"] < clustered["mean_length"]
        assert sets["coverage"] < widened["coverage"]
