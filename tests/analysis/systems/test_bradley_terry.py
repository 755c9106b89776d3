from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from scipy import stats

from hsfiq.analysis.resampling.bootstrap import Bootstrap
from hsfiq.analysis.systems.strengths import (
    count_wins,
    kendall_tau,
    log_strengths,
    resampled_log_strengths,
    resampled_wins,
    why_undefined,
)
from tests.analysis.studies import few

NAMES = ["a", "b", "c", "d"]

tables = arrays.arrays(
    np.float64, (4, 4), elements=st.sampled_from([0.0, 0.0, 0.5, 1.0, 2.0, 7.0])
).map(lambda wins: wins * (1 - np.eye(4)))


def reaches(wins: np.ndarray, start: int) -> set[int]:
    """The systems reachable through chains of wins."""
    reached, unvisited = {start}, [start]
    while unvisited:
        winner = unvisited.pop()
        for loser in range(len(wins)):
            if wins[winner, loser] > 0 and loser not in reached:
                reached.add(loser)
                unvisited.append(loser)
    return reached


def gradient(wins: np.ndarray, strengths: np.ndarray) -> np.ndarray:
    """Of the Bradley-Terry log-likelihood, written out: 0 at its maximum."""
    slope = np.zeros(len(wins))
    for i in range(len(wins)):
        for j in range(len(wins)):
            if i != j:
                expected = 1 / (1 + math.exp(strengths[j] - strengths[i]))
                slope[i] += wins[i, j] - (wins[i, j] + wins[j, i]) * expected
    return slope


@few
@given(tables)
def test_strengths_are_where_the_likelihood_is_greatest(wins: np.ndarray) -> None:
    strengths = log_strengths(wins)
    exist = all(reaches(wins, start) == set(range(4)) for start in range(4))
    assert (why_undefined(wins, NAMES) is None) == exist
    assert np.isnan(strengths).any() != exist
    if exist:
        assert gradient(wins, strengths) == pytest.approx(np.zeros(4), abs=1e-6)
        assert strengths.sum() == pytest.approx(0, abs=1e-12)


def test_fitting_many_at_once_equals_evalica_one_by_one() -> None:
    rng = np.random.default_rng(0)
    wins = rng.integers(0, 3, (300, 4, 4)) * (1.0 - np.eye(4))
    result = resampled_log_strengths(wins)
    one_by_one = np.array([log_strengths(counts) for counts in wins])
    assert 20 < np.isnan(one_by_one).any(axis=1).sum() < 280
    np.testing.assert_allclose(result, one_by_one, atol=1e-7)


def test_two_systems_have_the_log_odds_between_them() -> None:
    strengths = log_strengths(np.array([[0.0, 30.0], [10.0, 0.0]]))
    assert strengths[0] - strengths[1] == pytest.approx(math.log(3))


@pytest.mark.parametrize(
    ("wins", "reason"),
    [
        (np.zeros((1, 1)), "strengths need 2 systems; there is 1"),
        (np.array([[0, 3], [0, 0.0]]), "a never lost to the other systems"),
        (np.zeros((2, 2)), "nothing compares a with the other systems"),
    ],
)
def test_reasons(wins: np.ndarray, reason: str) -> None:
    explanation = why_undefined(wins, NAMES[: len(wins)])
    assert explanation is not None
    assert explanation.startswith(reason)
    assert np.isnan(log_strengths(wins)).all()
    assert np.isnan(resampled_log_strengths(wins[None])).all()


def test_wins_are_counted_in_each_resample() -> None:
    rng = np.random.default_rng(1)
    n = 60
    rows = pd.DataFrame(
        {"participant_id": rng.choice(["p", "q", "r"], n), "query_id": np.arange(n).astype(str)}
    )
    first = rng.integers(0, 3, n)
    second = (first + rng.integers(1, 3, n)) % 3
    share = rng.choice([0, 0.5, 1], n)
    bootstrap = Bootstrap.of_rows(rows, unit="participant", n_resamples=5)
    result = resampled_wins(rows, first, second, share, 3, bootstrap)
    weights = np.concatenate(list(bootstrap.weights(rows)))
    for resample, counts in enumerate(weights.astype(int)):
        repeated = [np.repeat(column, counts) for column in (first, second, share)]
        np.testing.assert_allclose(result[resample], count_wins(*repeated, 3))


@few
@given(*[st.lists(st.integers(-3, 3), min_size=5, max_size=5)] * 2)
def test_tau_is_scipys(first: list[int], second: list[int]) -> None:
    result = kendall_tau(np.array(first, float), np.array(second, float))
    expected = (
        math.nan
        if len(set(first)) == 1 or len(set(second)) == 1
        else stats.kendalltau(first, second).statistic
    )
    assert float(result) == pytest.approx(expected, nan_ok=True)
