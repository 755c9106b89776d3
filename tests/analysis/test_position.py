from __future__ import annotations

import math

import analysis_twins as twins
import pytest
from analysis_studies import Question, few, make_release
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from analysis.position import position_bias


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
    assert result.p == pytest.approx(twins.binomial_p(first, first + second), rel=1e-9)
    assert result.p == stats.binomtest(first, first + second, 0.5).pvalue


def test_swapping_the_sides_leaves_p() -> None:
    one = position_bias(make_release([Question(1)] * 9 + [Question(2)]).preferences)
    two = position_bias(make_release([Question(2)] * 9 + [Question(1)]).preferences)
    assert (one.rate, two.rate) == (0.9, 0.1)
    assert one.p == two.p == pytest.approx(22 / 1024)
