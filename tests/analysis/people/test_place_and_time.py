"""Scores and accuracy by place in the form and by time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from hsfiq.analysis.data.release import Release
from hsfiq.analysis.people.participants import place_and_time, trend
from hsfiq.analysis.resampling.bootstrap import Bootstrap
from hsfiq.analysis.statistics.preference import preference_rates
from tests.analysis.studies import Question, bootstrap_of, make_release, values_of


def test_equals_the_definition_in_each_bin(drawn: tuple[Release, pd.Series]) -> None:
    release, utilities = drawn
    placed = release.preferences.assign(
        place=release.preferences.groupby("participant_id").cumcount()
    )
    release = replace(release, preferences=placed)
    bootstrap = bootstrap_of(release, 30)
    result = place_and_time(release, {"oracle": utilities}, bootstrap).place
    assert [(each.low, each.high, each.n) for each in result.bins] == [
        (1 + 8 * place, 8 + 8 * place, 240) for place in range(5)
    ]
    for each in result.bins:
        rows = placed[placed["place"].between(each.low - 1, each.high - 1)]
        assert each.figures.mean_score.value == pytest.approx(
            rows[["score_1", "score_2"]].to_numpy().mean()
        )
        rate = preference_rates(rows, utilities, bootstrap).tie_half
        tie_half = each.figures.tie_half["oracle"]
        assert (tie_half.value, tie_half.n) == (pytest.approx(rate.rate), rate.n)
        assert tie_half.ci is not None
        assert rate.ci is not None
        assert (tie_half.ci.low, tie_half.ci.high) == pytest.approx((rate.ci.low, rate.ci.high))
    first, last = result.bins[0].figures, result.bins[-1].figures
    assert result.change is not None
    assert result.change.mean_score.value == pytest.approx(
        last.mean_score.value - first.mean_score.value
    )
    assert result.change.mean_score.ci is not None
    change = result.change.mean_score
    assert result.change.mean_score.ci.low < change.value < result.change.mean_score.ci.high


def test_what_was_not_recorded_has_a_reason() -> None:
    study = [Question(1, values=(1.0, 0.0))] * 3
    release = make_release(study)
    result = place_and_time(release, {"m": values_of(study)}, bootstrap_of(release, 5))
    assert result.seconds.to_json() == {
        "bins": [],
        "change": None,
        "n_unknown": 3,
        "reason": "not recorded",
    }
    partly = release.preferences.assign(active_seconds=[None, 3.0, 3.0])
    known = place_and_time(
        replace(release, preferences=partly), {"m": values_of(study)}, bootstrap_of(release, 5)
    ).seconds
    assert (known.n_unknown, len(known.bins), known.bins[0].n) == (1, 1, 2)
    assert known.change is not None
    assert known.change.mean_score.reason == "there is only one bin"


def test_a_bin_without_preferences_has_no_accuracy() -> None:
    study = [Question(0, values=(1.0, 0.0)), Question(1, values=(1.0, 0.0), participant="p2")]
    release = make_release(study)
    preferences = release.preferences.assign(place=[0, 1])
    result = place_and_time(
        replace(release, preferences=preferences), {"m": values_of(study)}, bootstrap_of(release, 5)
    ).place
    first, last = (each.figures.tie_half["m"] for each in result.bins)
    assert (first.n, first.reason) == (0, "no pair has a preference and both values")
    assert last.value == 1
    assert result.change is not None
    assert result.change.tie_half["m"].reason == first.reason


@pytest.mark.slow
def test_the_interval_of_the_change_contains_the_truth() -> None:
    """40 people of different habits, whose scores rise by 0.5 over the form."""
    covered = 0
    n_people, n_questions = 40, 25
    place = np.tile(np.arange(n_questions), n_people)
    people = np.repeat([f"p{number:02}" for number in range(n_people)], n_questions)
    bins = (place // 5).astype(float)
    for seed in range(200):
        rng = np.random.default_rng(seed)
        slope = np.repeat(rng.normal(0.5, 0.3, n_people), n_questions)
        offset = np.repeat(rng.normal(0, 0.4, n_people), n_questions)
        score = 3 + offset + slope * bins / 4 + rng.normal(0, 1, len(place))
        rows = pd.DataFrame(
            {
                "participant_id": people,
                "query_id": [str(number) for number in range(len(place))],
                "score_1": score,
                "score_2": score,
                "preferred": 1,
            }
        )
        bootstrap = Bootstrap.of_rows(rows, n_resamples=400, seed=seed)
        change = trend(rows, pd.Series(place, dtype="float64"), {}, bootstrap, (1, 5)).change
        assert change is not None
        assert change.mean_score.ci is not None
        covered += change.mean_score.ci.low <= 0.5 <= change.mean_score.ci.high
    assert 0.90 <= covered / 200 <= 0.99


def test_intervals_of_mean_scores_end_where_the_scale_ends() -> None:
    scores = ((7, 6), (6, 7), (7, 7), (6, 6))
    study = [Question(1, pair, participant=f"p{n}") for n, pair in enumerate(scores)]
    release = make_release(study)
    placed = release.preferences.assign(place=0)
    release = replace(release, points=7, preferences=placed)
    (only,) = place_and_time(release, {}, bootstrap_of(release, 200)).place.bins
    score = only.figures.mean_score
    assert score.ci is not None
    assert 1 <= score.ci.low < score.value < score.ci.high <= 7
