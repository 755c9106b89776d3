"""The ordinal mixed model: against sums and integrals written out, and a known truth."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest

from hsfiq.analysis.answer_model import (
    LaplaceLikelihood,
    NoMaximum,
    OrdinalData,
    fit_ordinal,
    second_derivatives,
)

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
