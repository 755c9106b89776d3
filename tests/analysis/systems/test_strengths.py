"""Bradley-Terry and Davidson strengths, against likelihoods, evalica and known truths."""

from __future__ import annotations

import math

import evalica
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from scipy import stats
from scipy.optimize import minimize

from hsfiq.analysis.resampling.bootstrap import Bootstrap
from hsfiq.analysis.systems.strengths import (
    Design,
    StrengthsAndSide,
    count_wins,
    kendall_tau,
    log_strengths,
    resampled_log_strengths,
    resampled_wins,
    strengths_and_side,
    why_undefined,
)
from tests.analysis.studies import few

TWO_NAMES = ["a", "b", "c", "d"]

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
    assert (why_undefined(wins, TWO_NAMES) is None) == exist
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


@pytest.mark.parametrize(
    ("wins", "reason"),
    [
        (np.zeros((1, 1)), "strengths need 2 systems; there is 1"),
        (np.array([[0, 3], [0, 0.0]]), "a never lost to the other systems"),
        (np.zeros((2, 2)), "no question compares a with the other systems"),
    ],
)
def test_reasons_of_bradley_terry(wins: np.ndarray, reason: str) -> None:
    explanation = why_undefined(wins, TWO_NAMES[: len(wins)])
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


NAMES = ["a", "b", "c"]


def questions(counts: dict[tuple[int, int], tuple[int, int, int]], people: int = 4) -> pd.DataFrame:
    """Questions by (system of set 1, of set 2): how often set 1, set 2 and neither is preferred."""
    shown = [
        (first, second, preferred)
        for (first, second), times in counts.items()
        for preferred, n in zip((1, 2, 0), times, strict=True)
        for _ in range(n)
    ]
    rows = pd.DataFrame(shown, columns=["first", "second", "preferred"])
    rows["participant_id"] = [f"p{number % people}" for number in range(len(rows))]
    return rows.assign(query_id="q")


WITH_TIES = {
    (0, 1): (20, 9, 6),
    (1, 0): (12, 11, 4),
    (0, 2): (25, 6, 3),
    (2, 0): (9, 14, 5),
    (1, 2): (17, 8, 9),
    (2, 1): (11, 13, 2),
}
WITHOUT_TIES = {pair: (first, second, 0) for pair, (first, second, _) in WITH_TIES.items()}


def fitted(counts: dict[tuple[int, int], tuple[int, int, int]], n: int = 3) -> StrengthsAndSide:
    rows = questions(counts)
    return strengths_and_side(rows, NAMES[:n], Bootstrap.of_rows(rows, n_resamples=30))


def log_likelihood(
    counts: dict[tuple[int, int], tuple[int, int, int]],
    strengths: list[float],
    side: float,
    nu: float,
) -> float:
    total = 0.0
    for (first, second), times in counts.items():
        x = strengths[first] - strengths[second] + side
        terms = (math.exp(x / 2), math.exp(-x / 2), nu)
        total += sum(
            n * math.log(term / sum(terms)) for n, term in zip(times, terms, strict=True) if n
        )
    return total


def test_parameters_are_where_the_literal_likelihood_is_greatest() -> None:
    def loss(free: np.ndarray) -> float:
        strengths = [free[0], free[1], -free[0] - free[1]]
        return -log_likelihood(WITH_TIES, strengths, free[2], math.exp(free[3]))

    expected = minimize(loss, np.zeros(4), method="BFGS", options={"gtol": 1e-8}).x
    result = fitted(WITH_TIES)
    assert [result.strength[name].value for name in "ab"] == pytest.approx(expected[:2], abs=1e-5)
    assert result.side.value == pytest.approx(expected[2], abs=1e-5)
    assert result.log_nu.value == pytest.approx(expected[3], abs=1e-5)


def test_wald_intervals_come_from_the_curvature_of_the_literal_likelihood() -> None:
    result = fitted(WITHOUT_TIES)
    free = np.array([result.strength["a"].value, result.strength["b"].value, result.side.value])

    def loss(at: np.ndarray) -> float:
        return -log_likelihood(WITHOUT_TIES, [at[0], at[1], -at[0] - at[1]], at[2], 0.0)

    step = 1e-4 * np.eye(3)
    information = [
        [
            (loss(free + x + y) - loss(free + x - y) - loss(free - x + y) + loss(free - x - y))
            / 4e-8
            for y in step
        ]
        for x in step
    ]
    error = math.sqrt(np.linalg.inv(information)[2, 2])
    low, high = result.side.wald
    assert (high - low) / 2 == pytest.approx(1.959964 * error, rel=1e-4)
    assert (high + low) / 2 == pytest.approx(result.side.value)


