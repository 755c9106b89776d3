"""The benchmarks `bootstrap` and `coverage`, small."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from benchmarks import bootstrap, coverage


def test_both_methods_give_the_same_rho(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bootstrap, "PARTICIPANTS", 8)
    result = bootstrap.measure(seed=1, resamples=30, part=20)
    assert result["equal"]
    assert result["n"] == 800
    assert result["theirs_vectorised_measured_on"] == 20
    assert result["ratio"] == result["cases"][0]["ratio"]
    cases = [case["case"] for case in result["cases"]]
    assert cases == ["participant", "participant-triplet", "row"]
    assert [case["compared"] for case in result["cases"]] == [31, 61, 21]


def test_coverage_counts_intervals_that_contain_the_truth(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "TRUTH_QUESTIONS": 20_000,
        "QUESTIONS": 10,
        "CROSSED_QUESTIONS": 10,
        "RESAMPLES": 40,
        "PERMUTATIONS": 19,
    }.items():
        monkeypatch.setattr(coverage, name, value)
    designs = (coverage.Design(6, 1), coverage.Design(8, None))
    result = coverage.measure(seed=2, studies=10, designs=designs)
    assert 0.2 < result["truth"]["rho"] < 0.4
    assert 0.5 < result["truth"]["tie_half"] < 0.7
    cases = {(case["overlap"], case["way"], case["statistic"]): case for case in result["cases"]}
    assert len(cases) == 8
    for statistic in ("rho", "tie_half"):
        crossed = [cases["crossed", way, statistic] for way in ("participants", "default")]
        assert crossed[0]["mean_length"] < crossed[1]["mean_length"]
        assert crossed[0]["coverage"] <= crossed[1]["coverage"]
        # Without overlap the default differs only in that the interval is widened.
        apart = [cases["1", way, statistic] for way in ("participants", "default")]
        assert apart[0]["size"] == apart[1]["size"]
    lines = coverage.markdown(result).splitlines()
    assert len({line.count("|") for line in lines[:4]}) == 1


@pytest.mark.parametrize("overlap", [1, 2, 3, None])
def test_participants_answer_as_many_questions_and_no_query_twice(overlap: int | None) -> None:
    design = coverage.Design(10, overlap)
    people, queries = coverage.assigned(np.random.default_rng(0), design)
    answers = pd.DataFrame({"person": people, "query": queries})
    assert not answers.duplicated().any()
    n = coverage.CROSSED_QUESTIONS if overlap is None else coverage.QUESTIONS
    assert set(answers.groupby("person").size()) == {n}
    assert answers.groupby("query").size().max() == (overlap or 10)
