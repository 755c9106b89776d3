from __future__ import annotations

import math

import analysis_twins as twins
import pandas as pd
import pytest
from analysis_studies import Question, few, make_release, studies, values_of
from hypothesis import given
from scipy import stats

from analysis.correlation import Correlation, spearman


def both(study: list[Question]) -> tuple[list[float], list[float]]:
    """The metric and the human scores of the sets that have both."""
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
    assert result.rho == pytest.approx(twins.spearman(values, scores), abs=1e-12)
    expected = stats.spearmanr(values, scores)
    assert result.rho == pytest.approx(expected.statistic, abs=1e-14)
    assert result.p == pytest.approx(expected.pvalue, abs=1e-14)


@few
@given(studies)
def test_invariances(study: list[Question]) -> None:
    result = correlate(study)
    bent = spearman(make_release(study).sets, values_of(study) ** 3 + 7)
    turned = spearman(make_release(study).sets, -values_of(study))
    assert bent.rho == pytest.approx(result.rho, abs=1e-12, nan_ok=True)
    assert turned.rho == pytest.approx(-result.rho, abs=1e-12, nan_ok=True)
    if result.reason is None:
        twice = correlate(study + study)
        assert twice.rho == pytest.approx(result.rho, abs=1e-12)
        assert twice.n == 2 * result.n
        assert twice.n_clusters == result.n_clusters


def test_participants_without_a_value_are_no_clusters() -> None:
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


def test_values_go_by_set_id_not_by_order() -> None:
    study = [Question(1, scores=(1, 2), values=(1, 2)), Question(1, scores=(3, 4), values=(3, 4))]
    shuffled: pd.Series = values_of(study).iloc[::-1]
    assert spearman(make_release(study).sets, shuffled).rho == pytest.approx(1)
