"""Verdicts and TOST against their definitions, a published rule and simulated studies."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from hsfiq.analysis.analyze import analyze
from hsfiq.analysis.data.release import Release
from hsfiq.analysis.reports.correlation import NOTHING, equivalence_section
from hsfiq.analysis.reports.report import analysis_text
from hsfiq.analysis.reports.text import section_lines
from hsfiq.analysis.resampling.bootstrap import Bootstrap, Estimate
from hsfiq.analysis.resampling.intervals import ConfidenceInterval, percentile_interval
from hsfiq.analysis.resampling.permutation import Difference, Swaps, holm
from hsfiq.analysis.statistics.comparison import Comparison, compare_all
from hsfiq.analysis.systems.ranks import Duel
from hsfiq.analysis.systems.strengths import strengths_and_side
from hsfiq.analysis.systems.systems import compared_systems, duels_of, names_of
from hsfiq.analysis.verdicts import (
    Equivalence,
    Verdict,
    compared_metrics,
    compared_systems_by,
    decided,
    equivalences,
)
from hsfiq.cli import run
from hsfiq.errors import UnreadableInput
from tests.analysis.drawn_releases import BEST_FIRST
from tests.analysis.studies import Question, make_release

Z = stats.norm.ppf(0.975)


def interval(low: float, high: float, reason: str | None = None) -> ConfidenceInterval:
    return ConfidenceInterval(low, high, 0.95, "test", "participant", 40, 100, 0, 0, None, reason)


def duel(rate: float, low: float, high: float, names: tuple[str, str] = ("a", "b")) -> Duel:
    return Duel(*names, 3, 0, 2, Estimate(rate, 5, interval(low, high)))


def result_of(each: Duel) -> Equivalence:
    (result,) = equivalences(0.05, [], [each])
    return result


def test_two_one_sided_tests_by_hand() -> None:
    """A rate of 0.52 with a standard error of 0.015: z = 0.07 / 0.015 and 0.03 / 0.015."""
    result = result_of(duel(0.52, 0.52 - Z * 0.015, 0.52 + Z * 0.015))
    assert result.difference == pytest.approx(0.02)
    assert result.p == pytest.approx(stats.norm.sf(2.0))
    half = 1.6448536 * 0.015
    assert (result.low, result.high) == pytest.approx((0.02 - half, 0.02 + half))
    assert result.is_equivalent is True
    assert (result.statistic, result.n_clusters, result.unit) == ("preference", 40, "participant")


def test_equivalence_is_a_90_percent_interval_within_the_margin() -> None:
    """On both sides, also of lopsided intervals."""
    rng = np.random.default_rng(2)
    for _ in range(200):
        rate = rng.uniform(0.42, 0.58)
        result = result_of(duel(rate, rate - rng.uniform(0.01, 0.1), rate + rng.uniform(0.01, 0.1)))
        is_inside = result.low > -0.05 and result.high < 0.05
        assert result.is_equivalent == is_inside
        assert (result.p <= 0.05) == is_inside


def test_students_intervals_give_students_test() -> None:
    half = stats.t.ppf(0.975, 7) * 0.015
    each = duel(0.52, 0.52 - half, 0.52 + half)
    assert each.rate.ci is not None
    ci = replace(each.rate.ci, df=7.0)
    result = result_of(replace(each, rate=replace(each.rate, ci=ci)))
    assert result.p == pytest.approx(stats.t.sf(2.0, 7))
    assert result.high == pytest.approx(0.02 + stats.t.ppf(0.95, 7) * 0.015)


def test_the_error_at_the_margin_is_5_percent() -> None:
    """1,000 studies of 60 participants whose true rate is 0.55, by their bootstrap intervals."""
    rng, claimed = np.random.default_rng(8), 0
    for _ in range(1000):
        shares = rng.binomial(25, np.clip(rng.normal(0.55, 0.08, 60), 0, 1)) / 25
        drawn = shares[rng.integers(60, size=(400, 60))].mean(axis=1)
        ci = percentile_interval(drawn, unit="participant", n_clusters=60, seed=0)
        each = Duel("a", "b", 1, 0, 1, Estimate(float(shares.mean()), 60, ci))
        claimed += bool(result_of(each).is_equivalent)
    assert 0.03 < claimed / 1000 < 0.075


def comparison(difference: float, half: float) -> Comparison:
    ci = interval(difference - half, difference + half)
    result = Difference(difference, 0.5, 0.5, "test", 100, 40, ci, Swaps())
    return Comparison("m", "o", result, replace(result, difference=float("nan"), reason="no value"),
                      result)  # fmt: skip


def test_metrics_are_tested_by_each_statistic() -> None:
    rho, tie_half, symmetric = equivalences(0.1, [comparison(0.01, 0.02)], [])
    assert (rho.of, rho.first, rho.second, rho.statistic) == ("metrics", "m", "o", "spearman")
    assert rho.is_equivalent is symmetric.is_equivalent is True
    assert math.isnan(tie_half.p)
    assert (tie_half.is_equivalent, tie_half.reason) == (None, "no value")
    assert tie_half.to_json()["p"] is None


def test_holm_is_over_the_pairs_of_systems_and_pairs_count_once() -> None:
    duels = [
        duel(rate, rate - 0.03, rate + 0.03, names)
        for rate, names in ((0.5, ("a", "b")), (0.5, ("b", "a")), (0.51, ("a", "c")))
    ]
    results = equivalences(0.05, [], duels)
    assert [(each.first, each.second) for each in results] == [("a", "b"), ("a", "c")]
    expected = holm(np.array([each.p for each in results]))
    assert [each.p_holm for each in results] == pytest.approx(expected)


def test_no_spread_gives_no_test() -> None:
    flat = result_of(duel(0.5, 0.5, 0.5))
    assert (flat.is_equivalent, math.isnan(flat.p)) == (None, True)
    assert "spread is unknown" in (flat.reason or "")
    estimate = Estimate(0.5, 2, interval(math.nan, math.nan, "2 clusters"))
    single_vote = Duel("a", "b", 1, 0, 1, estimate)
    assert result_of(single_vote).reason == "2 clusters"
    never = Duel("a", "b", 0, 0, 0, Estimate(math.nan, 0, None, "never compared"))
    assert result_of(never).reason == "never compared"


@pytest.mark.parametrize("margin", [0.0, -0.1, 0.5, math.nan])
def test_impossible_margins_are_refused(margin: float) -> None:
    with pytest.raises(UnreadableInput, match="is not between"):
        equivalences(margin, [], [])


def test_a_verdict_that_is_undefined_has_its_reason(drawn: tuple[Release, pd.Series]) -> None:
    duels = duels_of(drawn[0], Bootstrap.of_release(drawn[0], n_resamples=100))
    tested = equivalences(0.05, [], duels)
    tested[0] = replace(tested[0], is_equivalent=True)
    tested[1] = replace(tested[1], is_equivalent=None, low=math.nan, reason="too few")
    lines = list(section_lines(equivalence_section(tested)))
    assert sum(line.endswith("  equivalent") for line in lines) == 1
    assert sum(line.endswith("  not shown") for line in lines) == 4  # of the pairs of four systems
    assert lines[-1] == "    (a) too few"
    assert equivalence_section([]).blocks == (NOTHING,)


def test_a_release_without_systems_has_no_duels(drawn: tuple[Release, pd.Series]) -> None:
    unnamed = replace(drawn[0], sets=drawn[0].sets.assign(system=None))
    assert duels_of(unnamed, Bootstrap.of_release(drawn[0], n_resamples=10)) == []


def test_an_impossible_margin_is_refused_first(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["analyze", "nowhere", "--metric", "recall@5", "--equivalence", "0.7"]) == 2
    assert "0.7 is not between 0 and 0.5" in capsys.readouterr().err


# Verdicts.


def verdicts_on_systems(
    release: Release, bootstrap: Bootstrap, margin: float | None = None
) -> list[Verdict]:
    return decided(compared_systems_by("win_rate", release, bootstrap, margin))


def of_two_systems(n: int, wins: int) -> Release:
    """Questions of 12 participants about the systems a and b; a wins so many of them.

    The sides alternate within each participant.
    """
    questions, systems = [], []
    won_by_a = np.random.default_rng(0).permutation(np.arange(n) < wins)
    for number, won in enumerate(won_by_a):
        is_first = number // 12 % 2 == 0
        questions.append(Question(1 if won == is_first else 2, participant=f"p{number % 12}"))
        systems.append(("a", "b") if is_first else ("b", "a"))
    release = make_release(questions)
    first, second = zip(*systems, strict=True)
    return replace(
        release,
        preferences=release.preferences.assign(system_1=first, system_2=second),
        sets=release.sets.assign(system=[name for pair in systems for name in pair]),
    )


def test_verdicts_on_two_systems_are_those_of_their_rate() -> None:
    """With balanced sides, the model's rate is the plain share."""
    release = of_two_systems(240, 168)
    bootstrap = Bootstrap.of_release(release, n_resamples=400)
    (verdict,) = verdicts_on_systems(release, bootstrap)
    assert (verdict.a, verdict.b, verdict.verdict, verdict.n) == ("a", "b", "better", 240)
    assert verdict.difference == pytest.approx(168 / 240 - 0.5, abs=0.01)
    assert verdict.ci is not None
    assert 0 < verdict.ci.low < verdict.difference < verdict.ci.high
    (reverse,) = verdicts_on_systems(of_two_systems(240, 72), bootstrap)
    assert (reverse.a, reverse.b, reverse.difference) == ("b", "a", pytest.approx(0.2, abs=0.01))


