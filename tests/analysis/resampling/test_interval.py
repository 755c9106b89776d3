from __future__ import annotations

import json
import math

import numpy as np
import pytest
from scipy import stats

from hsfiq.analysis.resampling.intervals import (
    ConfidenceInterval,
    expanded_tail,
    percentile_interval,
    with_interval,
)


def interval(
    statistics: list[float], *, n_clusters: int = 40, expand: bool = False
) -> ConfidenceInterval:
    return percentile_interval(
        np.array(statistics), unit="participant", n_clusters=n_clusters, seed=7, expand=expand
    )


def test_the_ends_are_percentiles() -> None:
    result = interval([float(value) for value in range(1001)])
    assert (result.low, result.high) == pytest.approx((25, 975))
    assert result.to_json() == {
        "ci": [result.low, result.high],
        "ci_method": {
            "level": 0.95,
            "method": "percentile bootstrap",
            "unit": "participant",
            "n_clusters": 40,
            "n_resamples": 1001,
            "n_undefined": 0,
            "seed": 7,
        },
    }


def test_a_few_undefined_resamples_are_excluded_and_counted() -> None:
    result = interval([math.nan, *map(float, range(101))])
    assert (result.low, result.high) == pytest.approx((2.5, 97.5))
    assert result.n_undefined == 1


@pytest.mark.parametrize(
    ("statistics", "n_clusters", "reason"),
    [
        ([1.0, 2.0], 1, "an interval needs 2 clusters (unit: participant), and there are 1"),
        ([1.0, 2.0], 0, "an interval needs 2 clusters (unit: participant), and there are 0"),
        ([math.nan, 2.0, 3.0], 9, "undefined in 1 of 3 resamples"),
        ([math.nan] * 4, 9, "undefined in 4 of 4 resamples"),
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
    assert interval(values, n_clusters=10, expand=True).note
    assert interval(values, n_clusters=30).note is None
    constant = interval([0.5] * 100)
    assert (constant.low, constant.high) == (0.5, 0.5)
    assert "the spread is unknown" in str(constant.to_json())


def test_few_clusters_widen_the_interval_as_students_t_does() -> None:
    """For the mean of n values with normal resamples, the widened interval is Student's."""
    rng = np.random.default_rng(0)
    n = 8
    sample = rng.normal(size=n)
    # The spread of the resampled means is that of the sample with n, not n - 1.
    resampled = stats.norm.ppf(
        np.linspace(0, 1, 200_001)[1:-1], sample.mean(), sample.std() / n**0.5
    )
    result = interval(list(resampled), n_clusters=n, expand=True)
    low, high = stats.t.interval(0.95, n - 1, sample.mean(), sample.std(ddof=1) / n**0.5)
    assert (result.low, result.high) == pytest.approx((low, high), abs=1e-3)
    assert "expanded" in result.method


def test_many_clusters_do_not_widen_the_interval() -> None:
    tails = [expanded_tail(n) for n in (2, 10, 20, 61, 10**6)]
    assert tails == sorted(tails)
    assert tails[-1] == pytest.approx(0.025, abs=1e-6)
    assert tails[1] == pytest.approx(0.0086, abs=1e-3)


def test_without_an_interval_the_json_has_the_same_fields() -> None:
    assert with_interval({"rate": 1.0}, None, None) == {"rate": 1.0}
    assert with_interval({"rate": None}, None, "why") == {"rate": None, "reason": "why"}
