from __future__ import annotations

import json
import math
import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from hsfiq.analysis.statistics.correlation import normality
from tests.analysis.studies import few

numbers = st.floats(-100, 100).map(lambda number: round(number, 6))


def test_equals_scipy() -> None:
    values = np.random.default_rng(5).normal(3, 1, 400)
    result = normality(pd.Series(values))
    expected = stats.shapiro(values)
    assert (result.w, result.p, result.n) == (expected.statistic, expected.pvalue, 400)
    assert not result.approximate
    assert set(result.to_json()) == {"W", "p", "n"}


@few
@given(st.lists(numbers, max_size=30))
def test_is_defined_or_says_why(numbers: list[float]) -> None:
    result = normality(pd.Series(numbers, dtype="float64"))
    assert result.n == len(numbers)
    undefined = len(numbers) < 3 or len(set(numbers)) == 1
    assert math.isnan(result.w) == math.isnan(result.p) == undefined
    assert (result.reason is not None) == undefined


def test_missing_values_are_excluded() -> None:
    values = [1.0, 2.0, 4.0, 8.0]
    assert normality(pd.Series([*values, math.nan])) == normality(pd.Series(values))


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ([], "n = 0: Shapiro-Wilk needs 3 values"),
        ([1.0, 2.0], "n = 2: Shapiro-Wilk needs 3 values"),
        ([2.0] * 9, "all values are equal"),
        ([0.1 + 0.2, 0.3, 0.3, 0.3], "all values are equal"),
        ([0.0, 1e-20, 2e-20], "all values are equal"),
    ],
)
def test_undefined_has_a_reason(values: list[float], reason: str) -> None:
    result = normality(pd.Series(values, dtype="float64")).to_json()
    assert (result["W"], result["p"], result["reason"]) == (None, None, reason)


def test_large_n_gets_a_second_test_and_no_warning() -> None:
    values = np.random.default_rng(6).integers(1, 6, 6_100)
    result = normality(pd.Series(values))
    assert result.approximate
    assert result.second is not None
    expected = stats.normaltest(values.astype(float))
    assert result.second.statistic == pytest.approx(expected.statistic, rel=1e-12)
    assert result.second.p == pytest.approx(expected.pvalue)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert result.w == stats.shapiro(values.astype(float)).statistic
    written = json.loads(json.dumps(result.to_json(), allow_nan=False))
    assert written["approximate"] is True
    assert "5,000" in written["note"]
    assert set(written["second"]) == {"test", "statistic", "p"}


@pytest.mark.parametrize(("n", "second"), [(5_000, False), (5_001, True)])
def test_the_second_test_starts_beyond_5000(n: int, *, second: bool) -> None:
    values = pd.Series(np.random.default_rng(7).normal(size=n))
    assert (normality(values).second is not None) == second


def test_other_warnings_are_not_silenced(monkeypatch: pytest.MonkeyPatch) -> None:
    def warn(*_: object, **__: object) -> None:
        warnings.warn("something else", UserWarning, stacklevel=1)

    monkeypatch.setattr("pingouin.normality", warn)
    with pytest.raises(UserWarning, match="something else"):
        normality(pd.Series([1.0, 2.0, 4.0]))
