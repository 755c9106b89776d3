"""Sessions with figures computed by hand."""

from __future__ import annotations

from math import log, nan
from statistics import fmean, median

import numpy as np
import pytest
from scipy.stats import CensoredData, ecdf

from hsfiq.analysis.resampling.bootstrap import Estimate
from hsfiq.analysis.sessions.figures import weighted_medians
from hsfiq.analysis.sessions.measure import SystemMeasures
from hsfiq.analysis.sessions.ranks import Rules, allowed_ks
from hsfiq.errors import UnreadableInput
from tests.analysis.sessions.tables import Ranks, measured, random_ranks

THREE: dict[str, Ranks] = {"q1": [3, 1, 4], "q2": [12, 20, 6], "q3": [1]}
"""The target is found and lost again; it is never among the first 5; it is found at once."""


def values(estimates: tuple[Estimate, ...]) -> list[float]:
    return [pytest.approx(each.value, nan_ok=True) for each in estimates]


def three(rules: Rules) -> SystemMeasures:
    return measured({"a": THREE}, rules).systems["a"]


def test_three_sessions_by_hand() -> None:
    figures = three(Rules(ks=(1, 5))).by_round
    assert values(figures["hits@1"]) == [1 / 3, 2 / 3, 2 / 3]
    assert values(figures["hits@5"]) == [2 / 3, 2 / 3, 2 / 3]
    assert values(figures["recall@1"]) == [1 / 3, 2 / 3, 1 / 3]
    assert values(figures["mean_rank_current"]) == [16 / 3, 22 / 3, 11 / 3]
    assert values(figures["mean_rank_best"]) == [16 / 3, 14 / 3, 8 / 3]
    assert values(figures["median_rank_current"]) == [3, 1, 4]
    assert values(figures["median_rank_best"]) == [3, 1, 1]
    assert values(figures["mean_log_rank_best"]) == [
        (log(3) + log(12)) / 3, log(12) / 3, log(6) / 3,
    ]  # fmt: skip


def test_bri_by_hand() -> None:
    # ln of the best ranks: q1 ln 3, 0, 0; q2 ln 12, ln 12, ln 6; q3 0, 0, 0.
    bri = three(Rules(ks=(1,))).of_sessions["bri"]
    by_session = [log(3) / 2 / 2, (log(12) + (log(12) + log(6)) / 2) / 2, 0]
    assert bri.value == pytest.approx(sum(by_session) / 3)
    assert bri.n == 3


def test_sessions_that_have_ended_can_be_left_out() -> None:
    figures = three(Rules(ks=(1, 5), after_stop="drop")).by_round
    assert values(figures["recall@1"]) == [1 / 3, 1 / 2, 0]
    assert [each.n for each in figures["recall@1"]] == [3, 2, 2]
    assert values(figures["mean_rank_current"]) == [16 / 3, 21 / 2, 5]
    assert values(figures["hits@1"]) == [1 / 3, 2 / 3, 2 / 3]  # what was found stays found


def test_one_round_has_no_bri() -> None:
    bri = measured({"a": {"q1": [1], "q2": [2]}}, Rules(ks=(1,))).systems["a"].of_sessions["bri"]
    assert np.isnan(bri.value)
    assert "two rounds" in (bri.reason or "")
    assert bri.to_json()["value"] is None


def test_rounds_to_success_by_hand() -> None:
    # One of three succeeds in round 1. q3 has ended; of the two others one succeeds in round 2.
    success = three(Rules(ks=(1,))).success["rounds_to_success@1"]
    assert values(success.success) == [1 / 3, 2 / 3, 2 / 3]
    assert success.mean.value == pytest.approx(1 + 2 / 3 + 1 / 3)
    assert (success.median.value, success.n_events, success.n_censored) == (2, 2, 1)


def test_a_session_that_ends_early_is_censored() -> None:
    systems = {"a": {"q1": [9], "q2": [9, 1], "q3": [9, 9]}}
    result = measured(systems, Rules(ks=(1,))).systems["a"]
    success = result.success["rounds_to_success@1"]
    assert values(success.success) == [0, 1 / 2]  # of the two that go on
    assert result.by_round["hits@1"][1].value == pytest.approx(1 / 3)


