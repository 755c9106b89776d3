"""The answer of a release: its doubts, worst cases and jackknife against their definitions."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.special import expit

from hsfiq.analysis.analyze import analyze
from hsfiq.analysis.answer import (
    Answer,
    DecisionRules,
    Excluded,
    answer,
    change_of,
    signed_as,
    standard_error,
)
from hsfiq.analysis.data.metrics import GivenScores
from hsfiq.analysis.data.release import Plan, Release
from hsfiq.analysis.reports.answer import _doubt_rows
from hsfiq.analysis.reports.report import analysis_text
from hsfiq.analysis.resampling.bootstrap import Bootstrap
from hsfiq.analysis.resampling.permutation import holm
from hsfiq.analysis.sensitivity import MIN_SECONDS, PRACTICE, JackknifeRange, rules
from hsfiq.analysis.statistics.comparison import compare_all, compare_by
from hsfiq.analysis.systems.strengths import strengths_and_side
from hsfiq.analysis.systems.systems import compared_systems, names_of
from hsfiq.analysis.verdicts import NEUTRAL, Verdict, compared_systems_by, decided
from tests.analysis.studies import Question, bootstrap_of, make_release

Values = dict[str, "pd.Series[float]"]


def answer_of(release: Release, values: Values | None = None, **options: Any) -> Answer:
    bootstrap = Bootstrap.of_release(release, n_resamples=200)
    values = values or {}
    found = answer(release, values, bootstrap, compare_all(release, values, bootstrap), **options)
    assert found is not None
    return found


@pytest.fixture(scope="module")
def values(drawn: tuple[Release, pd.Series]) -> Values:
    """A good metric, a noisy one, and one with few values."""
    good = drawn[1]
    noise = np.random.default_rng(4).normal(0, good.std(), len(good))
    return {
        "good": good,
        "noisy": good + pd.Series(noise, index=good.index),
        "coarse": (good > good.quantile(0.8)).astype("float64"),
    }


@pytest.fixture(scope="module")
def on_systems(drawn: tuple[Release, pd.Series]) -> Answer:
    return answer_of(drawn[0])


@pytest.fixture(scope="module")
def on_metrics(drawn: tuple[Release, pd.Series], values: Values) -> Answer:
    return answer_of(drawn[0], values)


def plan(question: str, **fields: Any) -> Plan:
    primary = "win_rate" if question == "systems" else "tie_half"
    return replace(Plan(question, None, primary, 0.04, 0.01, (), None), **fields)


# Verdicts, their families, and statistics that disagree.


def win_rate(release: Release, a: str, b: str) -> float:
    """The rate of the model with strengths and side, fitted to these answers."""
    names = names_of(release)
    bootstrap = Bootstrap.of_release(release, n_resamples=1)
    rows = compared_systems(release.preferences, names)
    model = strengths_and_side(rows, names, bootstrap)
    return float(expit(model.strength[a].value - model.strength[b].value))


def test_the_best_two_are_first_and_pairs_are_in_order(on_metrics: Answer) -> None:
    pairs = [(each.a, each.b) for each in on_metrics.verdicts]
    assert [frozenset(pair) for pair in pairs] == [
        {"good", "noisy"}, {"good", "coarse"}, {"noisy", "coarse"},
    ]  # fmt: skip
    assert on_metrics.verdict is on_metrics.verdicts[0]
    assert all(each.difference >= 0 for each in on_metrics.verdicts)


def test_other_statistics_are_one_family(
    drawn: tuple[Release, pd.Series], values: Values, on_metrics: Answer
) -> None:
    release = drawn[0]
    bootstrap = Bootstrap.of_release(release, n_resamples=200)
    assert {each.statistic for each in on_metrics.others} == {
        "spearman", "symmetric", "within_query",
    }  # fmt: skip
    p = [
        found.p
        for statistic in ("spearman", "symmetric")
        for _, _, found in compare_by(statistic, release, values, bootstrap)
    ]
    adjusted = holm(np.array(p))
    found = [each.p_holm for each in on_metrics.others if each.statistic != "within_query"]
    assert len(found) == len(adjusted) == 6
    assert sum(found) >= sum(adjusted)


def test_a_statistic_that_decides_otherwise_is_named() -> None:
    """People give the preferred set of system b the higher score, though they prefer a."""
    rng = np.random.default_rng(0)
    study = [
        Question(1, scores=(2, 4) if rng.random() < 0.9 else (4, 2), participant=f"p{place % 12}")
        for place in range(240)
    ]
    release = make_release(study)
    first = rng.random(240) < 0.5
    sides = release.preferences.assign(
        system_1=np.where(first, "a", "b"),
        system_2=np.where(first, "b", "a"),
        preferred=np.where(first ^ (rng.random(240) < 0.1), 1, 2),
    )
    score = {"a": 2, "b": 4}
    sides = sides.assign(score_1=sides["system_1"].map(score), score_2=sides["system_2"].map(score))
    sets = release.sets.copy()
    for side in (1, 2):
        of_set = sides.set_index(f"set_{side}")
        rows = sets["set_id"].isin(of_set.index)
        sets.loc[rows, "system"] = sets.loc[rows, "set_id"].map(of_set[f"system_{side}"])
    noise = rng.random(len(sets)) < 0.2
    sets["score"] = sets["system"].map(score) + noise
    found = answer_of(replace(release, preferences=sides, sets=sets))
    assert (found.verdict.a, found.verdict.verdict) == ("a", "better")
    (other,) = found.disagreements(found.verdict)
    assert (other.statistic, other.a) == ("mean_score", "b")
    assert found.to_json()["disagreements"] == [["b", "a", "mean_score"]]
    (doubt,) = [each for each in found.doubts if each.about == "mean_score"]
    assert (doubt.change, doubt.changes) == ("reversed", True)
    assert doubt.verdict is not None
    assert doubt.verdict.difference < 0


@pytest.mark.parametrize(
    ("before", "after", "change"),
    [
        ("better", "better", "unchanged"), ("better", "undecided", "undecided"),
        ("undecided", "better", "better"), ("undecided", "undecided", "unchanged"),
        ("equivalent", "better", "better"), ("better", "undefined", "undefined"),
    ],
)  # fmt: skip
def test_changes_of_a_verdict(before: Any, after: Any, change: str) -> None:
    first = Verdict("systems", "a", "b", "win_rate", 0.1, None, 10, 0.01, before)
    again = replace(first, verdict=after)
    assert change_of(first, again) == change
    turned = replace(again, a="b", b="a")
    directed = {"unchanged": "reversed", "better": "worse"} if after == "better" else {}
    assert change_of(first, turned) == directed.get(change, change)
    assert signed_as(first, turned).difference == -0.1


def test_a_declared_plan_decides(drawn: tuple[Release, pd.Series], values: Values) -> None:
    declared = replace(
        drawn[0], plan=plan("metrics", pair=("coarse", "noisy"), statistic="spearman")
    )
    found = answer_of(declared, values)
    assert found.rules == DecisionRules(
        "metrics", "spearman", 0.04, 0.01, ("coarse", "noisy"), (), declared=True
    )
    assert found.verdict.pair == {"coarse", "noisy"}
    assert {each.statistic for each in found.verdicts} == {"spearman"}
    assert {each.statistic for each in found.others} == {"tie_half", "symmetric", "within_query"}
    assert answer_of(declared, values, margin=0.1).rules.declared is False
    on_systems = answer_of(declared)
    assert on_systems.rules == DecisionRules("systems", "win_rate")


def test_declared_exclusions_are_compared_with_the_release(on_systems: Answer) -> None:
    assert on_systems.exclusions_as_declared is None
    rules = replace(on_systems.rules, exclusions=("invalid",), declared=True)
    with_filter = replace(on_systems, rules=rules, excluded=Excluded({}, (), ("invalid",)))
    assert with_filter.exclusions_as_declared is True
    assert replace(with_filter, excluded=Excluded({}, (), ())).exclusions_as_declared is False


def test_a_release_without_two_systems_has_no_answer() -> None:
    release = make_release([Question(1), Question(2)])
    assert answer(release, {}, bootstrap_of(release, 10), []) is None


# Doubts.


def test_doubts_repeat_the_analysis_of_fewer_answers(
    drawn: tuple[Release, pd.Series], on_systems: Answer
) -> None:
    release = drawn[0]
    bootstrap = Bootstrap.of_release(release, n_resamples=200)
    (rule, dropped), *_ = [
        (rule, each)
        for rule, each in rules(release.preferences, MIN_SECONDS, PRACTICE)
        if not isinstance(each, str) and 0 < each.sum() < len(each)
    ]
    (doubt,) = [each for each in on_systems.doubts if each.about == rule]
    again = decided(compared_systems_by("win_rate", release.subset(~dropped), bootstrap))
    (expected,) = [each for each in again if each.pair == on_systems.verdict.pair]
    assert doubt.verdict == replace(signed_as(on_systems.verdict, expected), simulated=True)
    assert doubt.n_dropped == dropped.sum()


def test_direct_comparisons_are_of_the_two_alone(
    drawn: tuple[Release, pd.Series], on_systems: Answer
) -> None:
    (doubt,) = [each for each in on_systems.doubts if each.about == "direct comparisons only"]
    both = set(on_systems.verdict.pair)
    shown = drawn[0].preferences
    n = sum(
        {one, two} == both for one, two in zip(shown["system_1"], shown["system_2"], strict=True)
    )
    assert doubt.verdict is not None
    assert doubt.verdict.n == n == len(shown) - (doubt.n_dropped or 0)


def test_judgments_of_the_same_triplet_count_once(overlapping: tuple[Release, pd.Series]) -> None:
    release = overlapping[0]
    (doubt,) = [
        each for each in answer_of(release).doubts if each.about == "one judgment per triplet"
    ]
    assert doubt.n_dropped == len(release.preferences) - release.preferences["query_id"].nunique()


def test_what_cannot_be_tried_is_last_and_has_its_reason(
    drawn: tuple[Release, pd.Series], values: Values
) -> None:
    release = drawn[0]
    unrecorded = release.preferences.assign(irrelevant=None, active_seconds=None)
    doubts = answer_of(replace(release, preferences=unrecorded), values).doubts
    assert {each.reason for each in doubts if each.verdict is None} == {"not recorded"}
    tried = [each.verdict is None for each in doubts]
    assert tried == sorted(tried)
    assert any(tried)
    changes = [each.changes for each in doubts if each.verdict is not None]
    assert changes == sorted(changes, reverse=True)


def test_a_rule_that_leaves_no_answer_says_so(drawn: tuple[Release, pd.Series]) -> None:
    release = drawn[0]
    fast = release.preferences.assign(active_seconds=MIN_SECONDS / 2)
    doubts = answer_of(replace(release, preferences=fast)).doubts
    assert [each.reason for each in doubts if "seconds" in each.about] == ["no answer is left"]


@pytest.mark.parametrize(
    ("verdict", "low", "high", "text"),
    [
        ("better", 0.01, 0.06, "same sign"),
        ("better", -0.01, 0.06, "reversed for some"),
        ("undecided", 0.01, 0.06, "same sign"),
        ("undecided", -0.02, 0.06, "sign varies"),
        ("undecided", -0.06, -0.02, "same sign"),
    ],
)
def test_the_sign_without_any_one_person(
    on_systems: Answer, verdict: Any, low: float, high: float, text: str
) -> None:
    found = replace(
        on_systems,
        verdict=replace(on_systems.verdict, verdict=verdict),
        without_each=JackknifeRange(low, high, "p1", "p2"),
    )
    (row,) = [each for each in _doubt_rows(found) if "any one person" in each.about]
    assert row.word == text


# One person left out, and missing answers: slow twins.


def test_win_rates_without_each_person(
    drawn: tuple[Release, pd.Series], on_systems: Answer
) -> None:
    release, verdict = drawn[0], on_systems.verdict
    people = release.preferences["participant_id"]
    without = {
        person: win_rate(release.subset(people != person), verdict.a, verdict.b) - NEUTRAL
        for person in people.unique()
    }
    found = on_systems.without_each
    assert found is not None
    assert found.low == pytest.approx(min(without.values()), abs=1e-6)
    assert found.high == pytest.approx(max(without.values()), abs=1e-6)
    assert found.low_without == min(without, key=lambda person: without[person])


@pytest.mark.parametrize("statistic", ["tie_half", "spearman", "symmetric"])
def test_differences_of_metrics_without_each_person(
    drawn: tuple[Release, pd.Series], values: Values, statistic: str
) -> None:
    release = replace(drawn[0], plan=plan("metrics", statistic=statistic))
    two = {name: values[name] for name in ("good", "coarse")}
    two["coarse"] = two["coarse"].where(two["good"] < two["good"].quantile(0.9))
    found = answer_of(release, two)
    people = release.preferences["participant_id"]
    sign = 1 if found.verdict.a == "good" else -1
    without = []
    for person in people.unique():
        rest = release.subset(people != person)
        ((_, _, each),) = compare_by(
            statistic, rest, two, Bootstrap.of_release(rest, n_resamples=1)
        )
        without.append(sign * each.difference)
    assert found.without_each is not None
    bounds = (found.without_each.low, found.without_each.high)
    assert bounds == pytest.approx((min(without), max(without)))


def test_mean_scores_without_each_person(drawn: tuple[Release, pd.Series]) -> None:
    found = answer_of(replace(drawn[0], plan=plan("systems", statistic="mean_score")))
    sets, verdict = drawn[0].sets, found.verdict
    without = []
    for person in sets["participant_id"].unique():
        means = sets[sets["participant_id"] != person].groupby("system")["score"].mean()
        without.append(means[verdict.a] - means[verdict.b])
    assert found.without_each is not None
    assert found.without_each.low == pytest.approx(min(without))
    assert found.worst_cases[0].tipping_point is None
    assert "worst case" in (found.worst_cases[0].reason or "")


def missing(release: Release, n: int, tmp_path: Any) -> Release:
    """The release in a folder whose manifest says that n assigned questions are not in it."""
    folder = tmp_path / "release"
    folder.mkdir()
    funnel = {"steps": [{"rule": "contradicts", "dropped": n}, {"rule": "check", "dropped": 9}]}
    manifest = {"funnel": funnel, "filters": [{"name": "too-fast", "parameters": {"seconds": 2.0}}]}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return replace(release, folder=folder)


def test_the_worst_case_of_systems(drawn: tuple[Release, pd.Series], tmp_path: Any) -> None:
    """Ten more answers, half of them with the other side, all for the second system."""
    release = missing(drawn[0], 10, tmp_path)
    found = answer_of(release)
    verdict, worst = found.verdict, found.worst_cases[0]
    assert found.excluded is not None
    assert (found.excluded.n_missing, found.excluded.filters) == (10, ("too-fast(seconds=2)",))

    def with_more(n: int) -> float:
        more = release.preferences.iloc[:1].loc[lambda rows: rows.index.repeat(n)]
        second = np.arange(n) % 2 == 0
        more = more.assign(
            system_1=np.where(second, verdict.a, verdict.b),
            system_2=np.where(second, verdict.b, verdict.a),
            preferred=np.where(second, 2, 1),
        )
        table = pd.concat([release.preferences, more], ignore_index=True)
        return win_rate(replace(release, preferences=table, is_checked=True), verdict.a, verdict.b)

    assert worst.difference == pytest.approx(with_more(10) - NEUTRAL, abs=1e-6)
    tipping = worst.tipping_point
    assert tipping is not None
    assert with_more(tipping + tipping % 2) <= 0.5 < with_more(tipping - 2 + tipping % 2)


def test_the_worst_case_of_metrics(
    drawn: tuple[Release, pd.Series], values: Values, tmp_path: Any
) -> None:
    found = answer_of(missing(drawn[0], 10, tmp_path), values)
    verdict, worst = found.verdict, found.worst_cases[0]
    n, d = verdict.n, verdict.difference
    assert worst.difference == pytest.approx((n * d - 10) / (n + 10))
    assert worst.tipping_point == math.ceil(n * d - 1e-9)
    assert worst.change == "unchanged"


def test_without_a_manifest_the_worst_case_is_unknown(on_systems: Answer) -> None:
    worst = on_systems.worst_cases[0]
    assert (worst.n_missing, worst.change) == (None, None)
    assert math.isnan(worst.difference)
    assert worst.tipping_point is not None


def test_people_to_decide_by_hand(drawn: tuple[Release, pd.Series], values: Values) -> None:
    """n (z + z)^2 SE^2 / d^2, with the standard error of Student's interval."""
    noise = np.random.default_rng(1).normal(0, 1e-3, len(values["good"]))
    two = {"good": values["good"], "same": values["good"] + noise}
    found = answer_of(drawn[0], two)
    verdict = found.verdict
    assert verdict.verdict == "undecided"
    assert verdict.ci is not None
    t = stats.t.ppf(0.975, verdict.ci.df)
    error = standard_error(verdict)
    assert error == pytest.approx((verdict.difference - verdict.ci.low) / t)
    z = stats.norm.ppf(0.975) + stats.norm.ppf(0.8)
    expected = math.ceil(30 * (z * error / verdict.difference) ** 2)
    assert found.people_to_decide == (expected if expected < 100_000 else None)


def test_of_people_counts_those_who_differ(on_systems: Answer, drawn: Any) -> None:
    people = on_systems.to_json()["people"]
    assert isinstance(people, dict)
    assert 0 < people["for_a"] + people["for_b"] <= people["n"] <= 30


# The text.


@pytest.mark.parametrize("names", [("good", "noisy", "coarse"), ("good",), ()])
def test_the_text_fits_a_screen(
    drawn: tuple[Release, pd.Series], values: Values, names: tuple[str, ...]
) -> None:
    release = drawn[0]
    metrics = [GivenScores(name, pd.DataFrame({"set_id": values[name].index,
                                               "score": values[name].to_numpy()}))
               for name in names]  # fmt: skip
    text = analysis_text(analyze(release, metrics, bootstrap_of(release, 100)))
    lines = text.splitlines()
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 100
    assert "SIMULATED" in lines[0]
    assert any("--explain" in line for line in lines)
