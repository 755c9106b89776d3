from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from hsfiq.analysis.data.metrics import Recall
from hsfiq.analysis.data.release import Release
from hsfiq.analysis.power import (
    ASSUMED_BETWEEN,
    ASSUMED_SHARED,
    DETECTABLE,
    PUBLISHED,
    SIZE,
    SimulatedStudy,
    Slopes,
    calibrate,
    draw_study,
    estimate_population,
    power,
)
from hsfiq.analysis.resampling.bootstrap import Bootstrap
from hsfiq.analysis.statistics.correlation import spearman
from hsfiq.analysis.statistics.preference import preference_rates
from hsfiq.errors import UnreadableInput
from tests.analysis.studies import Question, bootstrap_of, make_release, values_of
from tests.analysis.test_published import ANSWERS, read_published

SMALL = {"participants": (10, 20), "questions": (10,), "n_studies": 60}
LIKELY = replace(PUBLISHED, rho=0.35, tie_half=0.62, query=0.15, slope_spread=0.15)
"""A population with equal slopes between and within queries."""


def as_release(study: SimulatedStudy, overlap: int = 1) -> tuple[Release, list[pd.Series]]:
    people, questions = study.first.shape
    answers = [(person, place) for person in range(people) for place in range(questions)]
    release = make_release(
        [
            Question(
                1 if study.first[person, place] else 2,
                (int(study.scores[person, place, 0]) + 1, int(study.scores[person, place, 1]) + 1),
                (f"{person // overlap}.{place}.1", f"{person // overlap}.{place}.2"),
                participant=f"p{person:04}",
            )
            for person, place in answers
        ]
    )
    queries = [f"{person // overlap}.{place}" for person, place in answers]
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


def test_widths_equal_those_of_clustered_intervals() -> None:
    """The simulated width is the mean width of the intervals of such studies."""
    expected = power(LIKELY, participants=(30,), questions=(15,), n_studies=150).sizes[0]
    slopes = calibrate(LIKELY, 0)
    widths = []
    for seed in range(12):
        rng = np.random.default_rng((seed, 9))
        release, metrics = as_release(draw_study(LIKELY, slopes, (30, 15), 1, rng))
        bootstrap = bootstrap_of(release, 300)
        rho = spearman(release.sets, metrics[0], bootstrap).ci
        rate = preference_rates(release.preferences, metrics[0], bootstrap).tie_half.ci
        assert rho is not None
        assert rate is not None
        widths.append((rho.high - rho.low, rate.high - rate.low))
    for name, width in zip(("rho", "tie_half"), np.mean(widths, axis=0), strict=True):
        assert expected.precision[name].width == pytest.approx(width, rel=0.2)


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


def test_the_detectable_difference_has_a_power_of_80_percent() -> None:
    # 1.96 + 0.84 standard errors apart, four in five estimates lie beyond 1.96.
    assert pytest.approx(1.959964 + 0.841621, abs=1e-5) == DETECTABLE


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
    assert ci is not None
    assert size.precision["rho"].width == pytest.approx(ci.high - ci.low, rel=0.25)
