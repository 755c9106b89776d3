from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given

from hsfiq.analysis.data.columns import contradictions
from hsfiq.analysis.data.release import Release
from hsfiq.analysis.sensitivity import (
    ALL_ANSWERS,
    ALL_RULES,
    SENSITIVE_STATISTICS,
    conclude,
    jackknife,
    sensitivity,
)
from hsfiq.analysis.statistics.correlation import spearman
from hsfiq.analysis.statistics.preference import preference_rates
from tests.analysis.studies import Question, bootstrap_of, few, make_release, studies, values_of

Drawn = tuple[Release, pd.Series]


def noisy(utilities: pd.Series, seed: int = 0) -> pd.Series:
    drawn = np.random.default_rng(seed).normal(size=len(utilities))
    return pd.Series(drawn, index=utilities.index)


def test_conclusions_about_known_metrics(drawn: Drawn) -> None:
    release, utilities = drawn
    values = {"oracle": utilities, "noise": noisy(utilities), "reverse": -utilities}
    result = conclude(release, values, bootstrap_of(release, 300))
    for statistic in SENSITIVE_STATISTICS:
        verdicts = result.verdicts[statistic]
        assert verdicts == {"oracle": "above", "noise": "unclear", "reverse": "below"}
        assert result.winners[statistic] == "oracle"
    assert result.changes_from(result) == ()


def test_rows_are_the_figures_of_the_kept_questions(drawn: Drawn) -> None:
    release, utilities = drawn
    values = {"oracle": utilities, "noise": noisy(utilities)}
    bootstrap = bootstrap_of(release, 100)
    result = sensitivity(release, values, bootstrap, min_seconds=10)
    preferences = release.preferences
    dropped = {
        "without questions flagged irrelevant": preferences["irrelevant"],
        "without contradictions of preference and scores": contradictions(preferences),
        "without forms with a failed check": preferences["participant_id"] == "simulated-01",
        "without answers under 10 seconds": preferences["active_seconds"] < 10,
        "without the first 5 questions of each participant": preferences["question_id"]
        .str.rpartition(".")[2]
        .astype(int)
        < 5,
    }
    assert [row.rule for row in result.rows] == [ALL_ANSWERS, *dropped, ALL_RULES]
    dropped[ALL_ANSWERS] = preferences["irrelevant"] & False
    dropped[ALL_RULES] = pd.concat(list(dropped.values()), axis=1).any(axis=1)
    for row in result.rows:
        kept = release.subset(~dropped[row.rule])
        assert row.n_questions == len(kept.preferences) == len(preferences) - row.n_dropped
        rho = row.conclusions.estimates["rho"]["oracle"]
        assert (rho.value, rho.n) == (spearman(kept.sets, utilities).rho, len(kept.sets))
        tie_half = row.conclusions.estimates["tie_half"]["oracle"]
        expected = preference_rates(kept.preferences, utilities, bootstrap).tie_half
        assert (tie_half.value, tie_half.n, tie_half.ci) == (expected.rate, expected.n, expected.ci)
        assert rho.ci.low < rho.value < rho.ci.high
        assert not [change for change in row.changes if "oracle" in change]


def test_a_conclusion_that_depends_on_hurried_answers_is_reported(drawn: Drawn) -> None:
    release, _ = drawn
    preferences = release.preferences
    hurried = preferences.index % 2 == 0
    side = np.where(preferences["preferred"] == 1, 1.0, -1.0) * np.where(hurried, 1, -1)
    side[5::100] *= -1  # not all are wrong, or the spread would be unknown
    flattering = pd.Series(
        np.concatenate([side, -side]), index=[*preferences["set_1"], *preferences["set_2"]]
    )
    timed = replace(
        release, preferences=preferences.assign(active_seconds=np.where(hurried, 1.0, 30.0))
    )
    result = sensitivity(timed, {"flattering": flattering}, bootstrap_of(timed, 100))
    (row,) = [row for row in result.rows if "seconds" in row.rule]
    assert row.n_dropped == 600
    assert "tie_half of flattering against chance: above -> below" in row.changes
    assert row.to_json()["conclusion_changes"] is True


@few
@given(studies)
def test_the_jackknife_measures_the_other_participants(study: list[Question]) -> None:
    release, values = make_release(study), values_of(study)
    result = jackknife(release, {"m": values})
    people = sorted(set(release.preferences["participant_id"]))
    assert result.n_participants == len(people)
    rhos, rates = [], []
    for person in people:
        remaining = release.subset(release.preferences["participant_id"] != person)
        rhos.append(spearman(remaining.sets, values).rho)
        rates.append(preference_rates(remaining.preferences, values).tie_half.rate)
    for statistic, expected in (("rho", rhos), ("tie_half", rates)):
        known = [value for value in expected if not np.isnan(value)]
        bounds = result.ranges[statistic]["m"]
        # Of two sets rho is 1 or -1, which the resamples give and the point estimate does not.
        if statistic == "rho" and len(known) < len(expected):
            continue
        assert bounds.low == pytest.approx(min(known, default=np.nan), nan_ok=True)
        assert bounds.high == pytest.approx(max(known, default=np.nan), nan_ok=True)


def test_the_jackknife_names_a_decisive_participant() -> None:
    study = [
        Question(1, (5, 1), participant="p1", values=(2, 1)),
        Question(1, (4, 1), participant="p2", values=(2, 1)),
        Question(1, (1, 4), participant="p3", values=(0, 9)),
    ]
    other_values = pd.Series([0.0, 0.0, 0.0, 0.0, 5.0, 0.0], index=values_of(study).index)
    result = jackknife(make_release(study), {"m": values_of(study), "other": other_values})
    assert result.best["tie_half"] == ("m", "other")
    assert result.ranges["tie_half"]["m"].high_without == "p3"
    assert result.ranges["tie_half"]["m"].high == 1


@pytest.mark.parametrize("study", [[], [Question(1)], [Question(0)]])
def test_too_few_answers_give_reasons(study: list[Question]) -> None:
    release = make_release(study)
    result = sensitivity(release, {"m": values_of(study)}, bootstrap_of(release, 5))
    for statistic in SENSITIVE_STATISTICS:
        bounds = result.jackknife.ranges[statistic]["m"]
        assert np.isnan(bounds.low)
        assert bounds.to_json()["reason"] == "undefined in every jackknife sample"
    reasons = [row.reason for row in result.rows if row.conclusions is None]
    assert reasons[-2:] == ["not recorded", "not recorded"]  # checks and times


def test_unknown_flags_are_not_recorded_and_not_counted_as_a_way(drawn: Drawn) -> None:
    release, utilities = drawn
    unknown = replace(release, preferences=release.preferences.assign(irrelevant=None))
    result = sensitivity(unknown, {"oracle": utilities}, bootstrap_of(unknown, 20))
    (row,) = [row for row in result.rows if "irrelevant" in row.rule]
    assert (row.reason, row.n_dropped, row.conclusions) == ("not recorded", None, None)
    written = row.to_json()
    assert written["conclusion_changes"] is written["n_dropped"] is None
