"""The benchmark of watched preferences, on few studies."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from benchmarks import monitoring


def test_the_usual_interval_equals_its_twin() -> None:
    shares, _ = monitoring.study(np.random.default_rng(2), people=40)
    for rate in (0.5, 0.58, 0.6, 0.62):
        excluded = []
        for n in range(monitoring.FIRST_USUAL_LOOK, 41):
            interval = stats.t.interval(
                0.95, n - 1, shares[:n].mean(), shares[:n].std(ddof=1) / np.sqrt(n)
            )
            excluded.append(not interval[0] <= rate <= interval[1])
        assert monitoring.usual_excludes(shares, rate) == any(excluded)


def test_the_studies_have_their_rate() -> None:
    shares, own = monitoring.study(np.random.default_rng(0), people=20_000)
    assert [shares.mean(), own] == pytest.approx([0.6, 0.6], abs=3e-3)
    single_questions, _ = monitoring.study(np.random.default_rng(0), people=500, questions=1)
    assert set(single_questions) == {0.0, 1.0}


def test_few_studies() -> None:
    result = monitoring.measure(0, 10)
    assert result["highest_error"] <= 0.2
    assert len(result["cases"]) == len(monitoring.DESIGNS) + len(monitoring.RATES)
    text = monitoring.markdown(result)
    assert "| 0.65 |" in text
    assert "budget: " in text