@pytest.mark.parametrize(
    ("wins", "margin", "word"),
    [(120, None, "undecided"), (120, 0.2, "equivalent"), (120, 0.001, "undecided")],
)
def test_systems_are_as_good_only_with_a_margin(wins: int, margin: float, word: str) -> None:
    release = of_two_systems(240, wins)
    bootstrap = Bootstrap.of_release(release, n_resamples=400)
    (verdict,) = verdicts_on_systems(release, bootstrap, margin)
    assert verdict.verdict == word


def test_participants_who_all_answer_alike_give_no_verdict() -> None:
    release = of_two_systems(48, 24)
    in_turn = release.preferences.assign(preferred=[1, 2] * 12 + [2, 1] * 12)
    release = replace(release, preferences=in_turn.assign(participant_id=["p1", "p2"] * 24))
    (verdict,) = verdicts_on_systems(release, Bootstrap.of_release(release, n_resamples=100))
    assert verdict.verdict == "undefined"
    assert verdict.reason


def test_an_undefined_verdict_has_a_reason() -> None:
    release = of_two_systems(24, 24)
    bootstrap = Bootstrap.of_release(release, n_resamples=100)
    (verdict,) = verdicts_on_systems(release, bootstrap, 0.1)
    assert (verdict.verdict, math.isnan(verdict.difference)) == ("undefined", True)
    assert verdict.reason is not None
    assert "never lost" in verdict.reason


