"""Agreement of people with themselves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from hsfiq.analysis.data.release import Release
from hsfiq.analysis.people.agreement import _side_by_side, intra_rater, repeated_answers
from hsfiq.analysis.resampling.bootstrap import Bootstrap
from tests.analysis.studies import Question, bootstrap_of, expected_ends, make_release

Answer = tuple[int, int, int]


def release_of(answers: list[tuple[str, Answer, Answer]]) -> Release:
    """Each person's first answer to a question of its own, and the second in table `repeats`."""
    release = make_release(
        [
            Question(preferred, (score_1, score_2), participant=person)
            for person, (score_1, score_2, preferred), _ in answers
        ]
    )
    first = release.preferences
    repeats = pd.DataFrame(
        [again for _, _, again in answers], columns=["score_1", "score_2", "preferred"]
    )
    repeats["repeated_id"] = first["question_id"]
    repeats["question_id"] = first["question_id"] + ".again"
    return replace(release, repeats=repeats, is_checked=True)


def slow_kappa(pairs: list[tuple[int, int]]) -> float:
    """Cohen's weighted kappa, score by score, from the table of counts."""
    levels = range(1, 6)
    observed = expected = 0.0
    n = len(pairs)
    for i in levels:
        for j in levels:
            share = sum(pair == (i, j) for pair in pairs) / n
            by_chance = sum(x == i for x, _ in pairs) * sum(y == j for _, y in pairs) / n**2
            observed += (i - j) ** 2 / 16 * share
            expected += (i - j) ** 2 / 16 * by_chance
    return 1 - observed / expected


def drawn_answers(
    rng: np.random.Generator, n_people: int, n_each: int, same: float
) -> list[tuple[str, Answer, Answer]]:
    answers = []
    for person in range(n_people):
        for _ in range(n_each):
            score_1, score_2, new_1, new_2 = (int(each) for each in rng.integers(1, 6, 4))
            preferred = int(rng.integers(1, 3))
            first = (score_1, score_2, preferred)
            other = (new_1, new_2, 3 - preferred)
            answers.append((f"p{person}", first, first if rng.random() < same else other))
    return answers


def test_equals_the_definition() -> None:
    answers = drawn_answers(np.random.default_rng(1), 5, 8, same=0.6)
    release = release_of(answers)
    result = intra_rater(release, bootstrap_of(release, 50))
    assert (result.n, result.n_participants) == (40, 5)
    same = np.mean([first[2] == again[2] for _, first, again in answers])
    assert result.same_preference.value == pytest.approx(same)
    scores = [(a[side], b[side]) for _, a, b in answers for side in (0, 1)]
    assert result.kappa.value == pytest.approx(slow_kappa(scores))
    assert result.kappa.n == 80
    bootstrap = bootstrap_of(release, 50)
    weights = np.concatenate(list(bootstrap.weights(release.preferences)))[1:].astype(int)
    drawn = [
        slow_kappa(
            [
                pair
                for pair, times in zip(scores, np.repeat(row, 2), strict=True)
                for _ in range(times)
            ]
        )
        for row in weights
    ]
    assert result.kappa.ci is not None
    assert (result.kappa.ci.low, result.kappa.ci.high) == pytest.approx(expected_ends(drawn, 5))


def test_sets_shown_twice_are_repeated_answers_on_whichever_sides() -> None:
    question = Question(1, (5, 2), ("abcde", "fghab"))
    turned = Question(2, (1, 4), ("fghab", "abcde"))
    release = make_release([question, turned, replace(turned, participant="p2")])
    release = replace(
        release,
        sets=release.sets.assign(query_id="q"),
        preferences=release.preferences.assign(query_id="q"),
        queries=pd.DataFrame({"query_id": ["q"], "target_id": [None]}),
    )
    pairs = repeated_answers(release)
    assert len(pairs) == 1
    row = pairs.iloc[0]
    assert [row[name] for name in ("score_1", "score_2", "preferred")] == [5, 2, 1]
    assert [row[f"{name}_again"] for name in ("score_1", "score_2", "preferred")] == [4, 1, 1]


def test_without_repeats_the_columns_are_those_of_repeats() -> None:
    small = make_release([Question(1), Question(2, participant="p2")])
    for release in (small, small.with_categories()):
        none = release.preferences.head(0)
        joined = _side_by_side(release.preferences, none.assign(repeated_id=none["question_id"]))
        pd.testing.assert_frame_equal(repeated_answers(release), joined)


def test_few_repeats_have_a_reason() -> None:
    release = release_of([("p1", (5, 1, 1), (5, 1, 1))])
    result = intra_rater(release, bootstrap_of(release, 5))
    reason = "1 question answered twice by the same person; at least 10 are needed"
    assert (result.same_preference.reason, result.kappa.reason) == (reason, reason)
    empty = make_release([])
    assert intra_rater(empty, bootstrap_of(empty, 5)).n == 0


def test_equal_scores_have_no_kappa() -> None:
    release = release_of([(f"p{n % 3}", (3, 3, 1), (3, 3, 1)) for n in range(12)])
    result = intra_rater(release, bootstrap_of(release, 5))
    assert result.same_preference.value == 1
    assert result.kappa.reason == "all scores are the same"


@pytest.mark.slow
def test_intervals_contain_the_truth() -> None:
    """Of 40 people with four repeated questions each, 70% of the answers are the same again."""
    covered = {"same": 0, "kappa": 0}
    for seed in range(200):
        release = release_of(drawn_answers(np.random.default_rng(seed), 40, 4, same=0.7))
        result = intra_rater(release, Bootstrap.of_release(release, n_resamples=400, seed=seed))
        for name, estimate in (("same", result.same_preference), ("kappa", result.kappa)):
            assert estimate.ci is not None
            covered[name] += estimate.ci.low <= 0.7 <= estimate.ci.high
    assert all(0.90 <= count / 200 <= 0.99 for count in covered.values()), covered
