"""Intervals from resamples."""

from __future__ import annotations

import json
import math
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
    ConfidenceInterval,
    Spread,
    effective_number,
    one_way_spread,
    percentile_interval,
    student_ends,
    student_interval,
    student_p,
    two_way_spread,
    with_interval,
)


def interval(statistics: list[float], *, n_clusters: int = 40) -> ConfidenceInterval:
    return percentile_interval(
        np.array(statistics), unit="participant", n_clusters=n_clusters, seed=7
    )


def test_the_ends_are_percentiles() -> None:
    result = interval([float(value) for value in range(1001)])
    assert (result.low, result.high) == pytest.approx((25, 975))
    method = {"level": 0.95, "method": "percentile bootstrap", "unit": "participant"}
    method |= {"n_clusters": 40, "n_resamples": 1001, "n_undefined": 0, "seed": 7}
    assert result.to_json() == {"ci": [result.low, result.high], "ci_method": method}
    assert with_interval({"rate": None}, None, "why") == {"rate": None, "reason": "why"}


def test_a_few_undefined_resamples_are_excluded_and_counted() -> None:
    result = interval([math.nan, *map(float, range(101))])
    assert (result.low, result.high) == pytest.approx((2.5, 97.5))
    assert result.n_undefined == 1


@pytest.mark.parametrize(
    ("statistics", "n_clusters", "reason"),
    [
        ([1.0, 2.0], 1, "an interval needs 2 clusters (unit: participant); there are 1"),
        ([1.0, 2.0], 0, "an interval needs 2 clusters (unit: participant); there are 0"),
        ([math.nan, 2.0, 3.0], 9, "undefined in 1 of 3 resamples"),
        ([math.nan] * 4, 9, "undefined in 4 of 4 resamples"),
        ([0.5] * 4, 9, "no cluster changes the value, so its spread is unknown"),
    ],
)
def test_undefined_has_a_reason(statistics: list[float], n_clusters: int, reason: str) -> None:
    result = interval(statistics, n_clusters=n_clusters)
    assert math.isnan(result.low)
    assert math.isnan(result.high)
    written = json.loads(json.dumps(with_interval({"rate": 1.0}, result, None), allow_nan=False))
    assert (written["ci"], written["reason"]) == ([None, None], reason)
    assert written["ci_method"]["reason"] == reason
    assert with_interval({"rate": None}, result, "no pair")["reason"] == "no pair"


def test_doubtful_intervals_have_a_note() -> None:
    values = [float(value) for value in range(100)]
    assert interval(values, n_clusters=10).note
    assert "ci_method" in interval(values, n_clusters=10).to_json()
    assert interval(values, n_clusters=30).note is None


@given(st.lists(st.integers(1, 40), min_size=1, max_size=9))
def test_clusters_of_unequal_size_count_as_fewer(sizes: list[int]) -> None:
    effective = effective_number(np.array(sizes))
    assert effective == pytest.approx(sum(sizes) ** 2 / sum(size**2 for size in sizes))
    assert 1 <= effective <= len(sizes) + 1e-9
    assert effective_number(np.array([3] * len(sizes))) == pytest.approx(len(sizes))


def test_few_effective_clusters_are_named() -> None:
    def note(sizes: list[int]) -> str | None:
        values, array = np.linspace(0, 1, 50), np.array(sizes)
        return student_interval(
            0.5,
            values,
            one_way_spread(0.01, array),
            method="any",
            unit="participant",
            n_clusters=len(sizes),
            n_effective=effective_number(array),
            seed=0,
        ).note

    assert note([5] * 30) is None
    assert str(note([5] * 29)).startswith("only 29 clusters")
    assert "30 clusters of unequal size (effectively 5.9)" in str(
        note([10] * 24 + [60] * 4 + [300] * 2)
    )


T_9 = float(stats.t.ppf(0.975, 9))


def test_the_variance_over_resamples_has_one_degree_of_freedom_too_many() -> None:
    sample = np.array([1.0, 2.0, 4.0, 4.5])
    spread = one_way_spread(float(sample.var()) / 4, np.full(4, 7))
    assert spread == Spread(pytest.approx(sample.var(ddof=1) / 4), 3)
    assert isnan(one_way_spread(1.0, np.array([7])).variance)
    assert one_way_spread(1.0, np.array([900, 1])).df == 1


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
