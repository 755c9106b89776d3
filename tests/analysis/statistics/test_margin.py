from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from hsfiq.analysis.resampling.bootstrap import Bootstrap
from hsfiq.analysis.statistics.accuracy import BINS, AccuracyByMargin, Margins, equal_bins, margins
from hsfiq.analysis.statistics.preference import preference_rates
from tests.analysis.reference import midranks
from tests.analysis.studies import (
    Question,
    bootstrap_of,
    expected_ends,
    few,
    make_release,
    studies,
    values_of,
)

RESAMPLES = 20


def margins_of(study: list[Question]) -> Margins:
    release = make_release(study)
    bootstrap = bootstrap_of(release, RESAMPLES)
    return margins(release.preferences, values_of(study), bootstrap)


def told_apart(study: list[Question]) -> list[tuple[float, int, bool]]:
    """(metric margin, score margin, whether right) of the pairs that count."""
    pairs = []
    for question in study:
        first, second = question.values
        if question.preferred != 0 and first is not None and second not in (None, first):
            right = question.preferred == (1 if first > second else 2)
            score_gap = abs(question.scores[0] - question.scores[1])
            pairs.append((abs(first - second), score_gap, right))
    return pairs


def counted(margin: AccuracyByMargin) -> list[tuple[float, float, object, int]]:
    return [
        (margin_bin.low, margin_bin.high, pytest.approx(margin_bin.accuracy), margin_bin.n)
        for margin_bin in margin.bins
    ]


def by_place(
    pairs: list[tuple[float, bool]], places: list[int]
) -> list[tuple[float, float, float, int]]:
    result = []
    for place in sorted(set(places)):
        inside = [
            pair for pair, pair_place in zip(pairs, places, strict=True) if pair_place == place
        ]
        gaps = [gap for gap, _ in inside]
        hits = sum(right for _, right in inside)
        result.append((min(gaps), max(gaps), hits / len(inside), len(inside)))
    return result


@few
@given(studies)
def test_equals_the_definition(study: list[Question]) -> None:
    pairs = told_apart(study)
    result = margins_of(study)
    gaps = [gap for gap, _, _ in pairs]
    places = [math.floor(BINS * (rank - 0.5) / len(pairs) + 1e-9) for rank in midranks(gaps)]
    expected = by_place([(gap, right) for gap, _, right in pairs], places)
    assert counted(result.by_metric) == expected
    expected = by_place(
        [(score_gap, right) for _, score_gap, right in pairs], [pair[1] for pair in pairs]
    )
    assert counted(result.by_score) == expected
    assert result.by_metric.n == result.by_score.n == len(pairs)
    assert (result.by_metric.reason is None) == bool(pairs)


@few
@given(studies)
def test_the_bins_add_up_to_the_symmetric_rate(study: list[Question]) -> None:
    rate = preference_rates(make_release(study).preferences, values_of(study)).symmetric
    for margin in (margins_of(study).by_metric, margins_of(study).by_score):
        assert sum(margin_bin.n for margin_bin in margin.bins) == rate.n
        if rate.n:
            hits = sum(margin_bin.accuracy * margin_bin.n for margin_bin in margin.bins)
            assert hits / rate.n == pytest.approx(rate.rate)


@few
@given(studies)
def test_the_trend_is_scipys_rho_over_pairs(study: list[Question]) -> None:
    pairs = told_apart(study)
    result = margins_of(study)
    right = [float(pair[2]) for pair in pairs]
    for trend, gaps in (
        (result.by_metric.trend, [pair[0] for pair in pairs]),
        (result.by_score.trend, [float(pair[1]) for pair in pairs]),
    ):
        if len(set(gaps)) < 2 or len(set(right)) < 2:
            assert math.isnan(trend.rho)
            assert trend.reason
        else:
            assert trend.rho == pytest.approx(stats.spearmanr(gaps, right).statistic)


@few
@given(studies)
def test_invariances(study: list[Question]) -> None:
    plain = margins_of(study)
    mirrored = margins_of(
        [
            replace(
                q,
                preferred={0: 0, 1: 2, 2: 1}[q.preferred],
                scores=q.scores[::-1],
                values=q.values[::-1],
            )
            for q in study
        ]
    )
    assert mirrored.to_json() == plain.to_json()
    scaled = margins_of(
        [
            replace(q, values=tuple(None if v is None else 2 * v + 1 for v in q.values))
            for q in study
        ]
    )
    assert scaled.by_score.to_json() == plain.by_score.to_json()
    assert scaled.by_metric.trend == plain.by_metric.trend or not plain.by_metric.n
    for plain_bin, other_bin in zip(plain.by_metric.bins, scaled.by_metric.bins, strict=True):
        assert replace(plain_bin, low=2 * plain_bin.low, high=2 * plain_bin.high) == other_bin
    doubled = margins_of(study + study)
    for plain_bin, other_bin in zip(
        plain.by_metric.bins + plain.by_score.bins,
        doubled.by_metric.bins + doubled.by_score.bins,
        strict=True,
    ):
        assert (other_bin.low, other_bin.high, other_bin.n) == (
            plain_bin.low,
            plain_bin.high,
            2 * plain_bin.n,
        )
        assert other_bin.accuracy == pytest.approx(plain_bin.accuracy)
        assert other_bin.ci.low == pytest.approx(plain_bin.ci.low, nan_ok=True)
        assert other_bin.ci.high == pytest.approx(plain_bin.ci.high, nan_ok=True)


