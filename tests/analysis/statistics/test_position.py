from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from hsfiq.analysis.resampling.bootstrap import Bootstrap
from hsfiq.analysis.statistics.preference import position_bias, sign_flip_p
from tests.analysis import reference
from tests.analysis.studies import (
    Question,
    bootstrap_of,
    expected_ends,
    few,
    make_release,
    participant_counts,
)


@few
@given(st.lists(st.sampled_from([0, 1, 2]), max_size=60))
def test_equals_the_definition_and_scipy(answers: list[int]) -> None:
    result = position_bias(make_release([Question(answer) for answer in answers]).preferences)
    first, second = answers.count(1), answers.count(2)
    assert (result.n, result.human_ties) == (first + second, answers.count(0))
    if first + second == 0:
        assert math.isnan(result.rate)
        assert result.to_json()["reason"] == "no question has a preference"
        return
    assert result.rate == first / (first + second)
    assert result.p == pytest.approx(reference.binomial_p(first, first + second), rel=1e-9)
    assert result.p == stats.binomtest(first, first + second, 0.5).pvalue


def test_swapping_the_sides_does_not_change_p() -> None:
    first = position_bias(make_release([Question(1)] * 9 + [Question(2)]).preferences)
    second = position_bias(make_release([Question(2)] * 9 + [Question(1)]).preferences)
    assert (first.rate, second.rate) == (0.9, 0.1)
    assert first.p == second.p == pytest.approx(22 / 1024)


@few
@given(st.lists(st.integers(-6, 6), min_size=1, max_size=9))
def test_the_sign_flip_test_equals_enumerating_all_patterns(leads: list[int]) -> None:
    observed = abs(sum(leads))
    patterns = list(product((-1, 1), repeat=len(leads)))
    hits = sum(
        abs(sum(sign * lead for sign, lead in zip(pattern, leads, strict=True))) >= observed
        for pattern in patterns
    )
    assert sign_flip_p(np.array(leads)) == pytest.approx(hits / len(patterns), abs=1e-12)


def test_with_one_answer_each_the_sign_flip_test_is_the_binomial_test() -> None:
    study = [Question(1 if number < 14 else 2, participant=f"p{number}") for number in range(18)]
    result = position_bias(make_release(study).preferences)
    assert result.p_clustered == pytest.approx(result.p)
    assert result.n_participants == 18


def test_one_consistent_participant_is_no_evidence() -> None:
    release = make_release([Question(1)] * 40)
    result = position_bias(release.preferences, Bootstrap.of_release(release))
    assert result.p < 1e-9
    assert result.p_clustered == 1
    assert result.ci is not None
    assert result.ci.reason


def test_the_interval_equals_that_of_repeated_participants() -> None:
    rng = np.random.default_rng(4)
    study = [
        Question(int(rng.choice([0, 1, 1, 2])), participant=f"p{number % 7}")
        for number in range(90)
    ]
    release = make_release(study)
    bootstrap = bootstrap_of(release, 120)
    result = position_bias(release.preferences, bootstrap)
    rates = []
    for counts in participant_counts(bootstrap):
        answers = [
            question.preferred
            for person in range(7)
            for _ in range(int(counts[person]))
            for question in study
            if question.participant == f"p{person}" and question.preferred
        ]
        rates.append(answers.count(1) / len(answers))
    assert result.ci is not None
    ends = (result.ci.low, result.ci.high)
    assert ends == pytest.approx(expected_ends(rates, 7), abs=1e-12)
