from __future__ import annotations

from math import atanh, isnan, nan, sqrt, tanh

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.special import expit, logit

from hsfiq.analysis.resampling.intervals import (
    CORRELATION,
    RATE,
    Spread,
    one_way_spread,
    student_ends,
    student_p,
    two_way_spread,
)

T_9 = float(stats.t.ppf(0.975, 9))


def test_the_variance_over_resamples_has_one_degree_of_freedom_too_many() -> None:
    sample = np.array([1.0, 2.0, 4.0, 4.5])
    spread = one_way_spread(float(sample.var()) / 4, 4)
    assert spread == Spread(pytest.approx(sample.var(ddof=1) / 4), 3)
    assert isnan(one_way_spread(1.0, 1).variance)


def test_the_two_way_variance_by_hand() -> None:
    """4 + 2 - 1 = 5; df = 25 / (16 / 9 + 4 / 19)."""
    spread = two_way_spread(Spread(4.0, 9), Spread(2.0, 19), 1.0)
    assert spread == Spread(5.0, pytest.approx(25 / (16 / 9 + 4 / 19)))


@given(*[st.floats(0.01, 10)] * 3, st.integers(1, 60), st.integers(1, 900))
def test_the_two_way_variance_is_never_below_those_of_one_way(
    people: float, triplets: float, pairs: float, few: int, many: int
) -> None:
    spread = two_way_spread(Spread(people, few), Spread(triplets, many), pairs)
    assert spread.variance >= max(people, triplets)
    assert spread.df >= min(few, many)


def test_without_shared_triplets_the_two_way_variance_is_that_of_participants() -> None:
    spread = two_way_spread(Spread(4.0, 9), Spread(1.0, 499), 1.0)
    assert spread.variance == 4.0
    assert spread.df == pytest.approx(9, abs=0.01)


def test_the_ends_on_the_scale_of_the_statistic() -> None:
    spread = Spread(0.01, 9)
    assert student_ends(0.7, spread) == pytest.approx((0.7 - 0.1 * T_9, 0.7 + 0.1 * T_9))
    half = 0.1 * T_9 / (1 - 0.7**2)
    by_fisher = (tanh(atanh(0.7) - half), tanh(atanh(0.7) + half))
    assert student_ends(0.7, spread, CORRELATION) == pytest.approx(by_fisher)
    half = 0.1 * T_9 / (0.7 * 0.3)
    by_logit = (expit(logit(0.7) - half), expit(logit(0.7) + half))
    assert student_ends(0.7, spread, RATE) == pytest.approx(by_logit)


def test_an_estimate_at_a_bound_has_an_interval_that_ends_there() -> None:
    low, high = student_ends(1.0, Spread(0.01, 9), RATE)
    assert (low, high) == (pytest.approx(1 - 0.1 * T_9), 1.0)
    assert student_ends(-1.0, Spread(0.0, 9), CORRELATION) == (-1.0, -1.0)


def test_the_p_of_students_t() -> None:
    rng = np.random.default_rng(0)
    sample = rng.normal(0.4, 1, size=12)
    spread = Spread(float(sample.var(ddof=1)) / 12, 11)
    assert student_p(float(sample.mean()), spread) == pytest.approx(
        stats.ttest_1samp(sample, 0).pvalue
    )
    assert isnan(student_p(0.3, Spread(0.0, 11)))
    assert isnan(student_p(0.3, Spread(nan, nan)))
    assert student_p(-2 * sqrt(0.5), Spread(0.5, 30)) == pytest.approx(2 * stats.t.sf(2, 30))
