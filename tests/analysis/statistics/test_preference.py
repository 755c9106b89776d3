"""Preferences: agreement with a metric, and the effect of the side."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from hsfiq.analysis.data.metrics import Recall
from hsfiq.analysis.data.release import Release
from hsfiq.analysis.people.participants import participants
from hsfiq.analysis.power import PUBLISHED, Slopes, draw_study
from hsfiq.analysis.resampling.bootstrap import Bootstrap
from hsfiq.analysis.resampling.intervals import NO_SPREAD
from hsfiq.analysis.resampling.permutation import Swaps
from hsfiq.analysis.sensitivity import conclude, jackknife
from hsfiq.analysis.statistics import preference
from hsfiq.analysis.statistics.accuracy import margins
from hsfiq.analysis.statistics.comparison import compare_all
from hsfiq.analysis.statistics.preference import (
    RATES,
    PreferenceRates,
    Rate,
    given_tie,
    position_bias,
    preference_rates,
    sign_flip_p,
)
from tests.analysis import reference
from tests.analysis.studies import (
    Question,
    bootstrap_of,
    clustered_ends,
    few,
    make_release,
    studies,
    values_of,
    with_sides_swapped,
)


@few
@given(st.lists(st.sampled_from([0, 1, 2]), max_size=60))
def test_equals_the_definition_and_scipy(answers: list[int]) -> None:
    result = position_bias(make_release([Question(answer) for answer in answers]).preferences)
    first, second = answers.count(1), answers.count(2)
    assert (result.n, result.human_ties) == (first + second, answers.count(0))
    if first + second == 0:
        assert math.isnan(result.rate)
        assert result.to_json()["reason"] == "no question has a preference"
        return
    assert result.rate == first / (first + second)
    assert result.p == pytest.approx(reference.binomial_p(first, first + second), rel=1e-9)
    assert result.p == stats.binomtest(first, first + second, 0.5).pvalue


@few
@given(st.lists(st.integers(-6, 6), min_size=1, max_size=9))
def test_the_sign_flip_test_equals_enumerating_all_patterns(leads: list[int]) -> None:
    observed = abs(sum(leads))
    patterns = list(product((-1, 1), repeat=len(leads)))
    hits = sum(
        abs(sum(sign * lead for sign, lead in zip(pattern, leads, strict=True))) >= observed
        for pattern in patterns
    )
    assert sign_flip_p(np.array(leads)) == pytest.approx(hits / len(patterns), abs=1e-12)


def test_one_consistent_participant_is_no_evidence() -> None:
    release = make_release([Question(1)] * 40)
    result = position_bias(release.preferences, Bootstrap.of_release(release))
    assert result.p < 1e-9
    assert result.p_clustered == 1
    assert result.ci.reason


def test_the_variance_is_that_of_the_participants_errors() -> None:
    rng = np.random.default_rng(4)
    study = [
        Question(int(rng.choice([0, 1, 1, 2])), participant=f"p{number % 7}")
        for number in range(90)
    ]
    release = make_release(study)
    bootstrap = bootstrap_of(release, 120)
    result = position_bias(release.preferences, bootstrap)
    answers = [question for question in study if question.preferred]
    ends = clustered_ends(
        [2 - question.preferred for question in answers],
        [question.participant for question in answers],
    )
    assert (result.ci.low, result.ci.high) == pytest.approx(ends, abs=1e-12)


def rates_of(study: list[Question]) -> PreferenceRates:
    return preference_rates(make_release(study).preferences, values_of(study))


def figures(rate: Rate) -> tuple[object, int]:
    return pytest.approx(rate.rate, nan_ok=True), rate.n


def test_a_study_that_can_be_counted_by_hand() -> None:
    study = [
        Question(preferred=1, values=(2, 1)),  # higher preferred
        Question(preferred=1, values=(3, 1)),  # higher preferred
        Question(preferred=2, values=(2, 1)),  # lower preferred
        Question(preferred=2, values=(1, 2)),  # higher preferred, on the other side
        Question(preferred=1, values=(1, 1)),  # tie of the metric
        Question(preferred=0, values=(2, 1)),  # human tie
        Question(preferred=1, values=(None, 1)),  # no value
        Question(preferred=2, values=(4, 4)),  # tie of the metric
    ]
    rates = rates_of(study)
    assert rates.ge == Rate(3 / 5, 5, 5 / 8)
    assert rates.gt == Rate(2 / 3, 3, 3 / 8)
    assert rates.symmetric == Rate(3 / 4, 4, 4 / 8)
    assert rates.tie_half == Rate(4 / 6, 6, 6 / 8)
    assert rates.ge_swapped == Rate(2 / 3, 3, 3 / 8)
    assert rates.gt_swapped == Rate(1.0, 1, 1 / 8)
    assert rates.base_rate == Rate(3 / 6, 6, 6 / 8)
    assert rates.pairs_to_json() == {"n": 6, "metric_ties": 2, "human_ties": 1, "missing": 1}


@few
@given(studies)
def test_equals_the_definitions(study: list[Question]) -> None:
    rates = rates_of(study)
    swapped = with_sides_swapped(study)
    assert figures(rates.ge) == reference.ge(study)
    assert figures(rates.gt) == reference.gt(study)
    assert figures(rates.symmetric) == reference.symmetric(study)
    assert figures(rates.tie_half) == reference.tie_half(study)
    assert figures(rates.base_rate) == reference.base_rate(study)
    assert figures(rates.ge_swapped) == reference.ge(swapped)
    assert figures(rates.gt_swapped) == reference.gt(swapped)
    ties = sum(question.preferred == 0 for question in study)
    assert rates.human_ties == ties
    assert rates.base_rate.n + ties + rates.missing == len(study)
    for name in RATES:
        rate: Rate = getattr(rates, name)
        assert (rate.reason is None) == (not math.isnan(rate.rate))
        if study:
            assert rate.coverage == rate.n / len(study)


@few
@given(studies, st.integers(1, 5))
def test_given_tie_equals_the_definition(study: list[Question], k: int) -> None:
    release = make_release(study)
    rate = given_tie(release.preferences, values_of(study), Recall(k).values(release))
    assert figures(rate) == reference.given_recall_tie(study, k)
    base, _ = reference.base_rate_given_recall_tie(study, k)
    assert rate.base_rate == pytest.approx(base, nan_ok=True)


def test_no_questions_give_reasons() -> None:
    rates = preference_rates(make_release([]).preferences, pd.Series(dtype="float64"))
    for name in RATES:
        rate: Rate = getattr(rates, name)
        expected = {"rate": None, "n": 0, "coverage": None}
        assert rate.to_json() == expected | {"reason": "the release has no questions"}


def test_the_variances_are_those_of_the_participants_errors() -> None:
    rng = np.random.default_rng(9)
    study = [
        Question(
            preferred=int(rng.choice([0, 1, 1, 2, 2])),
            images=("abcde", "fghbc") if rng.random() < 0.8 else ("abcde", "bacde"),
            values=(float(rng.integers(3)), float(rng.integers(3))),
            participant=f"p{number % 8}",
        )
        for number in range(160)
    ]
    release = make_release(study)
    bootstrap = bootstrap_of(release, 1)
    rates = preference_rates(release.preferences, values_of(study), bootstrap)
    recall = Recall(5).values(release)
    tied = given_tie(release.preferences, values_of(study), recall, bootstrap)
    for rate, twin in (
        (rates.ge, reference.ge),
        (rates.gt, reference.gt),
        (rates.symmetric, reference.symmetric),
        (rates.tie_half, reference.tie_half),
        (rates.base_rate, reference.base_rate),
        (rates.ge_swapped, lambda answers: reference.ge(with_sides_swapped(answers))),
        (tied, lambda answers: reference.given_recall_tie(answers, 5)),
    ):
        alone = [(each.participant, *twin([each])) for each in study]
        counted = [(participant, value) for participant, value, n in alone if n]
        ends = clustered_ends([value for _, value in counted], [person for person, _ in counted])
        assert (rate.ci.low, rate.ci.high) == pytest.approx(ends, abs=1e-12)
        assert 2 <= rate.ci.n_clusters <= 8
        assert rate.to_json()["ci"] == [rate.ci.low, rate.ci.high]


def test_an_empty_rate_has_no_interval() -> None:
    release = make_release([Question(preferred=1, participant=f"p{number}") for number in range(4)])
    values = pd.Series(1.0, index=release.sets["set_id"])
    rates = preference_rates(release.preferences, values, bootstrap_of(release, 20))
    written = rates.symmetric.to_json()
    assert written["ci"] == [None, None]
    assert written["reason"] == "no pair has m different"
    assert (rates.tie_half.rate, rates.tie_half.ci.reason) == (0.5, NO_SPREAD)


def always_wrong(difference: np.ndarray, set_1_preferred: np.ndarray) -> preference.RateTerms:
    """Another definition of a rate: 0 of all pairs."""
    return preference.RateTerms(np.zeros(difference.shape), np.ones(difference.shape, dtype=bool))


def test_every_statistic_uses_the_one_definition_of_its_rate(
    drawn: tuple[Release, pd.Series], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Replacing the definitions in `preference` changes all statistics that use them."""
    release, utilities = drawn
    preferences, bootstrap = release.preferences, bootstrap_of(release, 20)
    for name in ("ge", "gt", "symmetric", "tie_half"):
        monkeypatch.setattr(preference, name, always_wrong)
    rates = preference_rates(preferences, utilities, bootstrap)
    for name in ("ge", "gt", "symmetric", "tie_half", "ge_swapped", "gt_swapped"):
        assert figures(getattr(rates, name)) == (0.0, len(preferences))
    tied = pd.Series(1.0, index=utilities.index)
    assert given_tie(preferences, utilities, tied, bootstrap).rate == 0
    by_margin = margins(preferences, utilities, bootstrap).by_metric
    assert by_margin.n == len(preferences)
    assert {margin_bin.accuracy for margin_bin in by_margin.bins} == {0.0}
    (comparison,) = compare_all(release, {"a": utilities, "b": tied}, bootstrap, Swaps(9))
    assert comparison.tie_half.difference == 0
    (against_itself,) = compare_all(release, {"a": utilities, "b": utilities}, bootstrap, Swaps(9))
    assert against_itself.symmetric.difference == 0
    accuracies = participants(release, {"m": utilities}).by_metric["m"]["tie_half"]
    assert set(accuracies) == {0.0}
    conclusions = conclude(release, {"m": utilities}, bootstrap)
    assert conclusions.estimates["tie_half"]["m"].ci == rates.tie_half.ci
    excluded = jackknife(release, {"m": utilities}).ranges["tie_half"]["m"]
    assert (excluded.low, excluded.high) == (0.0, 0.0)
    study = draw_study(PUBLISHED, Slopes(0.3, 0.2, 0.4), (4, 5), 1, np.random.default_rng(0))
    assert study.tie_halves() == pytest.approx([0, 0])
