"""The answer model: its losses against the formulas, known parameters, and slow fits."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import accumulate
from random import Random

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize as scipy_minimize
from torch import Tensor

from hsfiq.drawn import Population, draw_annotators, generator
from hsfiq.drawn.annotators import SLOPE
from hsfiq.model.preference.answer_model import (
    BARRIER,
    LOGIT_SD,
    MIN_SLOPE,
    SLOPE_SD,
    AnswerTensors,
    ArrowheadHessian,
    Fit,
    dense_derivatives,
    fit_answers,
    minimise,
    preference_loss,
    score_derivatives,
    score_loss,
)
from hsfiq.model.runtime import Diverged

pytestmark = pytest.mark.usefixtures("one_thread")

logits = st.floats(-20, 20)
preferences = st.sampled_from((1, 2))
rising = st.tuples(st.floats(-5, 5), *(st.floats(0.05, 3) for _ in range(3))).map(
    lambda values: list(accumulate(values))
)


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def preference(margin: float, preferred: int, log_tie: float | None = None) -> float:
    tie = None if log_tie is None else torch.tensor(log_tie, dtype=torch.float64)
    margins = torch.tensor([margin], dtype=torch.float64)
    return preference_loss(margins, torch.tensor([preferred]), tie).item()


def score(latent: float, level: int, thresholds: list[float]) -> float:
    latents = torch.tensor([latent], dtype=torch.float64)
    edges = torch.tensor(thresholds, dtype=torch.float64)
    return score_loss(latents, torch.tensor([level]), edges).item()


@given(logits, preferences)
def test_a_preference_without_ties(margin: float, preferred: int) -> None:
    share = sigmoid(margin)
    literal = -math.log(share if preferred == 1 else 1 - share) if abs(margin) < 15 else None
    assert preference(margin, preferred) == pytest.approx(
        abs(margin) if literal is None and (margin > 0) != (preferred == 1) else literal or 0.0,
        rel=1e-6,
        abs=1e-6,
    )


@given(st.floats(-8, 8), st.sampled_from((0, 1, 2)), st.floats(-3, 3))
def test_a_preference_with_ties_follows_davidson(
    margin: float, preferred: int, log_tie: float
) -> None:
    # Davidson (1970): pi_1, pi_2 and nu sqrt(pi_1 pi_2), with pi_1 / pi_2 = exp(margin).
    first, second = math.exp(margin), 1.0
    tie = math.exp(log_tie) * math.sqrt(first * second)
    literal = {1: first, 2: second, 0: tie}[preferred] / (first + second + tie)
    assert math.exp(-preference(margin, preferred, log_tie)) == pytest.approx(literal)


@given(st.floats(-8, 8), st.integers(1, 5), rising)
def test_scores_are_between_thresholds(latent: float, level: int, thresholds: list[float]) -> None:
    edges = [-math.inf, *thresholds, math.inf]
    above, below = (
        0.0 if edge == -math.inf else 1.0 if edge == math.inf else sigmoid(edge - latent)
        for edge in (edges[level], edges[level - 1])
    )
    assert math.exp(-score(latent, level, thresholds)) == pytest.approx(
        above - below, rel=1e-6, abs=1e-9
    )


def test_thresholds_out_of_order_give_no_finite_loss() -> None:
    assert not math.isfinite(score(0.0, 2, [1.0, 0.0, 2.0, 3.0]))


def test_gradients_equal_finite_differences() -> None:
    latents = torch.tensor([-1.0, 0.3, 2.0, 40.0, -40.0], dtype=torch.float64, requires_grad=True)
    thresholds = torch.tensor([-1.0, 0.0, 1.5, 2.0], dtype=torch.float64, requires_grad=True)
    levels = torch.tensor([1, 3, 5, 1, 5])
    assert torch.autograd.gradcheck(
        lambda x, edges: score_loss(x, levels, edges), (latents, thresholds)
    )
    margins = torch.tensor([-1.0, 0.3, 2.0], dtype=torch.float64, requires_grad=True)
    tie = torch.tensor(0.2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(
        lambda m, nu: preference_loss(m, torch.tensor([0, 1, 2]), nu), (margins, tie)
    )


OFFSET_SD = 1.0
FAR = 4.0
"""In standard errors: no parameter checked here differs from the truth this much by chance."""


def answer_tensors(
    preferred: list[int], scores: list[tuple[int, int]], people: list[int]
) -> AnswerTensors:
    names = tuple(f"p{number:03d}" for number in range(max(people) + 1))
    ones = torch.ones(len(people), dtype=torch.float64)
    return AnswerTensors(
        torch.tensor(preferred), torch.tensor(scores), torch.tensor(people), ones, names
    )


def logistic(rng: Random) -> float:
    u = rng.random()
    return math.log(u / (1 - u))


def simulated(
    seed: int,
    n_people: int = 40,
    n_questions: int = 40,
    *,
    slope: float = 10.0,
    bias: float = 0.6,
    tie_width: float = 0.0,
) -> tuple[Tensor, AnswerTensors, dict[str, list[float]]]:
    """Answers drawn from the answer model, and its true parameters."""
    rng = Random(seed)
    offsets = [rng.gauss(0, OFFSET_SD) for _ in range(n_people)]
    thresholds = [1.0, 2.5, 4.0, 5.5]
    sets, preferred, scores, people = [], [], [], []
    for person in range(n_people):
        for _ in range(n_questions):
            worth = (rng.random(), rng.random())
            margin = slope * (worth[0] - worth[1]) + bias
            odds = [math.exp(margin / 2), math.exp(-margin / 2), tie_width]
            preferred.append(rng.choices((1, 2, 0), odds)[0])
            latents = [6.0 * value + offsets[person] + logistic(rng) for value in worth]
            first, second = (1 + sum(latent > edge for edge in thresholds) for latent in latents)
            scores.append((first, second))
            sets.append(worth)
            people.append(person)
    truth = {"preferences": [slope, bias], "scores": [6.0, *thresholds], "offsets": offsets}
    return torch.tensor(sets, dtype=torch.float64), answer_tensors(preferred, scores, people), truth


def test_the_share_of_ties_is_recovered() -> None:
    sets, answers, _ = simulated(seed=2, n_people=20, tie_width=0.8)
    model = fit_answers(sets, answers, OFFSET_SD)
    assert (answers.preferred == 0).any()
    log_tie, error = model.preferences.values[2], model.preferences.errors[2]
    assert abs(log_tie - math.log(0.8)) < FAR * error
    assert abs(model.side_bias - 0.6) < FAR * model.preferences.errors[1]
    assert model.to_json()["log_tie"]["value"] == log_tie
    result = fit_answers(*simulated(seed=2, n_people=5)[:2], OFFSET_SD).to_json()
    assert result["log_tie"] is None
    assert "tie" in result["log_tie_reason"]


def test_the_drawn_annotators_are_recovered() -> None:
    """Their preferences follow the answer model exactly; their scores nearly, by Gumbel noise."""
    population = Population(
        noise_spread=0.0, side_bias=0.6, side_bias_spread=0.0, offset_spread=0.8, lapse_rate=0.0
    )
    annotators = draw_annotators(generator(3, "annotators"), 40, population)
    rng = generator(3, "answers")
    sets, answers, people = [], [], []
    for number, annotator in enumerate(annotators):
        for _ in range(50):
            worth = (rng.uniform(0.3, 1), rng.uniform(0.3, 1))
            sets.append(worth)
            answers.append(annotator.answer(rng, *worth))
            people.append(number)
    answers = answer_tensors(
        [answer.values["preferred"] for answer in answers],
        [(answer.values["score_1"], answer.values["score_2"]) for answer in answers],
        people,
    )
    model = fit_answers(torch.tensor(sets, dtype=torch.float64), answers, OFFSET_SD)
    (slope, bias), errors = model.preferences.values, model.preferences.errors
    assert abs(slope - SLOPE) < FAR * errors[0]
    assert abs(bias - 0.6) < FAR * errors[1]
    assert errors[1] < 0.1
    assert np.corrcoef(model.offsets, [annotator.offset for annotator in annotators])[0, 1] > 0.9


def test_fit_equals_a_slow_reference_fit() -> None:
    sets, answers, _ = simulated(seed=5, n_people=3, n_questions=15, tie_width=0.5)
    model = fit_answers(sets, answers, 0.7)
    columns = (sets, answers.preferred, answers.scores, answers.people)
    rows = list(zip(*(column.tolist() for column in columns), strict=True))

    def of_preferences(values: np.ndarray) -> float:
        slope, bias, log_tie = values
        total = 0.5 * ((slope / SLOPE_SD) ** 2 + (bias / LOGIT_SD) ** 2 + (log_tie / LOGIT_SD) ** 2)
        for (first, second), preferred, _, _ in rows:
            margin = slope * (first - second) + bias
            odds = [math.exp(log_tie), math.exp(margin / 2), math.exp(-margin / 2)]
            total -= math.log(odds[preferred] / sum(odds))
        return float(total)

    def of_scores(values: np.ndarray) -> float:
        slope, edges, offsets = values[0], values[1:5], values[5:]
        if (np.diff(edges) <= 0).any():
            return math.inf
        total = 0.5 * ((slope / SLOPE_SD) ** 2 + ((edges / LOGIT_SD) ** 2).sum())
        total += 0.5 * ((offsets / 0.7) ** 2).sum() - BARRIER * np.log(np.diff(edges)).sum()
        for worths, _, levels, person in rows:
            for worth, level in zip(worths, levels, strict=True):
                below = 1 / (1 + np.exp(slope * worth + offsets[person] - edges))
                cumulative = [0.0, *below, 1.0]
                total -= math.log(cumulative[level] - cumulative[level - 1])
        return float(total)

    for objective, start, fit in (
        (of_preferences, np.zeros(3), model.preferences),
        (of_scores, np.array([0.0, -1.5, -0.5, 0.5, 1.5, 0, 0, 0]), model.scores),
    ):
        slow = scipy_minimize(objective, start, method="Nelder-Mead", options=SLOWLY)
        assert objective(fit.values.numpy()) <= slow.fun + 1e-6
        assert fit.values.numpy() == pytest.approx(slow.x, abs=0.02)


SLOWLY = {"maxiter": 20_000, "maxfev": 20_000, "xatol": 1e-6, "fatol": 1e-9, "adaptive": True}


def test_weight_two_equals_answering_twice() -> None:
    sets, answers, _ = simulated(seed=6, n_people=2, n_questions=20)
    weights = torch.where(answers.people == 0, 2.0, 1.0).double()
    weighted = replace(answers, weights=weights)
    rows = torch.cat([torch.arange(40), (answers.people == 0).nonzero().flatten()])
    ones = torch.ones(len(rows), dtype=torch.float64)
    repeated = replace(
        answers,
        preferred=answers.preferred[rows],
        scores=answers.scores[rows],
        people=answers.people[rows],
        weights=ones,
    )
    first_fit, second_fit = fit_answers(sets, weighted, 1.0), fit_answers(sets[rows], repeated, 1.0)
    torch.testing.assert_close(first_fit.preferences.values, second_fit.preferences.values)
    torch.testing.assert_close(first_fit.scores.values, second_fit.scores.values)


def test_reversed_scores_keep_the_minimum_slope() -> None:
    sets, answers, _ = simulated(seed=7, n_people=4)
    model = fit_answers(-sets, answers, OFFSET_SD)
    assert model.preferences.values[0] == model.scores.values[0] == MIN_SLOPE
    assert model.to_json()["slope"]["se"] is None
    assert model.to_json()["side_bias"]["se"] > 0


def test_uninformative_answers_give_finite_parameters() -> None:
    """A scorer that is never wrong, and score levels that never occur."""
    sets = torch.tensor([[0.9, 0.1], [0.2, 0.8]] * 5, dtype=torch.float64)
    answers = answer_tensors([1, 2] * 5, [(4, 4)] * 10, [0] * 10)
    model = fit_answers(sets, answers, OFFSET_SD)
    assert model.preferences.values.isfinite().all()
    assert model.scores.values.isfinite().all()
    assert (model.thresholds.diff() > 0).all()


def test_nan_scores_are_refused() -> None:
    _, answers, _ = simulated(seed=8, n_people=2)
    with pytest.raises(Diverged):
        fit_answers(torch.full((80, 2), torch.nan), answers, OFFSET_SD)


def reference_score_objective(
    sets: Tensor, answers: AnswerTensors, offset_sd: float
) -> Callable[[Tensor], Tensor]:
    """The objective of the fit of scores: [slope, 4 thresholds, P offsets] -> a scalar."""

    def objective(values: Tensor) -> Tensor:
        slope, edges, offsets = values[0], values[1:5], values[5:]
        total = (slope / SLOPE_SD) ** 2 / 2 + ((edges / LOGIT_SD) ** 2).sum() / 2
        total = total + ((offsets / offset_sd) ** 2).sum() / 2 - BARRIER * edges.diff().log().sum()
        for side in (0, 1):
            latents = slope * sets[:, side] + offsets[answers.people]
            total = total + answers.weights @ score_loss(latents, answers.scores[:, side], edges)
        return total

    return objective


def start(n_people: int) -> Tensor:
    return torch.tensor([0.0, -1.5, -0.5, 0.5, 1.5, *[0.0] * n_people], dtype=torch.float64)


def weighted(seed: int, n_people: int, n_questions: int) -> tuple[Tensor, AnswerTensors]:
    """Simulated answers with weights from 0 to 2; the first has weight 0."""
    sets, answers, _ = simulated(seed, n_people, n_questions)
    rng = Random(seed)
    drawn = [0.0, *(2 * rng.random() for _ in range(len(sets) - 1))]
    return sets, replace(answers, weights=torch.tensor(drawn, dtype=torch.float64))


def assert_close(fit: Fit, slow: Fit) -> None:
    torch.testing.assert_close(fit.values, slow.values, atol=1e-6, rtol=0)
    torch.testing.assert_close(fit.errors, slow.errors, atol=1e-6, rtol=0)


@pytest.mark.parametrize(("n_people", "n_questions"), [(1, 40), (2, 1), (12, 15)])
def test_arrowhead_fit_of_scores_equals_the_dense_fit(n_people: int, n_questions: int) -> None:
    equal, answers, _ = simulated(9, n_people, n_questions)
    for sets, judgements in ((equal, answers), weighted(10, n_people, n_questions)):
        model = fit_answers(sets, judgements, 0.7).scores
        assert model.values[0] > MIN_SLOPE
        assert_close(
            model, minimise(reference_score_objective(sets, judgements, 0.7), start(n_people))
        )


@pytest.mark.parametrize("n_people", [1, 7])
def test_arrowhead_fit_at_the_minimum_slope_equals_the_dense_fit(n_people: int) -> None:
    sets, answers = weighted(11, n_people, 20)
    model = fit_answers(-sets, answers, 0.7).scores
    objective = reference_score_objective(-sets, answers, 0.7)
    minimum_slope = torch.tensor([MIN_SLOPE]).double()
    slow = minimise(lambda free: objective(torch.cat([minimum_slope, free])), start(n_people)[1:])
    assert model.values[0] == MIN_SLOPE
    assert model.errors[0].isnan()
    assert_close(Fit(model.values[1:], model.errors[1:]), slow)


def test_score_derivatives_equal_autograd() -> None:
    """Also far from the minimum: with nearly equal thresholds and with unlikely answers."""
    sets, answers = weighted(12, 4, 10)
    rng = torch.Generator().manual_seed(0)
    fast = score_derivatives(sets, answers, 0.7)
    slow = dense_derivatives(reference_score_objective(sets, answers, 0.7))
    for edges in ([-1.5, -0.5, 0.5, 1.5], [0.0, 1e-3, 0.2, 9.0], [-12.0, -8.0, 8.0, 12.0]):
        parameters = 3 * torch.randn(5, generator=rng, dtype=torch.float64)
        middle = torch.tensor(edges, dtype=torch.float64)
        values = torch.cat([parameters[:1], middle, parameters[1:]])
        (gradient, hessian), (slow_gradient, slow_hessian) = fast(values), slow(values)
        torch.testing.assert_close(gradient, slow_gradient)
        torch.testing.assert_close(hessian.solve(gradient), slow_hessian.solve(gradient))
        torch.testing.assert_close(hessian.inverse_diagonal(), slow_hessian.inverse_diagonal())


def test_thousands_of_participants() -> None:
    """A dense Hessian would have 4 million entries, and each step take minutes."""
    sets, answers, truth = simulated(seed=13, n_people=2000, n_questions=3)
    model = fit_answers(sets, answers, OFFSET_SD).scores
    gradient = torch.func.grad(reference_score_objective(sets, answers, OFFSET_SD))(model.values)
    assert gradient.abs().max() < 1e-3
    difference = model.values - torch.tensor([*truth["scores"], *truth["offsets"]])
    assert (difference[:5].abs() < FAR * model.errors[:5]).all()
    # Offsets drawn from the prior: as many lie within one standard error as of a normal.
    share = (difference[5:].abs() < model.errors[5:]).double().mean()
    assert share == pytest.approx(0.683, abs=0.04)


@pytest.mark.parametrize(("common", "people"), [(1, 1), (5, 1), (5, 30)])
def test_arrowhead_hessian_equals_the_dense_matrix(common: int, people: int) -> None:
    rng, n = torch.Generator().manual_seed(common + people), common + people
    root = torch.randn(common, n, generator=rng, dtype=torch.float64)
    cross, diagonal = root[:, common:], 1 + root[0, common:] ** 2
    corner = root[:, :common] @ root[:, :common].T + (cross / diagonal) @ cross.T
    corner = corner + torch.eye(common)
    upper, lower = torch.cat([corner, cross], dim=1), torch.cat([cross.T, diagonal.diag()], dim=1)
    dense = torch.cat([upper, lower])
    hessian, gradient = ArrowheadHessian(corner, cross, diagonal), torch.arange(n).double()
    torch.testing.assert_close(hessian.solve(gradient), torch.linalg.solve(dense, gradient))
    torch.testing.assert_close(hessian.inverse_diagonal(), torch.linalg.inv(dense).diagonal())
    without_first = hessian.without_first().inverse_diagonal()
    torch.testing.assert_close(without_first, torch.linalg.inv(dense[1:, 1:]).diagonal())
