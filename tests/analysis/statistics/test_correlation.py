from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from scipy import stats

from hsfiq.analysis.resampling.bootstrap import Bootstrap
from hsfiq.analysis.statistics.correlation import Correlation, bonett_wright, spearman
from tests.analysis import reference
from tests.analysis.studies import (
    Question,
    bootstrap_of,
    expected_ends,
    few,
    make_release,
    participant_counts,
    studies,
    values_of,
)


def both(study: list[Question]) -> tuple[list[float], list[float]]:
    """The metric's values and the human scores of the sets that have both."""
    values, scores = [], []
    for question in study:
        for value, score in zip(question.values, question.scores, strict=True):
            if value is not None:
                values.append(value)
                scores.append(float(score))
    return values, scores


def correlate(study: list[Question]) -> Correlation:
    return spearman(make_release(study).sets, values_of(study))


@few
@given(studies)
def test_equals_the_definition_and_scipy(study: list[Question]) -> None:
    result = correlate(study)
    values, scores = both(study)
    assert result.n == len(values)
    if len(values) < 3 or len(set(values)) == 1 or len(set(scores)) == 1:
        assert math.isnan(result.rho)
        assert result.reason
        return
    assert result.reason is None
    assert result.rho == pytest.approx(reference.spearman(values, scores), abs=1e-12)
    expected = stats.spearmanr(values, scores)
    assert result.rho == pytest.approx(expected.statistic, abs=1e-14)
    assert result.p == pytest.approx(expected.pvalue, abs=1e-14)


@few
@given(studies)
def test_invariances(study: list[Question]) -> None:
    result = correlate(study)
    transformed = spearman(make_release(study).sets, values_of(study) ** 3 + 7)
    negated = spearman(make_release(study).sets, -values_of(study))
    assert transformed.rho == pytest.approx(result.rho, abs=1e-12, nan_ok=True)
    assert negated.rho == pytest.approx(-result.rho, abs=1e-12, nan_ok=True)
    if result.reason is None:
        doubled = correlate(study + study)
        assert doubled.rho == pytest.approx(result.rho, abs=1e-12)
        assert doubled.n == 2 * result.n
        assert doubled.n_clusters == result.n_clusters


def test_participants_without_a_value_are_not_clusters() -> None:
    study = [
        Question(1, scores=(1, 2), values=(1, 2), participant="p1"),
        Question(1, scores=(4, 3), values=(3, 4), participant="p2"),
        Question(1, scores=(5, 5), values=(None, None), participant="p3"),
    ]
    result = correlate(study)
    assert result.rho == pytest.approx(0.8)
    assert (result.n, result.n_clusters) == (4, 2)


@pytest.mark.parametrize(
    ("study", "reason"),
    [
        ([], "n = 0: the correlation needs 3 sets"),
        ([Question(1, scores=(1, 2), values=(1, 2))], "n = 2: the correlation needs 3 sets"),
        ([Question(1, scores=(1, 2))] * 2, "the metric has the same value for every set"),
        ([Question(1, values=(1, 2))] * 2, "every set has the same human score"),
    ],
)
def test_undefined_has_a_reason(study: list[Question], reason: str) -> None:
    result = correlate(study).to_json()
    assert (result["rho"], result["p"], result["reason"]) == (None, None, reason)


def test_values_are_matched_by_set_id_not_by_order() -> None:
    study = [Question(1, scores=(1, 2), values=(1, 2)), Question(1, scores=(3, 4), values=(3, 4))]
    shuffled: pd.Series = values_of(study).iloc[::-1]
    assert spearman(make_release(study).sets, shuffled).rho == pytest.approx(1)


def drawn_study(seed: int, n_participants: int, n_questions: int) -> list[Question]:
    """Participants who differ in offset and slope; the metric has few or many distinct values."""
    rng = np.random.default_rng(seed)
    study = []
    for person in range(n_participants):
        offset, slope = rng.normal(3, 0.5), rng.normal(0.6, 0.4)
        for _ in range(n_questions):
            values = rng.normal(size=2)
            ratings = np.clip(np.round(offset + slope * values + rng.normal(size=2)), 1, 5)
            scores = [int(score) for score in ratings]
            study.append(
                Question(
                    1,
                    (scores[0], scores[1]),
                    values=(float(values[0]), float(values[1])),
                    participant=f"p{person}",
                )
            )
    return study


def test_the_interval_equals_that_of_repeated_participants() -> None:
    study = drawn_study(1, 12, 6)
    release = make_release(study)
    bootstrap = Bootstrap.of_release(release, n_resamples=150, seed=5)
    result = spearman(release.sets, values_of(study), bootstrap)
    people = [
        [question for question in study if question.participant == f"p{number}"]
        for number in range(12)
    ]
    order = sorted(range(12), key=lambda number: f"p{number}")
    rhos = []
    for counts in participant_counts(bootstrap):
        chosen = [
            question
            for place, number in enumerate(order)
            for _ in range(int(counts[place]))
            for question in people[number]
        ]
        rhos.append(stats.spearmanr(*both(chosen)).statistic)
    assert result.ci is not None
    assert (result.ci.low, result.ci.high) == pytest.approx(expected_ends(rhos, 12), abs=1e-12)
    assert (result.ci.n_clusters, result.ci.unit, result.ci.seed) == (12, "participant", 5)
    written = result.to_json()
    assert written["ci"] == [result.ci.low, result.ci.high]


def test_duplicated_answers_do_not_change_the_interval() -> None:
    study = drawn_study(2, 8, 5)
    original, doubled = (
        spearman(release.sets, values_of(answers), bootstrap_of(release, 100))
        for answers in (study, study + study)
        for release in [make_release(answers)]
    )
    assert original.ci is not None
    assert doubled.ci is not None
    assert (doubled.ci.low, doubled.ci.high) == pytest.approx(
        (original.ci.low, original.ci.high), abs=1e-12
    )
    assert doubled.independent_ci[1] - doubled.independent_ci[0] < 0.8 * (
        original.independent_ci[1] - original.independent_ci[0]
    )


def test_a_single_participant_has_no_interval() -> None:
    study = drawn_study(3, 1, 5)
    release = make_release(study)
    result = spearman(release.sets, values_of(study), Bootstrap.of_release(release)).to_json()
    assert result["ci"] == [None, None]
    assert result["rho"] is not None
    assert "2 clusters" in str(result["reason"])


def test_independent_rows_have_the_analytic_interval() -> None:
    """By hand: z = atanh 0.65, its error sqrt(1.21125 / 6097)."""
    assert bonett_wright(0.65, 6100) == pytest.approx((0.6338, 0.6657), abs=5e-5)
    assert bonett_wright(0.2, 3) == (-1, 1)
    assert bonett_wright(-1, 9) == (-1, -1)
