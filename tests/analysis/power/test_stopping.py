"""Plans to decide between two systems, against simulated tests and literal twins."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from hsfiq.analysis.data.release import Release
from hsfiq.analysis.power import (
    LONGEST,
    draw_rates,
    estimate_spread,
    fixed_plan,
    stopping_plans,
    until_decided,
)
from hsfiq.analysis.sequential import looks_until_excluded
from hsfiq.errors import UnreadableInput
from tests.analysis.studies import Question, make_release


@pytest.mark.parametrize(("systems", "questions"), [(2, 25), (4, 12)])
def test_the_fixed_plan_has_its_power(systems: int, questions: int) -> None:
    """1,000 simulated studies of the planned size, each tested once."""
    n_pairs = systems * (systems - 1) // 2
    level = 1 - 0.05 / n_pairs
    people = fixed_plan(0.57, questions, n_pairs, 0.1, level)
    rng, detected = np.random.default_rng(5), 0
    for _ in range(1000):
        asked = rng.binomial(questions, 1 / n_pairs, people)
        won = rng.binomial(asked, draw_rates(0.57, 0.1, people, rng))
        shares = won[asked > 0] / asked[asked > 0]
        detected += stats.ttest_1samp(shares, 0.5).pvalue < 1 - level
    assert 0.76 < detected / 1000 < 0.84


def test_rates_have_their_mean_and_spread() -> None:
    rates = draw_rates(0.6, 0.1, 100_000, np.random.default_rng(0))
    assert (rates.mean(), rates.std()) == (
        pytest.approx(0.6, abs=2e-3),
        pytest.approx(0.1, abs=2e-3),
    )
    assert (draw_rates(0.6, 0.0, 3, np.random.default_rng(0)) == 0.6).all()


def test_watched_studies_count_participants_without_a_question_too() -> None:
    """With four systems, one in six of a participant's two questions is about the pair."""
    rng = np.random.default_rng(9)
    asked = rng.binomial(2, 1 / 6, LONGEST)
    won = rng.binomial(asked, draw_rates(0.8, 0.1, LONGEST, rng))
    looks, decided = 0, None
    for person in range(LONGEST):
        if asked[person]:
            looks += 1
            shares = [won[i] / asked[i] for i in range(person + 1) if asked[i]]
            if looks_until_excluded(np.array(shares), 0.5, 0.99) is not None:
                decided = person + 1
                break
    assert decided == until_decided(0.8, 2, 6, 0.1, 0.99, np.random.default_rng(9))
    assert decided is not None
    assert decided > looks


def test_plans_of_several_rates() -> None:
    plans = stopping_plans([0.6, 0.8], [10], spread=0.05, source="test")
    weak, strong = plans.plans
    assert weak.fixed > strong.fixed
    assert weak.expected > strong.expected
    assert strong.median is not None
    assert strong.nine_in_ten is not None
    assert strong.median <= strong.nine_in_ten
    assert plans == stopping_plans([0.6, 0.8], [10], spread=0.05, source="test")
    (shared,) = stopping_plans([0.8], [10], systems=3, spread=0.05).plans
    assert shared.fixed > strong.fixed
    assert shared.expected > strong.expected


def test_what_is_not_decided_is_not_guessed() -> None:
    (plan,) = stopping_plans([0.501], [2]).plans
    assert (plan.median, plan.nine_in_ten) == (None, None)
    assert plan.expected > 0.9 * LONGEST


@pytest.mark.parametrize(
    ("rate", "systems", "spread"), [(0.5, 2, 0.1), (1.0, 2, 0.1), (0.6, 1, 0.1), (0.9, 2, 0.4)]
)
def test_impossible_plans_are_refused(rate: float, systems: int, spread: float) -> None:
    with pytest.raises(UnreadableInput):
        stopping_plans([rate], systems=systems, spread=spread)


def compared_study(n_people: int, n_questions: int, spread: float) -> Release:
    """Participants who compare `a` with `b`, either first, with own rates around 0.6."""
    rng = np.random.default_rng(4)
    study, systems = [], []
    for person, rate in enumerate(draw_rates(0.6, spread, n_people, rng)):
        for _ in range(n_questions):
            is_first, wins = rng.random() < 0.5, rng.random() < rate
            study.append(Question(1 if is_first == wins else 2, participant=f"p{person}"))
            systems.append(("a", "b") if is_first else ("b", "a"))
    release = make_release(study)
    for side in (0, 1):
        names = [pair[side] for pair in systems]
        release.preferences[f"system_{side + 1}"] = names
        release.sets.loc[release.sets["side"] == side + 1, "system"] = names
    return release


def test_the_spread_equals_its_twin_and_recovers_the_truth() -> None:
    release = compared_study(150, 20, 0.15)
    products = []
    rows = release.preferences
    won = np.where(rows["system_1"] == "a", rows["preferred"] == 1, rows["preferred"] == 2)
    deviations = won - won.mean()
    people = rows["participant_id"].to_numpy()
    for person in set(people):
        own = deviations[people == person]
        products += [own[i] * own[j] for i in range(20) for j in range(20) if i != j]
    spread = estimate_spread(release)
    assert spread == pytest.approx(float(np.sqrt(np.mean(products))))
    assert 0.12 < spread < 0.18
    assert estimate_spread(compared_study(150, 20, 0.0)) < 0.06


def test_a_spread_that_cannot_be_seen_is_refused() -> None:
    with pytest.raises(UnreadableInput, match="compared two named systems twice"):
        estimate_spread(make_release([Question(1), Question(2)]))
