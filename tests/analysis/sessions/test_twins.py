"""The measures of random sessions against literal loops and scipy's Kaplan-Meier estimate."""

from __future__ import annotations

from math import log
from statistics import fmean, median

import numpy as np
import pytest
from scipy.stats import CensoredData, ecdf

from hsfiq.analysis.sessions.figures import weighted_medians
from hsfiq.analysis.sessions.ranks import Rules
from tests.analysis.sessions.tables import measured, random_ranks

N_ROUNDS, KS = 4, (1, 3)


def best(ranks: list[int], number: int) -> int:
    return min(ranks[:number])


def current(ranks: list[int], number: int) -> int:
    return ranks[min(number, len(ranks)) - 1]


@pytest.mark.parametrize("seed", range(3))
def test_every_figure_equals_a_loop(seed: int) -> None:
    given = random_ranks(seed, 25, N_ROUNDS)
    sessions = [[rank for rank in ranks if rank is not None] for ranks in given.values()]
    result = measured({"a": given}, Rules(ks=KS)).systems["a"]
    for number in range(1, result.n_rounds + 1):
        now = [current(ranks, number) for ranks in sessions]
        so_far = [best(ranks, number) for ranks in sessions]
        expected = {
            **{f"hits@{k}": fmean(rank <= k for rank in so_far) for k in KS},
            **{f"recall@{k}": fmean(rank <= k for rank in now) for k in KS},
            "mean_rank_current": fmean(now),
            "median_rank_current": median(now),
            "mean_log_rank_current": fmean(map(log, now)),
            "mean_rank_best": fmean(so_far),
            "median_rank_best": median(so_far),
            "mean_log_rank_best": fmean(map(log, so_far)),
        }
        for name, value in expected.items():
            assert result.by_round[name][number - 1].value == pytest.approx(value), name
    bri = [
        fmean(
            (log(best(ranks, number)) + log(best(ranks, number + 1))) / 2
            for number in range(1, result.n_rounds)
        )
        for ranks in sessions
    ]
    assert result.of_sessions["bri"].value == pytest.approx(fmean(bri))


@pytest.mark.parametrize("k", KS)
def test_rounds_to_success_equal_scipys(k: int) -> None:
    given = random_ranks(7, 40, N_ROUNDS)
    times, censored = [], []
    for ranks in given.values():
        hits = [number for number, rank in enumerate(ranks, start=1) if rank and rank <= k]
        (times if hits else censored).append(hits[0] if hits else len(ranks))
    success = measured({"a": given}, Rules(ks=(k,))).systems["a"].success[f"rounds_to_success@{k}"]
    survival = ecdf(CensoredData(uncensored=times, right=censored)).sf
    expected = 1 - survival.evaluate(np.arange(1, N_ROUNDS + 1))
    assert [each.value for each in success.success] == pytest.approx(expected)


def test_without_early_ends_success_is_hits() -> None:
    given = {name: ranks * N_ROUNDS for name, ranks in random_ranks(1, 30, 1).items()}
    result = measured({"a": given}, Rules(ks=(3,))).systems["a"]
    success = result.success["rounds_to_success@3"].success
    assert [each.value for each in success] == pytest.approx(
        [each.value for each in result.by_round["hits@3"]]
    )


def test_medians_of_resamples_equal_those_of_repeated_values() -> None:
    rng = np.random.default_rng(0)
    values = rng.integers(1, 6, 15).astype(float)
    included = rng.random(15) < 0.7
    weights = rng.integers(0, 3, (50, 15)).astype(float)
    weights[0] = 0
    expected = [
        np.median(drawn) if len(drawn := np.repeat(values, row.astype(int) * included)) else np.nan
        for row in weights
    ]
    assert weighted_medians(values, included, weights) == pytest.approx(expected, nan_ok=True)