def test_an_unknown_rank_makes_only_those_figures_undefined_that_it_decides() -> None:
    systems = {"a": {"q1": [None, 4], "q2": [2, 2]}}
    result = measured(systems, Rules(ks=(5, 20)), depth=10).systems["a"]
    figures = result.by_round
    assert values(figures["hits@5"]) == [1 / 2, 1]
    assert values(figures["hits@20"]) == [nan, 1]
    assert values(figures["mean_rank_current"]) == [nan, 3]
    assert figures["mean_rank_current"][0].reason == "the rank of 1 session is not recorded"
    assert np.isnan(result.of_sessions["bri"].value)
    assert result.success["rounds_to_success@5"].mean.value == pytest.approx(1.5)
    assert np.isnan(result.success["rounds_to_success@20"].mean.value)


def test_expected_ranks_among_ties() -> None:
    systems: dict[str, dict[str, Ranks]] = {"a": {"q1": [3], "q2": [3]}}
    tied = {"ties": 4, "earlier_ties": 2}
    expected = Rules(ks=(1, 3), ties="expected")
    figures = measured(systems, expected, rounds=tied).systems["a"].by_round
    assert values(figures["mean_rank_current"]) == [3]  # 1 + 4 / 2
    assert measured(systems, expected).systems["a"].by_round["mean_rank_current"][0].value == 3
    # Where the place among the ties is unknown, the expected rank lies between 1 and 5.
    unknown = measured(systems, expected, rounds={"ties": 4}).systems["a"].by_round
    assert np.isnan(unknown["mean_rank_current"][0].value)
    assert np.isnan(unknown["hits@3"][0].value)
    of_five = measured(systems, Rules(ks=(5,), ties="expected"), rounds={"ties": 4})
    assert of_five.systems["a"].by_round["hits@5"][0].value == 1


def test_searches_without_a_target_have_no_rank() -> None:
    systems: dict[str, dict[str, Ranks]] = {"a": {"q1": [None, None], "q2": [None]}}
    result = measured(systems, Rules(ks=(1,)), has_target=False, participant_id="p1").systems["a"]
    assert result.by_round["hits@1"][0].reason == "no session has a target"
    assert result.by_round["words"][0].value == 2


def test_repeats_and_words() -> None:
    rows = {"reference": "same", "words": 3, "is_repeated_text": True}
    systems: dict[str, dict[str, Ranks]] = {"a": {"q1": [2, 1], "q2": [2, 2], "q3": [2]}}
    result = measured(systems, Rules(ks=(1,)), rounds=rows).systems["a"]
    assert result.of_sessions["repeats"].value == pytest.approx(2 / 3)
    assert result.of_sessions["repeats_without_hit@1"].value == pytest.approx(1 / 2)
    assert result.of_sessions["repeated_texts"].value == 1
    assert values(result.by_round["words"]) == [3, 3]
    assert result.by_round["words"][1].n == 2


def test_differences_are_over_the_queries_of_both() -> None:
    systems: dict[str, dict[str, Ranks]] = {
        "a": {"q1": [3, 1], "q2": [5, 5], "only": [50, 50]},
        "b": {"q2": [9, 2], "q1": [9, 4, 1]},
    }
    analysis = measured(systems, Rules(ks=(1, 5)))
    difference = analysis.differences["b"]
    assert (difference.minus, difference.round, difference.n_queries) == ("a", 2, 2)
    assert difference.figures["mean_rank_current"].value == pytest.approx(3 - 3)
    assert difference.figures["hits@1"].value == pytest.approx(0 - 1 / 2)
    apart = measured({"a": {"q1": [1]}, "b": {"q2": [1]}}, Rules(ks=(1,))).differences["b"]
    assert apart.figures["hits@1"].reason == "the systems have no query in common"


@pytest.mark.parametrize(
    ("wanted", "stop_at", "ks"),
    [((), None, (1, 5, 10, 50)), ((), 10, (10, 50)), ((), 99, (99,)), ((20, 10), 10, (10, 20))],
)
def test_ks_after_a_stop(wanted: tuple[int, ...], stop_at: int | None, ks: tuple[int, ...]) -> None:
    assert allowed_ks(wanted, stop_at) == ks


def test_a_k_that_a_stop_censors_is_refused() -> None:
    with pytest.raises(UnreadableInput, match="censors Hits@1; ask for K of 10 or more"):
        measured({"a": {"q1": [3]}}, Rules(ks=(1, 10)), stop_at=10)


def test_searches_that_people_end_give_a_lower_bound() -> None:
    analysis = measured(
        {"a": {"q1": [3], "q2": [9, 1]}}, Rules(ks=(1,)), stop_reason="found", participant_id="p"
    )
    assert "1 session ended when the participant chose" in analysis.notes[0]


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
