from __future__ import annotations

import math
from dataclasses import replace
from statistics import mean, median

import pandas as pd
import pytest
from hypothesis import given

from hsfiq.analysis.data.release import Release
from hsfiq.analysis.people.participants import outliers, participants
from tests.analysis import reference
from tests.analysis.studies import Question, few, make_release, studies, values_of


@few
@given(studies)
def test_equals_the_reference_loops(study: list[Question]) -> None:
    release = make_release(study)
    result = participants(release, {"m": values_of(study)})
    assert list(result.table.index) == sorted({question.participant for question in study})
    for person, row in result.table.iterrows():
        answered = [question for question in study if question.participant == person]
        decided = [question.preferred for question in answered if question.preferred]
        assert row["n"] == len(answered)
        assert row["mean_score"] == pytest.approx(
            mean(mean(question.scores) for question in answered)
        )
        first = mean(preferred == 1 for preferred in decided) if decided else math.nan
        assert row["set_1"] == pytest.approx(first, nan_ok=True)
        assert row["same_scores"] == mean(
            question.scores[0] == question.scores[1] for question in answered
        )
        against = [
            question.preferred != 0
            and question.scores[question.preferred - 1] < question.scores[2 - question.preferred]
            for question in answered
        ]
        assert row["contradictions"] == mean(against)
        tie_half = reference.tie_half(answered)[0]
        assert result.by_metric["m"].loc[person, "tie_half"] == pytest.approx(tie_half, nan_ok=True)
        pairs = [
            (value, score)
            for question in answered
            for value, score in zip(question.values, question.scores, strict=True)
            if value is not None
        ]
        rho = reference.spearman(*zip(*pairs, strict=True)) if len(pairs) >= 3 else math.nan
        assert result.by_metric["m"].loc[person, "rho"] == pytest.approx(rho, nan_ok=True)


def test_missing_columns_have_a_reason() -> None:
    release = make_release([Question(0)])
    (written,) = (
        participants(release, {"m": values_of([Question(0)])}).to_json()["participants"].values()
    )
    assert written["seconds"] is written["failed_checks"] is written["set_1"] is None
    assert "times were not recorded" in written["reason"]
    assert "results of attention checks were not recorded" in written["reason"]
    assert "fewer than 3 sets" in written["metrics"]["m"]["reason"]


def test_times_and_checks(drawn: tuple[Release, pd.Series]) -> None:
    release, _ = drawn
    table = participants(release, {}).table
    times = release.preferences.groupby("participant_id")["active_seconds"]
    assert table["seconds"].to_dict() == {person: median(seconds) for person, seconds in times}
    assert table["failed_checks"].tolist() == [1.0] + [0.0] * 29


def test_a_careless_participant_is_an_outlier(drawn: tuple[Release, pd.Series]) -> None:
    release, utilities = drawn
    lazy = release.preferences["participant_id"] == "simulated-07"
    hurried = release.preferences.assign(
        preferred=release.preferences["preferred"].where(~lazy, 1),
        score_1=release.preferences["score_1"].where(~lazy, 5),
    )
    result = participants(replace(release, preferences=hurried), {"oracle": utilities})
    named = {(outlier.participant, outlier.figure) for outlier in result.outliers}
    assert ("simulated-07", "set_1") in named
    assert all(abs(outlier.z) > 3.5 for outlier in result.outliers)
    assert len(result.table) == 30


def test_there_are_no_outliers_if_most_values_are_equal() -> None:
    values = pd.Series([1.0, 1.0, 1.0, 9.0], index=list("abcd"))
    assert outliers("figure", values) == []
    assert outliers("figure", pd.Series(dtype="float64")) == []
    (outlier,) = outliers("figure", pd.Series([1.0, 2.0, 3.0, 99.0], index=list("abcd")))
    assert (outlier.participant, outlier.median) == ("d", 2.5)
    assert outlier.z == pytest.approx(0.6745 * 96.5)
