"""Figures of each participant: by place in the form, by time, and runs of one answer."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from itertools import combinations, groupby
from statistics import mean, median

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hsfiq.analysis.data.release import Release
from hsfiq.analysis.people.participants import (
    Grouping,
    between_groups_p,
    groups_of_people,
    main_values,
    outliers,
    participants,
    place_and_time,
    straight_lining,
    trend,
)
from hsfiq.analysis.resampling.bootstrap import Bootstrap
from hsfiq.analysis.resampling.permutation import holm
from hsfiq.analysis.statistics.preference import position_bias, preference_rates
from tests.analysis import reference
from tests.analysis.studies import Question, bootstrap_of, few, make_release, studies, values_of


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
    result = participants(release, {"m": values_of([Question(0)])}).to_json()
    (written,) = result["participants"].values()
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
        assert (tie_half.ci.low, tie_half.ci.high) == pytest.approx((rate.ci.low, rate.ci.high))
    first, last = result.bins[0].figures, result.bins[-1].figures
    assert result.change.mean_score.value == pytest.approx(
        last.mean_score.value - first.mean_score.value
    )
    change = result.change.mean_score
    assert result.change.mean_score.ci.low < change.value < result.change.mean_score.ci.high


def test_what_was_not_recorded_has_a_reason() -> None:
    study = [Question(1, values=(1.0, 0.0))] * 3
    release = make_release(study)
    result = place_and_time(release, {"m": values_of(study)}, bootstrap_of(release, 5))
    missing = {"bins": [], "change": None, "n_unknown": 3, "reason": "not recorded"}
    assert result.seconds.to_json() == missing
    partly = release.preferences.assign(active_seconds=[None, 3.0, 3.0])
    known = place_and_time(
        replace(release, preferences=partly), {"m": values_of(study)}, bootstrap_of(release, 5)
    ).seconds
    assert (known.n_unknown, len(known.bins), known.bins[0].n) == (1, 1, 2)
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
    assert 1 <= score.ci.low < score.value < score.ci.high <= 7


answers = st.builds(
    Question,
    preferred=st.sampled_from([0, 1]),
    scores=st.sampled_from([(3, 3), (4, 2)]),
    participant=st.sampled_from(["p1", "p2"]),
)


@few
@given(st.lists(answers, max_size=20))
def test_equals_the_definition(study: list[Question]) -> None:
    table = straight_lining(make_release(study).preferences)
    assert list(table.index) == sorted({question.participant for question in study})
    runs: dict[str, int] = {}
    keys = [(each.participant, each.scores, each.preferred) for each in study]
    for (person, *_), run in groupby(keys):
        runs[person] = max(runs.get(person, 0), len(list(run)))
    for person in table.index:
        own = [(each.scores, each.preferred) for each in study if each.participant == person]
        assert table.loc[person, "longest_run"] == runs[person]
        (most,) = Counter(own).most_common(1)
        assert table.loc[person, "modal_share"] == pytest.approx(most[1] / len(own))


def test_a_run_ends_with_its_form() -> None:
    preferences = make_release([Question(1)] * 6).preferences
    one_form = straight_lining(preferences.assign(form="form_1"))
    two_forms = straight_lining(preferences.assign(form=["form_1"] * 4 + ["form_2"] * 2))
    assert (one_form.loc["p1", "longest_run"], two_forms.loc["p1", "longest_run"]) == (6, 4)
    assert isinstance(two_forms, pd.DataFrame)


def with_languages(release: Release) -> Release:
    """The first ten people in English, the next ten in Korean, one in French, others unknown."""
    people = sorted(release.preferences["participant_id"].unique())
    chosen = dict(zip(people, ["en"] * 10 + ["ko"] * 10 + ["fr"], strict=False))
    languages = release.preferences["participant_id"].map(chosen)
    return replace(release, preferences=release.preferences.assign(language=languages))


@pytest.mark.parametrize("metrics", [True, False])
def test_each_group_is_a_release_of_its_own(
    drawn: tuple[Release, pd.Series], metrics: bool
) -> None:
    release, utilities = with_languages(drawn[0]), drawn[1]
    values = {"oracle": utilities} if metrics else {}
    result = groups_of_people(release, values, bootstrap_of(release, 50), 99)["language"]
    assert list(result.groups) == ["en", "ko"]
    assert result.n_left_out == 10
    for language, group in result.groups.items():
        own = release.subset(release.preferences["language"] == language)
        bootstrap = bootstrap_of(own, 50)
        assert (group.n_participants, group.n_questions) == (10, 400)
        if metrics:
            expected = preference_rates(own.preferences, utilities, bootstrap).tie_half
            figures = {"oracle": (expected.rate, expected.n, expected.ci)}
        else:
            bias = position_bias(own.preferences, bootstrap)
            (bin_of_all,) = trend(
                own.preferences, pd.Series(1.0, own.preferences.index), {}, bootstrap, (1.0, 7.0)
            ).bins
            score = bin_of_all.figures.mean_score
            figures = {
                "position_bias": (bias.rate, bias.n, bias.ci),
                "mean_score": (score.value, score.n, score.ci),
            }
        assert list(group.figures) == list(result.tests) == list(figures)
        for name, (value, n, ci) in figures.items():
            assert (group.figures[name].value, group.figures[name].n) == (pytest.approx(value), n)
            ends = group.figures[name].ci
            assert (ends.low, ends.high) == pytest.approx((ci.low, ci.high))


def slow_variance(people: list[tuple[float, int]], groups: list[list[int]]) -> float:
    hits, n = (sum(person[place] for person in people) for place in (0, 1))
    total = 0.0
    for group in groups:
        own_hits, own_n = (sum(people[each][place] for each in group) for place in (0, 1))
        total += own_n * (own_hits / own_n - hits / n) ** 2
    return total / n


@few
@given(
    st.lists(
        st.tuples(st.integers(0, 5), st.integers(1, 5)).map(lambda pair: (min(pair), pair[1])),
        min_size=4,
        max_size=8,
    )
)
@example([(0, 1), (2, 2), (0, 1), (0, 1), (3, 4), (5, 5), (0, 1)])
def test_p_of_groups_is_the_share_of_all_dealings(people: list[tuple[float, int]]) -> None:
    everybody = set(range(len(people)))
    dealings = [
        slow_variance(people, [list(first), sorted(everybody - set(first))])
        for first in combinations(range(len(people)), 2)
    ]
    expected = np.mean([each >= dealings[0] - 1e-12 for each in dealings])
    table = pd.DataFrame(people, columns=["hits", "counted"])
    groups = pd.Series(["a", "a", *["b"] * (len(people) - 2)])
    p, n = between_groups_p(table, groups, 999, np.random.default_rng(0))
    assert (p, n) == (pytest.approx(expected), len(dealings))


def test_a_difference_between_groups_is_found_and_adjusted(
    drawn: tuple[Release, pd.Series],
) -> None:
    release, utilities = with_languages(drawn[0]), drawn[1]
    is_korean = release.preferences["language"] == "ko"
    preferred = release.preferences["preferred"]
    opposite = preferred.mask(is_korean & (preferred > 0), 3 - preferred)
    answers = release.preferences.assign(preferred=opposite, device=is_korean.map(str))
    release = replace(release, preferences=answers)
    noise = pd.Series(np.random.default_rng(0).normal(size=len(utilities)), utilities.index)
    values = {"oracle": utilities, "noise": noise}
    found = groups_of_people(release, values, bootstrap_of(release, 5), 499)
    tests = [test for each in found.values() for test in each.tests.values()]
    assert found["language"].tests["oracle"].p <= 2 / 500
    assert found["language"].tests["noise"].p > 0.02
    assert [test.p_holm for test in tests] == holm(np.array([test.p for test in tests])).tolist()
    assert (len(tests), tests[0].n_permutations) == (4, 499)


def test_a_person_is_in_the_group_of_most_answers() -> None:
    answers = pd.DataFrame(
        {
            "participant_id": ["p1", "p1", "p1", "p2", "p2", "p3", "p4"],
            "language": ["en", "ko", "ko", "ko", "en", None, "en"],
        }
    )
    assert main_values(answers, "language").to_dict() == {"p1": "ko", "p2": "en", "p4": "en"}


@pytest.mark.parametrize(
    ("languages", "reason"),
    [
        (None, "not recorded"),
        ([None] * 3, "not recorded"),
        (["en", "ko", None], "no 2 people are in the same group"),
    ],
)
def test_without_groups_there_is_a_reason(languages: list[str | None] | None, reason: str) -> None:
    study = [Question(1, participant=f"p{number}") for number in range(3)]
    release = make_release(study)
    if languages is not None:
        answers = release.preferences.assign(language=pd.Series(languages, dtype="str"))
        release = replace(release, preferences=answers)
    found = groups_of_people(release, {}, bootstrap_of(release, 5))
    assert found["language"] == Grouping({}, {}, 3, reason)
    assert found["device"].reason == "not recorded"


def test_one_group_alone_has_figures_but_no_test() -> None:
    study = [Question(0, participant=f"p{number}") for number in range(3)]
    release = make_release(study)
    release = replace(release, preferences=release.preferences.assign(language="en"))
    result = groups_of_people(release, {}, bootstrap_of(release, 5))["language"]
    assert result.groups["en"].figures["mean_score"].value == 3
    assert result.groups["en"].figures["position_bias"].reason == "no preference among the answers"
    for test in result.tests.values():
        assert math.isnan(test.p)
        assert math.isnan(test.p_holm)
        assert test.reason == "the figure is defined for fewer than two groups of 2 people"
