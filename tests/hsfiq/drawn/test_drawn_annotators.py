from collections import Counter
from dataclasses import replace
from itertools import combinations
from random import Random
from statistics import mean, median

import pytest

from hsfiq.answer_rules import Answer
from hsfiq.drawn import (
    SYSTEMS,
    Population,
    SimulatedAnnotator,
    catalogue,
    corpus,
    draw_annotators,
    draw_triplets,
    garment_of,
    set_utility,
)

ORACLE = SimulatedAnnotator("simulated-oracle", noise=0)


@pytest.fixture(scope="module")
def pairs() -> list[tuple[float, float]]:
    """The utilities of set 1 and set 2 in typical questions."""
    garments = catalogue(Random(0), 120)
    rng, drawn = Random(2), []
    for triplet in draw_triplets(Random(1), garments, 150):
        images = corpus(garments, triplet.category)
        worth = [
            set_utility(triplet, [garment_of(name) for name in ranked.images[:5]])
            for ranked in (system.rank(triplet, images, 7) for system in SYSTEMS)
        ]
        for first, second in combinations(worth, 2):
            drawn.append((first, second) if rng.random() < 0.5 else (second, first))
    return drawn


@pytest.fixture(scope="module")
def answers(pairs: list[tuple[float, float]]) -> list[Answer]:
    annotators, rng = draw_annotators(Random(3), 61), Random(4)
    return [rng.choice(annotators).answer(rng, *pair) for pair in pairs for _ in range(10)]


def test_without_noise_bias_and_lapses_the_better_set_is_always_preferred(
    pairs: list[tuple[float, float]],
) -> None:
    for first, second in pairs:
        if first != second:
            answer = ORACLE.answer(Random(0), first, second)
            assert answer.values["preferred"] == (1 if first > second else 2)
            assert (answer.values["score_1"] - answer.values["score_2"]) * (first - second) >= 0
            assert ORACLE.share_of_set_1(first, second) == (first > second)


def test_equal_sets_give_a_tie_or_a_random_preference() -> None:
    rng = Random(0)
    tossed = [ORACLE.answer(rng, 0.6, 0.6).values["preferred"] for _ in range(400)]
    assert set(tossed) == {1, 2}
    assert abs(mean(tossed) - 1.5) < 0.1
    assert ORACLE.answer(rng, 0.6, 0.6, ties_allowed=True).values["preferred"] == 0
    assert ORACLE.share_of_set_1(0.6, 0.6) == 0.5


def test_ties_come_only_where_they_are_allowed() -> None:
    rng, annotator = Random(0), SimulatedAnnotator("simulated-1")
    allowed = Counter(
        annotator.answer(rng, 0.6, 0.62, ties_allowed=True).values["preferred"] for _ in range(500)
    )
    assert set(allowed) == {0, 1, 2}
    assert 0 not in {annotator.answer(rng, 0.6, 0.62).values["preferred"] for _ in range(500)}


@pytest.mark.parametrize(
    ("annotator", "utilities"),
    [
        (SimulatedAnnotator("simulated-1"), (0.7, 0.6)),
        (SimulatedAnnotator("simulated-1", noise=2, side_bias=0.8), (0.6, 0.65)),
        (SimulatedAnnotator("simulated-1", noise=0.5, side_bias=-0.3, lapse_rate=0.3), (0.5, 0.6)),
    ],
)
def test_preferences_follow_the_documented_model(
    annotator: SimulatedAnnotator, utilities: tuple[float, float]
) -> None:
    rng, n = Random(1), 8000
    share = sum(annotator.answer(rng, *utilities).values["preferred"] == 1 for _ in range(n)) / n
    assert share == pytest.approx(annotator.share_of_set_1(*utilities), abs=0.018)


def test_side_bias_shows_in_the_share_of_set_1(pairs: list[tuple[float, float]]) -> None:
    shares = []
    for side_bias in (0.0, 0.6, 1.5):
        annotator, rng = SimulatedAnnotator("simulated-1", side_bias=side_bias), Random(5)
        mirrored = [pair for first, second in pairs for pair in ((first, second), (second, first))]
        shares.append(
            mean(annotator.answer(rng, *pair).values["preferred"] == 1 for pair in mirrored)
        )
    assert shares[0] == pytest.approx(0.5, abs=0.03)
    assert shares[0] + 0.04 < shares[1] < shares[2] - 0.04


def test_the_offset_changes_the_scores_but_not_the_preference() -> None:
    mild = SimulatedAnnotator("simulated-1", offset=1)
    harsh = SimulatedAnnotator("simulated-1", offset=-1)
    answers = [
        [annotator.answer(Random(s), 0.6, 0.65) for s in range(300)] for annotator in (mild, harsh)
    ]
    assert (
        mean(a.values["score_1"] for a in answers[0])
        > mean(a.values["score_1"] for a in answers[1]) + 0.8
    )
    assert [a.values["preferred"] for a in answers[0]] == [
        a.values["preferred"] for a in answers[1]
    ]


