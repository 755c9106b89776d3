"""Win matrix, rank ranges and clusters of systems, and ranks of metrics."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from hsfiq.analysis.resampling.bootstrap import Bootstrap
from hsfiq.analysis.resampling.permutation import Difference, Swaps
from hsfiq.analysis.statistics.comparison import Comparison
from hsfiq.analysis.systems.ranks import (
    better_pairs,
    cluster_numbers,
    metric_ranks,
    rank_ranges,
    win_matrix,
)
from hsfiq.analysis.systems.strengths import Strengths


def test_the_win_matrix_counts_each_pair() -> None:
    rng = np.random.default_rng(0)
    first = rng.integers(0, 3, 90)
    second = (first + rng.integers(1, 3, 90)) % 3
    rows = pd.DataFrame(
        {
            "first": first,
            "second": second,
            "preferred": rng.integers(0, 3, 90),
            "participant_id": rng.choice(["p", "q", "r"], 90),
            "query_id": "q",
        }
    )
    names = ["a", "b", "c", "never shown"]
    duels = win_matrix(rows, names, Bootstrap.of_rows(rows, unit="participant", n_resamples=20))
    assert len(duels) == 12
    for duel in duels:
        won = tied = lost = 0
        for row in rows.itertuples():
            sides = [names[row.first], names[row.second]]
            if {duel.system, duel.other} == set(sides):
                winner = None if row.preferred == 0 else sides[row.preferred - 1]
                tied += winner is None
                won += winner == duel.system
                lost += winner == duel.other
        assert (duel.wins, duel.ties, duel.losses) == (won, tied, lost)
        if "never shown" in {duel.system, duel.other}:
            assert duel.rate.reason == "no question compares the two systems"
        else:
            assert duel.rate.value == pytest.approx((won + tied / 2) / (won + tied + lost))
            assert duel.rate.ci.low <= duel.rate.value <= duel.rate.ci.high


def strengths_of(fitted: list[float], error: float, n: int = 400) -> Strengths:
    noise = np.random.default_rng(1).normal(0, error, (n, len(fitted)))
    values = np.array(fitted)
    return Strengths({}, values, np.vstack([values, values + noise]), None)


def bootstrap(n: int = 400) -> Bootstrap:
    rows = pd.DataFrame({"participant_id": list("abcdefgh"), "query_id": "q"})
    return Bootstrap.of_rows(rows, unit="participant", n_resamples=n)


def test_ranks_follow_from_the_pairs_that_differ() -> None:
    names = ["best", "second", "third", "last"]
    ranges = rank_ranges(strengths_of([3.0, 0.2, 0.0, -3.0], 0.2), names, bootstrap()).systems
    assert [*ranges] == names
    expected = [(1, 1, 1), (2, 2, 3), (3, 2, 3), (4, 4, 4)]
    assert [(each.rank, each.low, each.high) for each in ranges.values()] == expected
    assert [each.cluster for each in ranges.values()] == [1, 2, 2, 3]


def test_better_is_simultaneous_over_all_pairs() -> None:
    """The critical value is the quantile of the largest deviation, computed by loops."""
    strengths = strengths_of([0.9, 0.5, 0.1, -0.4, -1.1], 0.25, 60)
    n = 5
    deviations = {
        (i, j): [
            (resample[i] - resample[j]) - (strengths.fitted[i] - strengths.fitted[j])
            for resample in strengths.resampled[1:]
        ]
        for i in range(n)
        for j in range(i + 1, n)
    }
    error = {pair: np.std(each) for pair, each in deviations.items()}
    largest = [max(abs(deviations[pair][b]) / error[pair] for pair in error) for b in range(60)]
    critical = np.quantile(largest, 0.95)
    critical *= (8 / 7) ** 0.5 * stats.t.ppf(0.975, 7) / stats.norm.ppf(0.975)
    better = better_pairs(strengths, bootstrap(60))
    for i in range(n):
        for j in range(n):
            gap = strengths.fitted[i] - strengths.fitted[j]
            pair = (min(i, j), max(i, j))
            expected = i != j and gap > critical * error[pair]
            assert better[i, j] == expected
    assert better.any()
    assert not better[np.triu_indices(n)].all()


def test_a_cluster_ends_only_where_all_above_are_better_than_all_below() -> None:
    better = np.zeros((3, 3), dtype=bool)
    better[0, 2] = True  # neither differs from the one in the middle
    assert cluster_numbers(better, [0, 1, 2]) == {0: 1, 1: 1, 2: 1}
    better[0, 1] = True
    assert cluster_numbers(better, [0, 1, 2]) == {0: 1, 1: 2, 2: 2}


def test_undefined_rank_ranges() -> None:
    no_strengths = Strengths({}, np.full(2, np.nan), np.full((4, 2), np.nan), "a never lost")
    undefined = rank_ranges(no_strengths, ["a", "b"], bootstrap()).to_json()
    assert undefined == {"systems": None, "reason": "a never lost"}
    often = strengths_of([1.0, 0.0], 0.1)
    often.resampled[1:101] = np.nan
    assert "in 100 of 400 resamples" in str(rank_ranges(often, ["a", "b"], bootstrap()).reason)


def comparison(metric: str, other: str, difference: float, p: float) -> Comparison:
    rows = pd.DataFrame({"participant_id": ["a", "b"], "query_id": "q"})
    ci = Bootstrap.of_rows(rows, n_resamples=2).undefined_interval(rows)
    each = Difference(difference, p, p, "swaps", 2, 2, ci, Swaps())
    return Comparison(metric, other, each, each, each)


def test_metrics_are_ranked_as_in_the_wmt_tables() -> None:
    values = {"low": 0.1, "high": 0.6, "middle": 0.5, "close": 0.45}
    comparisons = [
        comparison("low", "high", -0.5, 0.001),
        comparison("low", "middle", -0.4, 0.001),
        comparison("low", "close", -0.35, 0.03),
        comparison("high", "middle", 0.1, 0.2),
        comparison("high", "close", 0.15, 0.04),
        comparison("middle", "close", 0.05, 0.5),
    ]
    ranks = metric_ranks(comparisons, values, "spearman")
    expected = [("high", 1), ("middle", 1), ("close", 2), ("low", 3)]
    assert [(each.metric, each.rank) for each in ranks] == expected
    assert ranks[0].p_below == {"middle": 0.2, "close": 0.04, "low": 0.001}
    assert ranks[3].p_below == {}


def test_a_metric_that_is_better_on_the_common_rows_is_not_ranked_below() -> None:
    ranks = metric_ranks([comparison("a", "b", -0.2, 0.001)], {"a": 0.5, "b": 0.4}, "tie_half")
    assert [each.rank for each in ranks] == [1, 1]
    assert ranks[0].p_below == {"b": 1.0}


def test_metrics_without_a_value_have_no_rank() -> None:
    only = [comparison("a", "b", math.nan, math.nan)]
    assert metric_ranks(only, {"a": 0.5, "b": math.nan}, "spearman") == []
    undefined = metric_ranks(only, {"a": 0.5, "b": 0.4}, "spearman")
    assert undefined[0].reason == "the two metrics cannot be compared"