def simulate(rng: np.random.Generator, *, sure: bool) -> list[Question]:
    """600 answers by 12 participants; with `sure`, larger margins are right more often."""
    study = []
    for place in range(600):
        first, second = rng.normal(size=2)
        chance = 1 / (1 + math.exp(-2 * abs(first - second))) if sure else 0.7
        higher = 1 if first > second else 2
        answer = higher if rng.random() < chance else 3 - higher
        study.append(
            Question(answer, participant=f"p{place % 12}", values=(float(first), float(second)))
        )
    return study


def test_a_metric_with_reliable_margins_has_a_trend() -> None:
    result = margins_of(simulate(np.random.default_rng(1), sure=True)).by_metric
    accuracies = [margin_bin.accuracy for margin_bin in result.bins]
    assert accuracies == sorted(accuracies)
    assert [margin_bin.n for margin_bin in result.bins] == [120] * BINS
    assert result.trend.ci.low > 0.1
    for margin_bin in result.bins:
        assert margin_bin.ci.low < margin_bin.accuracy < margin_bin.ci.high
        assert margin_bin.ci.n_clusters == 12


def test_a_metric_with_meaningless_margins_has_no_trend() -> None:
    trend = margins_of(simulate(np.random.default_rng(2), sure=False)).by_metric.trend
    assert trend.ci.low < 0 < trend.ci.high


def test_the_intervals_equal_those_of_repeated_participants() -> None:
    study = simulate(np.random.default_rng(3), sure=True)
    release = make_release(study)
    bootstrap = Bootstrap.of_release(release, n_resamples=RESAMPLES, seed=7)
    result = margins(release.preferences, values_of(study), bootstrap).by_metric
    gaps, _, right = (np.array(column) for column in zip(*told_apart(study), strict=True))
    n_people = release.n_participants
    weights = np.concatenate(list(bootstrap.weights(release.preferences)))[1:].astype(int)
    for place, margin_bin in enumerate(result.bins):
        inside = equal_bins(gaps) == place
        drawn = [np.repeat(right[inside], row[inside]).mean() for row in weights]
        ends = expected_ends(drawn, n_people)
        assert (margin_bin.ci.low, margin_bin.ci.high) == pytest.approx(ends)
    ranks = stats.rankdata(gaps)
    rhos = [
        stats.pearsonr(np.repeat(ranks, row), np.repeat(right, row)).statistic for row in weights
    ]
    assert (result.trend.ci.low, result.trend.ci.high) == pytest.approx(
        expected_ends(rhos, n_people)
    )


@few
@given(st.lists(st.integers(0, 6), min_size=1, max_size=40))
def test_bins_are_equal_where_margins_differ(gaps: list[int]) -> None:
    places = equal_bins(np.array(gaps, dtype=np.float64))
    assert all(
        (a <= b) == (x <= y) or a == b
        for a, x in zip(places, gaps, strict=True)
        for b, y in zip(places, gaps, strict=True)
    )
    distinct = equal_bins(np.arange(10.0 * BINS))
    assert (np.bincount(distinct) == 10).all()


def test_what_is_undefined_has_a_reason() -> None:
    for study in ([], [Question(0, values=(1, 2))], [Question(1, values=(None, 2))], [Question(1)]):
        written = json.loads(json.dumps(margins_of(study).to_json(), allow_nan=False))
        for part in (written["by_metric"], written["by_score"]):
            assert (part["bins"], part["n"], part["trend"]["rho"]) == ([], 0, None)
            assert part["reason"] == part["trend"]["reason"]
    single = margins_of([Question(1, values=(2, 1))]).by_metric
    assert single.bins[0].accuracy == 1.0
    assert single.bins[0].ci.reason is not None
    assert single.trend.reason == "all margins are equal"
    right = margins_of([Question(1, values=(2, 1)), Question(1, values=(3, 1))]).by_metric
    assert right.trend.reason == "the metric is correct on every pair"
