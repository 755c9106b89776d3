from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given

from hsfiq.analysis.data.answers import contradicts
from hsfiq.analysis.data.release import Release
from hsfiq.analysis.sensitivity.conclusions import STATISTICS, conclude
from hsfiq.analysis.sensitivity.jackknife import jackknife
from hsfiq.analysis.sensitivity.sensitivity import ALL_ANSWERS, ALL_RULES, sensitivity
from hsfiq.analysis.statistics.correlation import spearman
from hsfiq.analysis.statistics.preference import preference_rates
from tests.analysis.studies import Question, bootstrap_of, few, make_release, studies, values_of

Drawn = tuple[Release, pd.Series]


def noisy(utilities: pd.Series, seed: int = 0) -> pd.Series:
    drawn = np.random.default_rng(seed).normal(size=len(utilities))
    return pd.Series(drawn, index=utilities.index)


def test_what_is_concluded_of_known_metrics(drawn: Drawn) -> None:
    release, utilities = drawn
    values = {"oracle": utilities, "noise": noisy(utilities), "reverse": -utilities}
    found = conclude(release, values, bootstrap_of(release, 300))
    for statistic in STATISTICS:
        verdicts = found.verdicts[statistic]
        assert verdicts == {"oracle": "above", "noise": "unclear", "reverse": "below"}
        assert found.winners[statistic] == "oracle"
    assert found.changes_from(found) == ()


def test_rows_are_the_figures_of_what_is_left(drawn: Drawn) -> None:
    release, utilities = drawn
    values = {"oracle": utilities, "noise": noisy(utilities)}
    found = sensitivity(release, values, bootstrap_of(release, 100), min_seconds=10)
    asked = release.preferences
    dropped = {
        "without questions flagged irrelevant": asked["irrelevant"],
        "without contradictions of preference and scores": contradicts(asked),
        "without forms with a failed check": asked["participant_id"] == "simulated-01",
        "without answers under 10 seconds": asked["active_seconds"] < 10,
        "without the first 5 questions of each participant": asked["question_id"]
        .str.rpartition(".")[2]
        .astype(int)
        < 5,
    }
    assert [row.rule for row in found.rows] == [ALL_ANSWERS, *dropped, ALL_RULES]
    dropped[ALL_ANSWERS] = asked["irrelevant"] & False
    dropped[ALL_RULES] = pd.concat(list(dropped.values()), axis=1).any(axis=1)
    for row in found.rows:
        left = release.subset(~dropped[row.rule])
        assert row.n_questions == len(left.preferences) == len(asked) - row.n_dropped
        assert row.conclusions is not None
        rho = row.conclusions.estimates["rho"]["oracle"]
        assert (rho.value, rho.n) == (spearman(left.sets, utilities).rho, len(left.sets))
        tie_half = row.conclusions.estimates["tie_half"]["oracle"]
        assert tie_half.value == preference_rates(left.preferences, utilities).tie_half.rate
        assert rho.ci is not None
        assert rho.ci.low < rho.value < rho.ci.high
        assert not [change for change in row.changes if "oracle" in change]


def test_a_conclusion_that_hangs_on_hurried_answers_is_told(drawn: Drawn) -> None:
    release, _ = drawn
    asked = release.preferences
    hurried = asked.index % 2 == 0
    side = np.where(asked["preferred"] == 1, 1.0, -1.0) * np.where(hurried, 1, -1)
    flattering = pd.Series(np.concatenate([side, -side]), index=[*asked["set_1"], *asked["set_2"]])
    timed = replace(release, preferences=asked.assign(active_seconds=np.where(hurried, 1.0, 30.0)))
    found = sensitivity(timed, {"flattering": flattering}, bootstrap_of(timed, 100))
    (row,) = [each for each in found.rows if "seconds" in each.rule]
    assert row.n_dropped == 600
    assert "tie_half of flattering against chance: unclear -> below" in row.changes
    assert row.to_json()["conclusion_changes"] is True


@few
@given(studies)
def test_leaving_one_out_is_what_the_others_give(study: list[Question]) -> None:
    release, values = make_release(study), values_of(study)
    found = jackknife(release, {"m": values})
    people = sorted(set(release.preferences["participant_id"]))
    assert found.n_participants == len(people)
    rhos, rates = [], []
    for person in people:
        others = release.subset(release.preferences["participant_id"] != person)
        rhos.append(spearman(others.sets, values).rho)
        rates.append(preference_rates(others.preferences, values).tie_half.rate)
    for statistic, expected in (("rho", rhos), ("tie_half", rates)):
        known = [each for each in expected if not np.isnan(each)]
        one = found.ranges[statistic]["m"]
        # Of two sets rho is 1 or -1, which the resamples give and the point estimate does not.
        if statistic == "rho" and len(known) < len(expected):
            continue
        assert one.low == pytest.approx(min(known, default=np.nan), nan_ok=True)
        assert one.high == pytest.approx(max(known, default=np.nan), nan_ok=True)


def test_one_person_who_decides_is_named() -> None:
    study = [
        Question(1, (5, 1), participant="p1", values=(2, 1)),
        Question(1, (4, 1), participant="p2", values=(2, 1)),
        Question(1, (1, 4), participant="p3", values=(0, 9)),
    ]
    other = pd.Series([0.0, 0.0, 0.0, 0.0, 5.0, 0.0], index=values_of(study).index)
    found = jackknife(make_release(study), {"m": values_of(study), "other": other})
    assert found.best["tie_half"] == ("m", "other")
    assert found.ranges["tie_half"]["m"].high_without == "p3"
    assert found.ranges["tie_half"]["m"].high == 1


@pytest.mark.parametrize("study", [[], [Question(1)], [Question(0)]])
def test_too_little_gives_reasons(study: list[Question]) -> None:
    release = make_release(study)
    found = sensitivity(release, {"m": values_of(study)}, bootstrap_of(release, 5))
    for statistic in STATISTICS:
        one = found.jackknife.ranges[statistic]["m"]
        assert np.isnan(one.low)
        assert one.to_json()["reason"] == "undefined whoever is left out"
    reasons = [row.reason for row in found.rows if row.conclusions is None]
    assert "no times were recorded" in reasons
    assert "the release does not say how checks went" in reasons