def test_a_lapse_carries_no_information_and_takes_less_time() -> None:
    lapsing = SimulatedAnnotator("simulated-1", lapse_rate=1)
    looking = SimulatedAnnotator("simulated-2")
    lapses = [lapsing.answer(Random(seed), 0.95, 0.2) for seed in range(600)]
    looks = [looking.answer(Random(seed), 0.95, 0.2) for seed in range(600)]
    assert lapsing.share_of_set_1(0.95, 0.2) == 0.5
    assert mean(answer.values["preferred"] == 1 for answer in lapses) == pytest.approx(
        0.5, abs=0.06
    )
    assert _median_seconds(lapses) < 0.5 * _median_seconds(looks)
    assert _median_seconds(looks) == pytest.approx(20, rel=0.15)


def _median_seconds(answers: list[Answer]) -> float:
    return median(answer.times.active_seconds or 0 for answer in answers)


def test_the_standard_population_matches_the_published_answers(answers: list[Answer]) -> None:
    """Published: scores 6/17/25/31/21 %, 25 % tied, 1.05 % contradictions, set 1 in 53.8 %."""
    scores = Counter(
        score
        for answer in answers
        for score in (answer.values["score_1"], answer.values["score_2"])
    )
    published = {1: 0.06, 2: 0.17, 3: 0.25, 4: 0.31, 5: 0.21}
    for score, share in published.items():
        assert scores[score] / len(answers) / 2 == pytest.approx(share, abs=0.06)
    assert mean(a.values["score_1"] == a.values["score_2"] for a in answers) == pytest.approx(
        0.25, abs=0.03
    )
    assert mean(a.values["preferred"] == 1 for a in answers) == pytest.approx(0.538, abs=0.025)
    assert 0.004 < mean(_contradicts(answer) for answer in answers) < 0.022
    assert 0.02 < mean(answer.irrelevant for answer in answers) < 0.08


def _contradicts(answer: Answer) -> bool:
    lead = answer.values["score_1"] - answer.values["score_2"]
    return lead < 0 if answer.values["preferred"] == 1 else lead > 0


def test_a_population_is_drawn_by_its_seed_around_its_truth() -> None:
    drawn = draw_annotators(Random(6), 400, Population(side_bias=0.5, lapse_rate=0.05))
    assert drawn == draw_annotators(Random(6), 400, Population(side_bias=0.5, lapse_rate=0.05))
    assert [annotator.name for annotator in drawn[:2]] == ["simulated-001", "simulated-002"]
    assert len({annotator.name for annotator in drawn}) == 400
    assert mean(annotator.side_bias for annotator in drawn) == pytest.approx(0.5, abs=0.05)
    assert median(annotator.noise for annotator in drawn) == pytest.approx(1, abs=0.08)
    assert mean(annotator.offset for annotator in drawn) == pytest.approx(0, abs=0.1)
    assert mean(annotator.lapse_rate for annotator in drawn) == pytest.approx(0.05, abs=0.01)
    assert all(0 <= annotator.lapse_rate <= 0.5 for annotator in drawn)
    steady = draw_annotators(Random(6), 200)
    drifting = draw_annotators(Random(6), 200, Population(drift=0.5, drift_spread=0.2))
    assert {annotator.drift for annotator in steady} == {0.0}
    assert abs(mean(annotator.drift for annotator in drifting) - 0.5) < 0.05
    assert [replace(annotator, drift=0.0) for annotator in drifting] == list(steady)
    (instant,) = draw_annotators(Random(6), 1, Population(median_seconds=0))
    assert instant.answer(Random(0), 0.6, 0.65).times.active_seconds == 0


def test_drift_raises_scores_but_not_preferences() -> None:
    drifting = SimulatedAnnotator("simulated-1", drift=1.5)
    steady = SimulatedAnnotator("simulated-1")
    for seed in range(60):
        first, last = (
            drifting.answer(Random(seed), 0.6, 0.65, progress=progress) for progress in (0.0, 1.0)
        )
        assert first == steady.answer(Random(seed), 0.6, 0.65, progress=1.0)
        assert last.values["preferred"] == first.values["preferred"]
        assert last.values["score_1"] >= first.values["score_1"]
        assert last.values["score_2"] >= first.values["score_2"]
    lenient = SimulatedAnnotator("simulated-1", offset=1.5)
    assert lenient.answer(Random(0), 0.6, 0.65) == drifting.answer(Random(0), 0.6, 0.65, progress=1)
