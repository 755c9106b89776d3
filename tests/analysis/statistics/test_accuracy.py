"""Accuracy of pairs: by margin, and between metrics."""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from hsfiq.analysis.resampling.bootstrap import Bootstrap
from hsfiq.analysis.resampling.intervals import NO_SPREAD
from hsfiq.analysis.statistics.accuracy import (
    BINS,
    AccuracyByMargin,
    Margins,
    PairwiseAccuracy,
    Relations,
    assign_folds,
    equal_bins,
    margins,
    pairwise_accuracies,
)
from tests.analysis.reference import midranks
from tests.analysis.studies import (
    Question,
    bootstrap_of,
    clustered_ends,
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
def test_margins_equal_the_definition(study: list[Question]) -> None:
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


def simulate_margins(rng: np.random.Generator) -> list[Question]:
    """600 answers by 12 participants; larger margins are right more often."""
    study = []
    for place in range(600):
        first, second = rng.normal(size=2)
        chance = 1 / (1 + math.exp(-2 * abs(first - second)))
        higher = 1 if first > second else 2
        answer = higher if rng.random() < chance else 3 - higher
        study.append(
            Question(answer, participant=f"p{place % 12}", values=(float(first), float(second)))
        )
    return study


def test_the_intervals_equal_those_of_repeated_participants() -> None:
    study = simulate_margins(np.random.default_rng(3))
    release = make_release(study)
    bootstrap = Bootstrap.of_release(release, n_resamples=RESAMPLES, seed=7)
    result = margins(release.preferences, values_of(study), bootstrap).by_metric
    gaps, _, right = (np.array(column) for column in zip(*told_apart(study), strict=True))
    weights = np.concatenate(list(bootstrap.weights(release.preferences)))[1:].astype(int)
    for place, margin_bin in enumerate(result.bins):
        inside = equal_bins(gaps) == place
        people = np.array([question.participant for question in study])[inside]
        ends = clustered_ends(right[inside].tolist(), people.tolist())
        assert (margin_bin.ci.low, margin_bin.ci.high) == pytest.approx(ends)
    ranks = stats.rankdata(gaps)
    rhos = [
        stats.pearsonr(np.repeat(ranks, row), np.repeat(right, row)).statistic for row in weights
    ]
    rho = stats.pearsonr(ranks, right).statistic
    sizes = Counter(question.participant for question in study).values()
    assert (result.trend.ci.low, result.trend.ci.high) == pytest.approx(
        expected_ends(rho, rhos, sizes, (-1, 1))
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


def test_undefined_margins_have_a_reason() -> None:
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


def accuracies(study: list[Question], seed: int = 0) -> dict[str, PairwiseAccuracy]:
    release = make_release(study)
    bootstrap = Bootstrap.of_release(release, n_resamples=RESAMPLES, seed=seed)
    return pairwise_accuracies(release.preferences, values_of(study), bootstrap, ties_allowed=True)


def preference_of(question: Question, human: str) -> int:
    """The human preference: 1 for set 1, -1 for set 2, 0 for neither."""
    if human == "preference":
        return {0: 0, 1: 1, 2: -1}[question.preferred]
    first, second = question.scores
    return (first > second) - (first < second)


def agrees(question: Question, human: str, epsilon: float) -> bool:
    first, second = question.values
    assert first is not None
    assert second is not None
    if abs(first - second) <= epsilon:
        return preference_of(question, human) == 0
    return preference_of(question, human) == (1 if first > second else -1)


def share(study: list[Question], human: str, epsilon: float) -> float:
    return sum(agrees(question, human, epsilon) for question in study) / len(study)


def share_of_ties(study: list[Question], human: str) -> float:
    return sum(preference_of(question, human) == 0 for question in study) / len(study)


def best_epsilon(study: list[Question], human: str) -> float:
    """Try every epsilon that makes a difference, from the smallest."""
    tried = sorted({0.0, *(abs(q.values[0] - q.values[1]) for q in study)})
    return max(tried, key=lambda epsilon: (share(study, human, epsilon), -epsilon))


@few
@given(studies, st.integers(0, 3))
def test_equals_the_definition(study: list[Question], seed: int) -> None:
    used = [question for question in study if None not in question.values]
    for human, result in accuracies(study, seed).items():
        assert result.n == len(used)
        assert result.human_ties == sum(preference_of(question, human) == 0 for question in used)
        assert result.metric_ties == sum(q.values[0] == q.values[1] for q in used)
        if not used:
            assert result.reason == "no pair has both values"
            continue
        ties = share_of_ties(used, human)
        assert result.in_sample_base_rate == pytest.approx(max(ties, (1 - ties) / 2))
        epsilon = best_epsilon(used, human)
        assert result.in_sample_epsilon == epsilon
        assert result.in_sample == pytest.approx(share(used, human, epsilon))
        assert result.uncalibrated == pytest.approx(share(used, human, 0.0))
        folds = assign_folds(make_release(used).preferences["participant_id"], seed)
        if len(set(folds)) == 1:
            assert math.isnan(result.accuracy)
            assert result.reason == "the choice of epsilon needs a second participant"
            continue
        right, expected_base = 0, 0.0
        for question, fold in zip(used, folds, strict=True):
            remaining = [q for q, other_fold in zip(used, folds, strict=True) if other_fold != fold]
            assert result.epsilons[fold] == best_epsilon(remaining, human)
            right += agrees(question, human, best_epsilon(remaining, human))
            elsewhere = share_of_ties(remaining, human)
            is_tie = preference_of(question, human) == 0
            expected_base += is_tie if elsewhere >= (1 - elsewhere) / 2 else (not is_tie) / 2
        assert result.accuracy == pytest.approx(right / len(used))
        assert result.base_rate == pytest.approx(expected_base / len(used))
        assert result.in_sample >= result.uncalibrated


def test_a_study_that_can_be_counted_by_hand() -> None:
    study = [
        Question(0, (3, 3), values=(1.0, 1.5)),  # both see a tie, by epsilon 0.5
        Question(1, (4, 2), values=(3.0, 1.0)),  # both see set 1 ahead
        Question(2, (4, 4), values=(1.0, 4.0)),  # the scores tie, the metric sees set 2 ahead
        Question(1, (2, 5), values=(None, 1.0)),  # no value
    ]
    result = accuracies([replace(q, participant=name) for name in ("p1", "p2") for q in study])
    preference, score = result["preference"], result["score"]
    assert (preference.accuracy, preference.in_sample, preference.uncalibrated) == (1, 1, 2 / 3)
    assert preference.epsilons == (0.5, 0.5)
    assert (score.accuracy, score.human_ties, score.n) == (2 / 3, 4, 6)
    assert preference.ci.reason == NO_SPREAD


def test_the_variance_is_that_of_the_participants_errors() -> None:
    rng = np.random.default_rng(3)
    study = simulate(rng, n_participants=6, n_questions=5, noise=1.0)
    release = make_release(study)
    bootstrap = Bootstrap.of_release(release, n_resamples=RESAMPLES, seed=4)
    result = pairwise_accuracies(release.preferences, values_of(study), bootstrap)["score"]
    folds = assign_folds(release.preferences["participant_id"], 4)
    right = [
        agrees(question, "score", result.epsilons[fold])
        for question, fold in zip(study, folds, strict=True)
    ]
    ends = clustered_ends(right, [question.participant for question in study])
    assert (result.ci.low, result.ci.high) == pytest.approx(ends)


def simulate(
    rng: np.random.Generator, n_participants: int, n_questions: int, noise: float
) -> list[Question]:
    """Scores that follow a quality, ties below 0.5, and a metric of the same quality."""
    study = []
    for participant in range(n_participants):
        for _ in range(n_questions):
            quality = rng.normal(size=2)
            values = quality + noise * rng.normal(size=2)
            gap = quality[0] - quality[1]
            answer = 0 if abs(gap) < 0.5 else 1 if gap > 0 else 2
            scores = (3, 3) if answer == 0 else (4, 2) if answer == 1 else (2, 4)
            study.append(
                Question(
                    answer, scores, participant=f"p{participant}", values=tuple(map(float, values))
                )
            )
    return study


@pytest.mark.parametrize(
    ("ties_allowed", "preferred", "reason"),
    [
        (False, 1, "participants had to prefer one of the sets, so no metric tie could be correct"),
        (None, 1, ("no participant chose neither set, so no metric tie could be correct; the "
         "release does not record whether it was allowed")),
        (None, 0, None),
        (True, 1, None),
    ],
)  # fmt: skip
def test_forced_choices(ties_allowed: bool | None, preferred: int, reason: str | None) -> None:
    study = [
        replace(Question(choice, values=(1.0, 0.0)), participant=f"p{number}")
        for number, choice in enumerate([1, 2, preferred])
    ]
    release = make_release(study)
    bootstrap, values = Bootstrap.of_release(release, n_resamples=5), values_of(study)
    result = pairwise_accuracies(release.preferences, values, bootstrap, ties_allowed=ties_allowed)
    preference = result["preference"]
    assert preference.reason == reason
    assert result["score"].reason is None  # scores can always be the same
    figures = (preference.accuracy, preference.base_rate, preference.in_sample)
    assert all(math.isnan(figure) == (reason is not None) for figure in figures)
    if reason is not None:
        assert math.isnan(preference.in_sample_base_rate)
        missing = dict.fromkeys(("accuracy", "epsilon", "base_rate"))
        assert preference.to_json()["in_sample"] == missing | {"reason": reason}


def test_the_base_rate_out_of_sample_is_decided_on_the_other_folds() -> None:
    """One person always ties, so the others decide wrongly for each."""
    study = [
        Question(0 if person == 0 else 1, values=(1.0, 0.0), participant=f"p{person}")
        for person in range(3)
        for _ in range(3)
    ]
    result = accuracies(study)["preference"]
    assert result.in_sample_base_rate == pytest.approx(1 / 3)
    assert result.base_rate == 0


def test_what_is_undefined_has_a_reason() -> None:
    constant = [
        Question(preferred, values=(1.0, 1.0), participant=f"p{preferred}")
        for preferred in (0, 1, 2)
    ]
    result = accuracies(constant)["preference"]
    assert (result.accuracy, result.human_ties, result.metric_ties) == (1 / 3, 1, 3)
    for study in ([], [Question(1)], [Question(1, values=(None, 1.0))]):
        for accuracy in accuracies(study).values():
            written = json.loads(json.dumps(accuracy.to_json(), allow_nan=False))
            assert written["accuracy"] is None
            assert written["ci"] == [None, None]
            assert written["reason"]
            assert written["ci_method"]["reason"]
            in_sample = written["in_sample"]
            assert ("reason" in in_sample) == (in_sample["accuracy"] is None)


@few
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(-1, 1)), max_size=20))
def test_epsilon_is_the_smallest_optimal_value(pairs: list[tuple[int, int]]) -> None:
    gaps, human = (np.array([pair[place] for pair in pairs], dtype=np.int64) for place in (0, 1))
    relations = Relations.of(gaps.astype(np.float64), human)
    epsilon = relations.best_epsilon()
    counts = {tried: int(relations.agree(float(tried)).sum()) for tried in (0, *gaps)}
    best = max(counts.values())
    assert epsilon == min(tried for tried, count in counts.items() if count == best)


def test_folds_are_equal_and_keep_participants_together() -> None:
    rows = make_release(simulate(np.random.default_rng(1), 13, 3, noise=1.0)).preferences
    people = rows["participant_id"]
    folds = assign_folds(people, seed=2)
    assert sorted(np.bincount(folds)) == [6, 6, 9, 9, 9]
    assert all(len(set(folds[people == name])) == 1 for name in people.unique())
    shuffled = people.sample(frac=1, random_state=1)
    assert (assign_folds(shuffled, seed=2) == folds[shuffled.index]).all()
