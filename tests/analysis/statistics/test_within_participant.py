from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from scipy import stats

from hsfiq.analysis.resampling.bootstrap import Bootstrap
from hsfiq.analysis.statistics.correlation import (
    WithinParticipant,
    participant_rhos,
    within_participant,
)
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


def within(study: list[Question]) -> WithinParticipant:
    release = make_release(study)
    return within_participant(release.sets, values_of(study), bootstrap_of(release, 50))


def literal(study: list[Question]) -> dict[str, float]:
    """Each participant's rho."""
    actual = {}
    for person in {question.participant for question in study}:
        rows = [
            (value, score)
            for question in study
            if question.participant == person
            for value, score in zip(question.values, question.scores, strict=True)
            if value is not None
        ]
        if len(rows) >= 3 and all(len(set(side)) > 1 for side in zip(*rows, strict=True)):
            actual[person] = float(stats.spearmanr(rows).statistic)
    return actual


@few
@given(studies)
def test_equals_the_definition(study: list[Question]) -> None:
    result, rhos = within(study), literal(study)
    assert result.n_participants == len(rhos)
    if rhos:
        assert result.mean == pytest.approx(np.mean(list(rhos.values())), abs=1e-12)
    else:
        assert math.isnan(result.mean)
        assert result.mean_reason
    means = {
        person: np.mean(
            [
                score
                for question in study
                for value, score in zip(question.values, question.scores, strict=True)
                if question.participant == person and value is not None
            ]
            or [0]
        )
        for person in ("p1", "p2", "p3")
    }
    rows = [
        (value, score - means[question.participant])
        for question in study
        for value, score in zip(question.values, question.scores, strict=True)
        if value is not None
    ]
    if result.centred_reason is None:
        assert result.centred == pytest.approx(stats.spearmanr(rows).statistic, abs=1e-12)


def test_the_interval_resamples_the_participants_rhos() -> None:
    rng = np.random.default_rng(2)
    table = pd.DataFrame(
        {
            "set_id": [f"s{number}" for number in range(120)],
            "participant_id": np.repeat([f"p{number}" for number in range(12)], 10),
            "query_id": [f"q{number}" for number in range(120)],
            "score": rng.integers(1, 6, size=120),
        }
    )
    values = pd.Series(rng.normal(size=120), index=table["set_id"])
    rhos = participant_rhos(table.assign(value=values.to_numpy())).to_numpy()
    bootstrap = Bootstrap.of_rows(table, unit="participant", n_resamples=200)
    result = within_participant(table, values, bootstrap)
    drawn = [rhos @ counts / 12 for counts in participant_counts(bootstrap)]
    ends = (result.mean_ci.low, result.mean_ci.high)
    assert ends == pytest.approx(expected_ends(drawn, 12))
    by_row = Bootstrap.of_rows(table, unit="row", n_resamples=200)
    by_rows = within_participant(table, values, by_row)
    assert by_rows.mean_ci == result.mean_ci
    assert by_rows.centred_ci.unit == "row"


def test_an_empty_release_has_reasons() -> None:
    result = within([]).to_json()
    for part in ("mean", "centred"):
        actual = result[part]
        assert isinstance(actual, dict)
        assert (actual["rho"], actual["ci"]) == (None, [None, None])
        assert actual["reason"]