def test_p_is_adjusted_for_all_pairs_best_first(drawn: tuple[Release, pd.Series]) -> None:
    """Against a plain fit: log odds of the differences, Student's p, Holm by hand."""
    release, _ = drawn
    bootstrap = Bootstrap.of_release(release, n_resamples=200)
    verdicts = verdicts_on_systems(release, bootstrap)
    names = names_of(release)
    rows = compared_systems(release.preferences, names)
    model = strengths_and_side(rows, names, bootstrap)
    strength = {name: model.resampled[:, place] for place, name in enumerate(names)}
    p = [bootstrap.p(strength[each.a] - strength[each.b], rows) for each in verdicts]
    order = sorted(range(len(p)), key=p.__getitem__)
    adjusted, largest = {}, 0.0
    for place, index in enumerate(order):
        largest = max(largest, min(1.0, p[index] * (len(p) - place)))
        adjusted[index] = largest
    assert [each.p_holm for each in verdicts] == pytest.approx([adjusted[i] for i in range(len(p))])
    assert [(each.a, each.b) for each in verdicts] == list(combinations(BEST_FIRST, 2))
    for each in verdicts:
        odds = float(strength[each.a][0] - strength[each.b][0])
        assert each.difference == pytest.approx(1 / (1 + math.exp(-odds)) - 0.5)


def test_verdicts_on_metrics_have_the_better_one_first(drawn: tuple[Release, pd.Series]) -> None:
    release, utilities = drawn
    noise = pd.Series(np.random.default_rng(0).normal(size=len(utilities)), utilities.index)
    bootstrap = Bootstrap.of_release(release, n_resamples=200)
    values = {"noise": noise, "oracle": utilities, "twin": utilities}
    comparisons = compare_all(release, values, bootstrap)
    differences = [(each.metric, each.other, each.tie_half) for each in comparisons]
    third, first, second = decided(compared_metrics(differences, "tie_half", 0.05))
    assert {each.statistic for each in (first, second, third)} == {"tie_half"}
    assert third.pair == {"oracle", "twin"}
    assert (first.a, first.b, first.verdict) == ("oracle", "noise", "better")
    assert (second.a, second.b, second.verdict) == ("twin", "noise", "better")
    assert first.ci is not None
    assert 0 < first.ci.low < first.difference < first.ci.high
    plain = comparisons[0].tie_half
    assert first.difference == -plain.difference
    assert (third.difference, third.verdict) == (0, "undecided")


def test_analyzes_without_a_metric_start_with_verdicts_which_say_that_they_are_simulated(
    drawn: tuple[Release, pd.Series],
) -> None:
    release, _ = drawn
    for simulated in (True, False):
        analysis = analyze(replace(release, simulated=simulated), [], margin=0.05)
        result = analysis.to_json()
        assert next(iter(result)) == "verdicts"
        assert {each.simulated for each in analysis.verdicts} == {simulated}
        first = result["verdicts"][0]
        assert first["kind"] == "systems"
        assert {"a", "b", "statistic", "difference", "ci", "p_holm", "verdict"} <= set(first)
        assert f"{BEST_FIRST[0]} to {BEST_FIRST[1]}" in analysis_text(analysis)
