"""The ordinal mixed model of scores: against sums and integrals written out, and in the report."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings

from benchmarks import answer_model as benchmark
from hsfiq import analysis
from hsfiq.analysis.analyze import analyze
from hsfiq.analysis.data.release import Release
from hsfiq.analysis.reports.report import analysis_text
from hsfiq.analysis.score_effects import (
    AnswerModel,
    LaplaceLikelihood,
    NoMaximum,
    OrdinalData,
    answer_model,
    fit_ordinal,
    fit_scores,
    second_derivatives,
)
from hsfiq.cli import run
from tests.analysis.drawn_releases import BEST_FIRST
from tests.analysis.reports.helpers import check_page, quick_bootstrap
from tests.analysis.studies import Question, few, make_release, studies, write_release
from tests.analysis.test_details import nulls_without_reason

FIXED, SD, THRESHOLDS = np.array([0.4, -0.3]), (0.8, 0.5), np.array([-1.0, 0.3, 1.4])


def parameters(sd: tuple[float, float] = SD) -> np.ndarray:
    return np.concatenate([FIXED, sd, THRESHOLDS[:1], np.log(np.diff(THRESHOLDS))])


def draw(seed: int, n: int, people: int, triplets: int, sd: tuple[float, float]) -> OrdinalData:
    rng = np.random.default_rng(seed)
    person, triplet = rng.integers(0, people, n), rng.integers(0, triplets, n)
    person[:people], triplet[-triplets:] = np.arange(people), np.arange(triplets)
    fixed = rng.normal(size=(n, 2))
    x = fixed @ FIXED + sd[0] * rng.normal(size=people)[person]
    x += sd[1] * rng.normal(size=triplets)[triplet]
    level = np.searchsorted(THRESHOLDS, x + rng.logistic(size=n))
    level[:4] = range(4)
    return OrdinalData(level, fixed, person, triplet)


def probability(data: OrdinalData, row: int, x: float) -> float:
    """P(level) of one score, from P(y <= k) = 1 / (1 + exp(x - c_k))."""

    def at_most(level: int) -> float:
        if level < 0:
            return 0.0
        return 1.0 if level >= 3 else 1 / (1 + math.exp(x - THRESHOLDS[level]))

    return at_most(int(data.level[row])) - at_most(int(data.level[row]) - 1)


def given_effects(
    data: OrdinalData, sd: tuple[float, float], a: np.ndarray, b: np.ndarray
) -> float:
    """log p(scores | effects), row by row."""
    total = 0.0
    for row in range(len(data.level)):
        x = float(data.fixed[row] @ FIXED)
        x += sd[0] * a[data.person[row]] + sd[1] * b[data.triplet[row]]
        total += math.log(probability(data, row, x))
    return total


def integrated(data: OrdinalData, sd: tuple[float, float], nodes: int = 24) -> float:
    """The exact log-likelihood by Gauss-Hermite quadrature over two persons and two triplets."""
    points, weights = np.polynomial.hermite_e.hermegauss(nodes)
    weights = weights / weights.sum()
    given = np.zeros((nodes,) * 4)  # the persons' effects, then the triplets'
    for row in range(len(data.level)):
        base = float(data.fixed[row] @ FIXED)
        own = [
            [math.log(probability(data, row, base + sd[0] * a + sd[1] * b)) for b in points]
            for a in points
        ]
        shape = [1, 1, 1, 1]
        shape[data.person[row]] = shape[2 + data.triplet[row]] = nodes
        given = given + np.array(own).reshape(shape)
    total = 0.0
    for places in product(range(nodes), repeat=4):
        total += math.prod(weights[place] for place in places) * math.exp(given[places])
    return math.log(total)


def test_without_random_effects_it_is_the_plain_sum() -> None:
    data = draw(0, 60, 5, 9, (0, 0))
    expected = given_effects(data, (0, 0), np.zeros(5), np.zeros(9))
    assert LaplaceLikelihood(data)(parameters((0.0, 0.0))) == pytest.approx(expected)


def test_laplace_is_close_to_the_integral_and_closer_with_more_scores() -> None:
    errors = []
    for n in (20, 80):
        data = draw(1, n, 2, 2, SD)
        errors.append(LaplaceLikelihood(data)(parameters()) - integrated(data, SD, nodes=20))
    assert abs(errors[1]) < abs(errors[0]) < 0.05


def test_laplace_is_its_formula_with_dense_matrices() -> None:
    """The maximum by plain steps, the determinant of the whole matrix, and the next term."""
    data = draw(2, 50, 4, 11, SD)
    effects = np.zeros(15)

    def joint(values: np.ndarray) -> float:
        given = given_effects(data, SD, values[:4], values[4:])
        return given - float(values @ values) / 2

    step = 1e-4 * np.eye(15)
    for _ in range(8):
        centre = joint(effects)
        slope = np.array([joint(effects + s) - joint(effects - s) for s in step]) / 2e-4
        curvature = np.array(
            [
                [
                    joint(effects + s + t) - joint(effects + s) - joint(effects + t) + centre
                    for t in step
                ]
                for s in step
            ]
        )
        effects -= np.linalg.solve(curvature / 1e-8, slope)
    expected = joint(effects) - np.linalg.slogdet(-curvature / 1e-8)[1] / 2
    for place in range(4, 15):  # the effect with more values has the next term of the expansion
        moved = 0.02 * np.eye(15)[place]
        ahead_2, ahead, behind, behind_2 = (joint(effects + n * moved) for n in (2, 1, -1, -2))
        centre = joint(effects)
        curved = -(ahead - 2 * centre + behind) / 0.02**2
        third = (ahead_2 - 2 * ahead + 2 * behind - behind_2) / (2 * 0.02**3)
        fourth = (ahead_2 - 4 * ahead + 6 * centre - 4 * behind + behind_2) / 0.02**4
        expected += fourth / (8 * curved**2) + 5 * third**2 / (24 * curved**3)
    assert LaplaceLikelihood(data)(parameters()) == pytest.approx(expected, abs=1e-3)


def test_it_does_not_matter_which_effect_is_called_the_persons() -> None:
    data = draw(3, 80, 12, 5, SD)
    turned = OrdinalData(data.level, data.fixed, data.triplet, data.person)
    expected = LaplaceLikelihood(turned)(parameters((SD[1], SD[0])))
    assert LaplaceLikelihood(data)(parameters()) == pytest.approx(expected)


def test_the_next_term_matters_for_triplets_with_two_scores(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without differences between persons, each triplet is an integral of its own."""
    drawn = draw(6, 120, 3, 60, (0.0, 0.8))
    data = OrdinalData(drawn.level, drawn.fixed, drawn.person, np.arange(120) // 2)
    points, weights = np.polynomial.hermite_e.hermegauss(40)
    weights = weights / weights.sum()
    exact = 0.0
    for triplet in range(60):
        total = 0.0
        for point, weight in zip(points, weights, strict=True):
            x = [
                float(data.fixed[row] @ FIXED) + 0.8 * point
                for row in (2 * triplet, 2 * triplet + 1)
            ]
            rows = enumerate(x, 2 * triplet)
            total += weight * math.prod(probability(data, row, at) for row, at in rows)
        exact += math.log(total)
    with_term = LaplaceLikelihood(data)(parameters((0.0, 0.8)))
    monkeypatch.setattr(LaplaceLikelihood, "_correction", lambda *_: 0.0)
    without = LaplaceLikelihood(data)(parameters((0.0, 0.8)))
    assert abs(with_term - exact) < 0.3 * abs(without - exact)


def test_second_derivatives_of_a_quadratic_function() -> None:
    matrix = np.array([[2.0, 0.5, -0.3], [0.5, 1.0, 0.2], [-0.3, 0.2, 3.0]])

    class Quadratic:
        def __call__(self, at: np.ndarray) -> float:
            return float(at @ matrix @ at) / 2

    result = second_derivatives(Quadratic(), np.array([0.3, -1.0, 2.0]))  # type: ignore[arg-type]
    np.testing.assert_allclose(result, matrix, atol=1e-8)


def test_the_truth_is_recovered() -> None:
    data = draw(4, 4000, 40, 300, SD)
    fit = fit_ordinal(data)
    errors = np.sqrt(np.diag(fit.covariance))
    assert np.abs(fit.fixed - FIXED).max() < 3 * errors[:2].max()
    assert fit.sd == pytest.approx(SD, abs=0.25)
    assert fit.log_likelihood >= LaplaceLikelihood(data)(parameters())
    assert (np.diff(fit.thresholds) > 0).all()


def test_an_effect_without_end_has_no_maximum() -> None:
    data = draw(5, 80, 4, 10, (0, 0))
    separated = (data.level > 1).astype(float)[:, None] * 2 - 1
    with pytest.raises(NoMaximum):
        fit_ordinal(OrdinalData((data.level > 1) * 1, separated, data.person, data.triplet))


@pytest.fixture(scope="module")
def with_places(drawn: tuple[Release, pd.Series]) -> Release:
    release, _ = drawn
    places = release.preferences["question_id"].str.rsplit(".", n=1).str[-1].astype(int)
    return replace(release, preferences=release.preferences.assign(place=places))


@pytest.fixture(scope="module")
def model(with_places: Release) -> AnswerModel:
    return answer_model(with_places)


def test_the_systems_are_in_their_order_and_centred(model: AnswerModel) -> None:
    by_strength = sorted(model.systems, key=lambda name: -model.systems[name].value)
    assert by_strength == BEST_FIRST
    assert sum(each.value for each in model.systems.values()) == pytest.approx(0, abs=1e-12)
    for effect in (*model.systems.values(), model.side, model.place):
        assert effect.wald[0] < effect.value < effect.wald[1]
        excludes_0 = not effect.wald[0] <= 0 <= effect.wald[1]
        assert (effect.p < 0.05) == excludes_0
    assert sum(model.shares.values()) == pytest.approx(1)
    assert list(model.thresholds.values()) == sorted(model.thresholds.values())


def test_the_order_of_the_systems_names_does_not_matter(
    with_places: Release, model: AnswerModel
) -> None:
    turned = {name: name[::-1] for name in BEST_FIRST}
    columns = {side: with_places.preferences[side].map(turned) for side in ("system_1", "system_2")}
    other = answer_model(
        replace(with_places, preferences=with_places.preferences.assign(**columns))
    )
    for name, effect in model.systems.items():
        again = other.systems[turned[name]]
        assert (again.value, *again.wald) == pytest.approx((effect.value, *effect.wald), abs=2e-3)


def test_without_places_and_systems_the_rest_is_fitted(with_places: Release) -> None:
    bare = with_places.preferences.drop(columns=["place", "system_1", "system_2"])
    result = answer_model(replace(with_places, preferences=bare))
    assert result.systems == {}
    assert result.place.reason == "the release has no places, or they do not vary"
    assert math.isnan(result.place.value)
    assert not math.isnan(result.side.value)
    assert nulls_without_reason(result.to_json()) == []


@pytest.mark.parametrize(
    ("study", "reason"),
    [
        ([], "the model needs 2 participants; there is none"),
        ([Question(1)] * 3, "the model needs 2 participants; there is 1"),
        ([Question(1, participant=name) for name in "ab"], "all scores are equal"),
    ],
)
def test_reasons(study: list[Question], reason: str) -> None:
    result = answer_model(make_release(study))
    assert result.reason == reason
    assert nulls_without_reason(result.to_json()) == []


def test_a_system_that_is_always_on_one_side_is_not_told_apart(with_places: Release) -> None:
    preferences = with_places.preferences.assign(system_1="one", system_2="two")
    result = answer_model(replace(with_places, preferences=preferences))
    assert str(result.reason).startswith("the effects cannot be separated")


@settings(few, max_examples=10)
@given(studies)
def test_any_study_can_be_modelled_and_printed(study: list[Question]) -> None:
    release = make_release(study)
    result = analyze(release, [], quick_bootstrap(release), with_answer_model=True)
    json.dumps(result.to_json(), allow_nan=False)
    text = analysis_text(result, tables=True)
    assert "Effects on the scores" in text
    assert "nan" not in text
    assert max(map(len, text.splitlines())) <= 100


def test_the_command_adds_the_model_on_request(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(0)
    study = [
        Question(
            1, (int(rng.integers(1, 6)), int(rng.integers(1, 6))), participant=f"p{number % 3}"
        )
        for number in range(30)
    ]
    folder = write_release(make_release(study), tmp_path / "hp")
    command = ["analyze", str(folder), "--metric", "recall@5", "--resamples", "20"]
    assert run(command) == 0
    assert "Effects on the scores" not in capsys.readouterr().out
    assert run([*command, "--answer-model"]) == 0
    text = capsys.readouterr().out
    assert "60 scores of 3 participants about 30 triplets" in " ".join(text.split())
    assert "set 1 compared with set 2" in text
    report = analysis.report(folder, ["recall@5"], answer_model=True)
    check_page(report.to_html())
    tables = {table.name for table in report.document.tables()}
    assert {"answer_model", "answer_model_variance"} <= tables


def test_the_benchmarks_studies_have_the_parameters_they_name() -> None:
    design = benchmark.Design(40, 2)
    rows = benchmark.simulate(np.random.default_rng(3), design)
    assert len(rows) == 2 * 40 * benchmark.QUESTIONS
    assert rows.groupby("triplet")["participant"].nunique().eq(2).all()
    estimates = benchmark.estimates(fit_scores(rows))
    assert estimates["system best"][0] == pytest.approx(benchmark.SYSTEMS["best"], abs=0.15)
    assert estimates["side"][0] == pytest.approx(benchmark.SIDE, abs=0.25)
    assert estimates["sd participants"][0] == pytest.approx(benchmark.SD_PARTICIPANTS, abs=0.4)