def test_shown_on_both_sides_equally_often_it_is_evalicas_model_of_ties() -> None:
    both = {
        (i, j): tuple(
            WITH_TIES[i, j][k] + WITH_TIES[j, i][swapped] for k, swapped in enumerate((1, 0, 2))
        )
        for i, j in WITH_TIES
    }
    outcomes = (evalica.Winner.X, evalica.Winner.Y, evalica.Winner.Draw)
    games = [
        (i, j, winner, n)
        for (i, j), times in both.items()
        for winner, n in zip(outcomes, times, strict=True)
    ]
    xs, ys, winners, weights = map(list, zip(*games, strict=True))
    newman = evalica.newman(xs, ys, winners, weights=weights, tolerance=1e-12, limit=100_000)
    expected = np.log(newman.scores.reindex(range(3)).to_numpy())
    result = fitted(both)  # type: ignore[arg-type]
    assert result.side.value == pytest.approx(0, abs=1e-9)
    assert [each.value for each in result.strength.values()] == pytest.approx(
        expected - expected.mean(), abs=1e-4
    )
    assert math.exp(result.log_nu.value) == pytest.approx(2 * newman.v, rel=1e-3)


def test_without_side_effect_and_ties_it_is_bradley_terry() -> None:
    wins = np.array([[0.0, 30, 12], [14, 0, 21], [9, 17, 0]])
    both = {
        (i, j): (int(wins[i, j]), int(wins[j, i]), 0) for i in range(3) for j in range(3) if i != j
    }
    result = fitted(both)
    assert [each.value for each in result.strength.values()] == pytest.approx(
        log_strengths(wins), abs=1e-6
    )
    assert result.log_nu.reason == "no answer is a tie"


def test_the_side_is_separated_from_the_systems() -> None:
    """Equal systems, odds of 3 for set 1, and one of them more often shown as set 1."""
    result = fitted({(0, 1): (60, 20, 0), (1, 0): (15, 5, 0)}, 2)
    assert result.strength["a"].value == pytest.approx(0, abs=1e-9)
    assert result.side.value == pytest.approx(math.log(3))
    assert result.set_1_rate == pytest.approx(0.75)


def test_resamples_are_fitted_like_their_rows() -> None:
    rows = questions(WITH_TIES)
    bootstrap = Bootstrap.of_rows(rows, unit="participant", n_resamples=6)
    result = strengths_and_side(rows, NAMES, bootstrap)
    one_by_one = []
    for weights in np.concatenate(list(bootstrap.weights(rows)))[1:]:
        repeated = rows.loc[rows.index.repeat(weights.astype(int))].reset_index(drop=True)
        resample = strengths_and_side(repeated, NAMES, Bootstrap.of_rows(repeated, n_resamples=1))
        one_by_one.append(resample.side.value)
    expected = bootstrap.interval(np.array([result.side.value, *one_by_one]), rows)
    ends = pytest.approx((expected.low, expected.high), abs=1e-7)
    assert (result.side.ci.low, result.side.ci.high) == ends


@pytest.mark.parametrize(
    ("counts", "n", "reason"),
    [
        ({(0, 1): (6, 5, 0)}, 2, "a was always set 1, so side and system cannot be separated"),
        ({(0, 1): (6, 0, 0), (1, 0): (0, 5, 0)}, 2, "a never lost to the other systems, so its"),
        ({(0, 1): (6, 0, 0), (1, 0): (5, 0, 0)}, 2, "the likelihood has no maximum"),
        ({(0, 1): (6, 5, 1), (1, 2): (3, 4, 0)}, 3, "a was always set 1"),
        ({(0, 1): (6, 5, 1)}, 3, "no question compares a, b with the other systems"),
    ],
)
def test_reasons(counts: dict[tuple[int, int], tuple[int, int, int]], n: int, reason: str) -> None:
    result = fitted(counts, n)
    assert str(result.reason).startswith(reason)
    assert result.to_json()["strength"] is None


def test_a_resample_without_a_system_or_with_one_outcome_is_undefined() -> None:
    pairs = np.array([[0, 1], [1, 0], [1, 2], [2, 1]])
    design = Design.of_pairs(pairs, 3, has_ties=False)
    counts = np.array(
        [
            [[5, 4], [3, 5], [4, 4], [6, 5]],
            [[5, 4], [3, 5], [0, 0], [0, 0]],
            [[5, 0], [0, 5], [4, 4], [6, 5]],
            [[0, 0], [0, 0], [0, 0], [0, 0]],
        ],
        dtype=np.float64,
    )
    assert np.isnan(design.fit(counts)).any(axis=1).tolist() == [False, True, True, True]
