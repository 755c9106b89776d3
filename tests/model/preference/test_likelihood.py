"""The losses, compared with the formulas, one answer at a time."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hsfiq.model.preference.answer_model import preference_loss, score_loss

pytestmark = pytest.mark.usefixtures("one_thread")

logits = st.floats(-20, 20)
preferences = st.sampled_from((1, 2))
rising = st.tuples(st.floats(-5, 5), *(st.floats(0.05, 3) for _ in range(3))).map(
    lambda values: [
        values[0],
        values[0] + values[1],
        values[0] + values[1] + values[2],
        values[0] + values[1] + values[2] + values[3],
    ]
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


@given(st.floats(-8, 8), st.floats(-3, 3))
def test_ties_reduce_both_sets_in_proportion(margin: float, log_tie: float) -> None:
    first, second = (math.exp(-preference(margin, preferred, log_tie)) for preferred in (1, 2))
    assert first / (first + second) == pytest.approx(math.exp(-preference(margin, 1)))


@given(st.floats(-8, 8), st.integers(1, 5), rising)
def test_a_score_is_between_two_thresholds(
    latent: float, level: int, thresholds: list[float]
) -> None:
    edges = [-math.inf, *thresholds, math.inf]
    above, below = (
        0.0 if edge == -math.inf else 1.0 if edge == math.inf else sigmoid(edge - latent)
        for edge in (edges[level], edges[level - 1])
    )
    assert math.exp(-score(latent, level, thresholds)) == pytest.approx(
        above - below, rel=1e-6, abs=1e-9
    )


@given(st.floats(-30, 30), rising)
def test_probabilities_of_the_levels_sum_to_one(latent: float, thresholds: list[float]) -> None:
    total = sum(math.exp(-score(latent, level, thresholds)) for level in range(1, 6))
    assert total == pytest.approx(1)


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
