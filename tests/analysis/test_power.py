"""Power, and plans to decide between two systems, against simulated tests and literal twins."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from hsfiq.analysis.data.metrics import Recall
from hsfiq.analysis.data.release import Release
from hsfiq.analysis.power import (
    ASSUMED_BETWEEN,
    ASSUMED_SHARED,
    LONGEST,
    PUBLISHED,
    SIZE,
    Planned,
    SimulatedStudy,
    Slopes,
    calibrate,
    draw_rates,
    draw_study,
    estimate_population,
    estimate_spread,
    fixed_plan,
    power,
    precision_of_metrics,
    precision_of_systems,
    stopping_plans,
    until_decided,
)
from hsfiq.analysis.resampling.bootstrap import Bootstrap
from hsfiq.analysis.sensitivity import SENSITIVE_STATISTICS, Statistic
from hsfiq.analysis.sequential import looks_until_excluded
from hsfiq.analysis.statistics.correlation import spearman
from hsfiq.analysis.statistics.preference import preference_rates
from hsfiq.errors import UnreadableInput
from tests.analysis.studies import Question, make_release, values_of
from tests.analysis.test_published import ANSWERS, read_published

SMALL = {"participants": (10, 20), "questions": (10,), "n_studies": 60}
LIKELY = replace(PUBLISHED, rho=0.35, tie_half=0.62, query=0.15, slope_spread=0.15)
"""A population with equal slopes between and within queries."""


def as_release(study: SimulatedStudy, overlap: int = 1) -> tuple[Release, list[pd.Series]]:
    people, questions = study.first.shape
    answers = [(person, place) for person in range(people) for place in range(questions)]
    queries = [f"{person // overlap}.{place}" for person, place in answers]
    questions_asked = [
        Question(
            1 if study.first[at] else 2,
            tuple(int(score) + 1 for score in study.scores[at]),
            (f"{query}.1", f"{query}.2"),
            participant=f"p{at[0]:04}",
        )
        for at, query in zip(answers, queries, strict=True)
    ]
    release = make_release(questions_asked)
    release.preferences["query_id"] = queries
    release.sets["query_id"] = np.repeat(queries, 2)
    index = release.sets["set_id"].to_numpy()
    return release, [pd.Series(metric.ravel(), index=index) for metric in study.metrics]


@pytest.mark.parametrize(
    "population",
    [
        PUBLISHED,
        LIKELY,
        replace(LIKELY, values=(0.62, 0.38), tie_half=0.58, rho=0.2),
        replace(LIKELY, rho=-0.1, tie_half=0.45),
    ],
    ids=["published", "likely", "recall", "worse than nothing"],
)
def test_simulated_studies_match_the_population(population: object) -> None:
    assert isinstance(population, type(PUBLISHED))
    study = draw_study(population, calibrate(population, 0), SIZE, 1, np.random.default_rng(7))
    assert study.rhos() == pytest.approx([population.rho] * 2, abs=0.02)
    assert study.tie_halves() == pytest.approx([population.tie_half] * 2, abs=0.01)
    assert study.same_query() == pytest.approx(population.metric_query, abs=0.02)
    shares = np.bincount(study.scores.astype(int).ravel()) / study.scores.size
    assert shares == pytest.approx(population.scores, abs=0.015)
    between = np.corrcoef(*(metric.ravel() for metric in study.metrics))[0, 1]
    if not population.values:
        assert between == pytest.approx(population.between_metrics, abs=0.02)


def test_simulated_statistics_equal_those_of_the_analysis() -> None:
    study = draw_study(LIKELY, Slopes(0.3, 0.2, 0.4), (6, 8), 2, np.random.default_rng(3))
    release, metrics = as_release(study)
    for place, values in enumerate(metrics):
        assert study.rhos()[place] == pytest.approx(spearman(release.sets, values).rho)
        rates = preference_rates(release.preferences, values)
        assert study.tie_halves()[place] == pytest.approx(rates.tie_half.rate)
    # Participants 0 and 1 answer the same questions, 2 others.
    assert (study.metrics[0, 0] == study.metrics[0, 1]).all()
    assert (study.metrics[0, 0] != study.metrics[0, 2]).all()


def test_a_population_is_recovered() -> None:
    drawn = draw_study(LIKELY, calibrate(LIKELY, 0), (300, 30), 3, np.random.default_rng(1))
    release, metrics = as_release(drawn, overlap=3)
    result = estimate_population(release, *metrics)
    assert result.rho == pytest.approx(LIKELY.rho, abs=0.03)
    assert result.tie_half == pytest.approx(LIKELY.tie_half, abs=0.02)
    # Scores in five steps keep nine tenths of what the impressions share.
    assert result.participant == pytest.approx(LIKELY.participant, rel=0.25)
    assert result.query == pytest.approx(LIKELY.query, rel=0.3)
    assert result.shared == pytest.approx(LIKELY.shared, rel=0.35)
    assert result.slope_spread == pytest.approx(LIKELY.slope_spread, rel=0.3)
    assert result.metric_query == pytest.approx(LIKELY.metric_query, abs=0.03)
    assert result.between_metrics == pytest.approx(LIKELY.between_metrics, abs=0.05)
    assert result.values == ()


@pytest.mark.parametrize(
    ("size", "overlap"), [((30, 15), 1), ((6, 15), 1), ((10, 10), 10), ((12, 15), 3)]
)
def test_widths_equal_those_of_clustered_intervals(size: tuple[int, int], overlap: int) -> None:
    """The simulated width is the mean width of the intervals of such studies."""
    people, questions = ((each,) for each in size)
    settings = {"participants": people, "questions": questions, "overlap": overlap}
    expected = power(LIKELY, **settings, n_studies=400).sizes[0]
    slopes = calibrate(LIKELY, 0)
    widths = []
    for seed in range(30):
        rng = np.random.default_rng((seed, 9))
        release, metrics = as_release(draw_study(LIKELY, slopes, size, overlap, rng), overlap)
        bootstrap = Bootstrap.of_release(release, n_resamples=300)
        rho = spearman(release.sets, metrics[0], bootstrap).ci
        rate = preference_rates(release.preferences, metrics[0], bootstrap).tie_half.ci
        widths.append((rho.high - rho.low, rate.high - rate.low))
    for name, width in zip(("rho", "tie_half"), np.mean(widths, axis=0), strict=True):
        assert expected.precision[name].width == pytest.approx(width, rel=0.1)


def test_more_answers_give_more_precision() -> None:
    result = power(LIKELY, participants=(10, 40), questions=(10, 30), n_studies=60)
    size = {(size.participants, size.questions): size.precision for size in result.sizes}
    for name in ("rho", "tie_half"):
        assert size[10, 10][name].width > size[40, 10][name].width > size[40, 30][name].width
        assert size[10, 10][name].difference > size[40, 30][name].difference
        few, many = result.needed
        assert few.for_width[name] > many.for_width[name]


def test_the_participants_needed_reach_the_target_width() -> None:
    target_width = 0.12
    needed = power(LIKELY, **SMALL, width=target_width).needed[0].for_width["rho"]
    result = power(LIKELY, participants=(needed,), questions=(10,), n_studies=60, seed=1)
    assert result.sizes[0].precision["rho"].width == pytest.approx(target_width, rel=0.25)


def test_the_same_seed_gives_the_same() -> None:
    assert power(PUBLISHED, **SMALL).to_json() == power(PUBLISHED, **SMALL).to_json()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"participants": (1,)}, "participants"),
        ({"questions": ()}, "questions"),
        ({"overlap": 0}, "overlap"),
        ({"width": 0.0}, "width"),
        ({"difference": 2.0}, "difference"),
    ],
)
def test_impossible_studies_are_errors(settings: dict[str, object], message: str) -> None:
    with pytest.raises(UnreadableInput, match=message):
        power(PUBLISHED, **{**SMALL, **settings})


def test_impossible_populations_are_errors() -> None:
    with pytest.raises(UnreadableInput, match="impossible shares"):
        replace(PUBLISHED, participant=0.9, query=0.2)
    with pytest.raises(UnreadableInput, match="impossible correlations"):
        replace(PUBLISHED, rho=1.0)
    with pytest.raises(UnreadableInput, match="cannot be reached"):
        calibrate(replace(PUBLISHED, participant=0.5, rho=0.9), 0)


@pytest.mark.parametrize(
    "study",
    [[], [Question(1, (3, 5), values=(1, 2))] * 4, [Question(1, participant="p2")] * 3],
    ids=["empty", "one participant", "constant"],
)
def test_releases_without_variances_are_errors(study: list[Question]) -> None:
    release = make_release(study)
    with pytest.raises(UnreadableInput, match="does not determine the variances"):
        estimate_population(release, values_of(study))


@pytest.mark.shared
@pytest.mark.skipif(
    not ANSWERS.is_file(), reason=f"no {ANSWERS}; set HSFIQ_SHARED to the folder that has data/"
)
def test_the_defaults_are_the_published_answers() -> None:
    release = make_release(read_published(ANSWERS))
    result = estimate_population(release, Recall(5).values(release))
    for name in ("participant", "query", "slope_spread", "metric_query"):
        assert round(getattr(result, name), 4) == getattr(PUBLISHED, name)
    assert result.scores == PUBLISHED.scores
    assert (result.shared, result.between_metrics) == (ASSUMED_SHARED, ASSUMED_BETWEEN)
    size = power(result, participants=(40,), questions=(50,), n_studies=60).sizes[0]
    ci = spearman(release.sets, Recall(5).values(release), Bootstrap.of_release(release)).ci
    assert size.precision["rho"].width == pytest.approx(ci.high - ci.low, rel=0.25)


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


def planned_systems(participants: int, difference: float = 0.1, **values: Any) -> Planned:
    """20 questions each about 60 queries, of two systems."""
    options = {"systems": 2, "queries": 60, "alpha": 0.05} | values
    return precision_of_systems(participants, 20, 5.0, difference=difference, **options)


def test_the_needed_participants_have_their_power() -> None:
    """1,000 studies whose participants, and whose queries, have rates of their own."""
    people = planned_systems(2, 0.08).needed
    assert people is not None
    significant = planned_systems(people, 0.08).half_width
    rng, detected = np.random.default_rng(6), 0
    asked = np.arange(people * 20).reshape(people, 20) % 60
    for _ in range(1000):
        rates = 0.58 + rng.normal(0, 0.1, (people, 1)) + rng.normal(0, 0.2, 60)[asked]
        detected += (rng.random(asked.shape) < rates).mean() - 0.5 > significant
    assert 0.76 < detected / 1000 < 0.86


def test_what_the_precision_of_systems_depends_on() -> None:
    few, many = planned_systems(10), planned_systems(20)
    assert few.half_width > many.half_width
    assert few.needed == many.needed
    exact = planned_systems(100, planned_systems(30, alpha=0.01).half_width, alpha=0.01)
    assert exact.needed is not None
    assert exact.needed > 30  # with half the power, 30 detect it
    assert planned_systems(10, systems=3).half_width > few.half_width
    assert np.isnan(planned_systems(1).half_width)
    # Everybody judges the same 60 queries, so their differences do not average out.
    assert planned_systems(10, 0.03).needed is None
    assert planned_systems(10, 0.03, queries=10_000).needed is not None


@pytest.mark.parametrize("statistic", SENSITIVE_STATISTICS)
def test_the_precision_of_metrics_is_that_of_the_simulation(statistic: Statistic) -> None:
    result = power(PUBLISHED, participants=(20,), questions=(10,), n_studies=60, difference=0.1)
    planned = precision_of_metrics(result.sizes[0], statistic, difference=0.1, alpha=0.05)
    assert planned.needed == result.needed[0].for_difference[statistic]
    precision = result.sizes[0].precision[statistic]
    share = stats.t.ppf(0.975, precision.df) / stats.t.ppf([0.975, 0.8], precision.df).sum()
    assert planned.half_width == pytest.approx(precision.difference * share)
    strict = precision_of_metrics(result.sizes[0], statistic, difference=0.1, alpha=0.01)
    assert strict.half_width > planned.half_width


def test_rates_have_their_mean_and_spread() -> None:
    rates = draw_rates(0.6, 0.1, 100_000, np.random.default_rng(0))
    assert (rates.mean(), rates.std()) == pytest.approx((0.6, 0.1), abs=2e-3)
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


@pytest.fixture
def few_studies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hsfiq.analysis.power.STUDIES", 50)


@pytest.mark.usefixtures("few_studies")
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


@pytest.mark.usefixtures("few_studies")
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
