"""The information of answers, compared with full determinants and with numerical integration."""

from __future__ import annotations

import math
from itertools import product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from hsfiq.model.informative_pairs import (
    FITTED,
    AnswerPrior,
    ExpectedAnswers,
    Information,
    latents_of_answers,
    preference_information,
    score_information,
)
from hsfiq.model.preference.answer_model import preference_loss, score_loss

THRESHOLDS = torch.tensor([-1.5, -0.5, 0.4, 1.3], dtype=torch.float64)


def random_opinions(seed: int, opinions: int, pairs: int, per_pair: int) -> tuple[Tensor, Tensor]:
    """Latents [J, P, A] and weights [P, A]."""
    generator = torch.Generator().manual_seed(seed)
    latents = torch.randn(opinions, pairs, per_pair, generator=generator, dtype=torch.float64)
    weights = torch.rand(pairs, per_pair, generator=generator, dtype=torch.float64)
    return latents, weights


def total_information(latents: Tensor, weights: Tensor, places: list[int]) -> float:
    """The reference: 1/2 log det(I + W^(1/2) C W^(1/2)) over all answers to these pairs."""
    values = latents[:, places].flatten(1)  # [J, n A]
    covariance = torch.cov(values.T)  # [n A, n A]
    roots = weights[places].flatten().sqrt()
    inside = torch.eye(len(roots), dtype=latents.dtype) + roots[:, None] * covariance * roots
    return float(torch.linalg.slogdet(inside).logabsdet) / 2


@given(
    seed=st.integers(0, 999),
    opinions=st.integers(2, 7),
    pairs=st.integers(1, 9),
    per_pair=st.sampled_from([1, 3]),
)
def test_gains_add_up_to_the_determinant(
    seed: int, opinions: int, pairs: int, per_pair: int
) -> None:
    latents, weights = random_opinions(seed, opinions, pairs, per_pair)
    information = Information(latents, weights)
    chosen: list[int] = []
    for place in torch.randperm(pairs).tolist():
        gain = float(information.gains([place])[0])
        expected = total_information(latents, weights, [*chosen, place]) - total_information(
            latents, weights, chosen
        )
        assert gain == pytest.approx(expected, abs=1e-9)
        assert gain >= 0
        information.take(place)
        chosen.append(place)
    assert information.total == pytest.approx(total_information(latents, weights, chosen), abs=1e-9)


@given(seed=st.integers(0, 999))
@settings(max_examples=30)
def test_the_best_candidate_has_the_greatest_total(seed: int) -> None:
    latents, weights = random_opinions(seed, 5, 8, 3)
    information = Information(latents, weights)
    chosen: list[int] = []
    candidates = list(range(8))
    for _ in range(4):
        totals = {
            place: total_information(latents, weights, [*chosen, place]) for place in candidates
        }
        best = information.take_best(candidates)
        assert totals[best] == pytest.approx(max(totals.values()), abs=1e-12)
        chosen.append(best)
        candidates.remove(best)


def test_several_answers_to_a_pair_are_as_many_questions_about_it() -> None:
    scores = [torch.rand(6, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))]
    views = [(scores[0], AnswerPrior(FITTED, 4.0, 0.1, 5.0, tuple(THRESHOLDS.tolist()), -1.0))]
    places = torch.tensor([[0, 1], [2, 3]])
    three = Information(*latents_of_answers(views, places, ExpectedAnswers(3.0, has_ties=True)))
    latents, weights = latents_of_answers(views, places, ExpectedAnswers(has_ties=True))
    repeated = Information(latents.repeat(1, 3, 1), weights.repeat(3, 1))
    for place in (0, 2, 4):  # three times the first pair
        repeated.take(place)
    three.take(0)
    assert three.total == pytest.approx(repeated.total, rel=1e-9)
    assert not torch.equal(weights, latents_of_answers(views, places)[1])  # ties count


def test_mutual_information_of_a_nearly_sure_scorer() -> None:
    """For small uncertainty the determinant equals the mutual information by its definition."""
    latents = 0.8 + 0.15 * torch.randn(400, 1, 1, dtype=torch.float64).sub(0)
    shares = latents.flatten().sigmoid()

    def entropy(share: Tensor) -> Tensor:
        return -(share * share.log() + (1 - share) * (1 - share).log())

    exact = float(entropy(shares.mean()) - entropy(shares).mean())
    weights = preference_information(latents.mean(dim=0).flatten(), 0.0)
    information = float(Information(latents, weights.unsqueeze(1)).gains([0])[0])
    assert information == pytest.approx(exact, rel=0.05)


@pytest.mark.parametrize("latent", [-6.0, -1.0, 0.0, 0.45, 2.5, 9.0])
def test_score_information_is_the_expected_curvature_of_the_loss(latent: float) -> None:
    def loss(value: Tensor, score: int) -> Tensor:
        return score_loss(value.reshape(1), torch.tensor([score]), THRESHOLDS)[0]

    point, total = torch.tensor(latent, dtype=torch.float64), 0.0
    for score in range(1, 6):
        slope = torch.func.grad(loss)(point, score)
        total += math.exp(-float(loss(point, score))) * float(slope) ** 2
    information = score_information(point.reshape(1), THRESHOLDS)
    assert float(information[0]) == pytest.approx(total, rel=1e-9)


@pytest.mark.parametrize("log_tie", [None, -2.0, 0.3])
@pytest.mark.parametrize(("margin", "bias"), list(product((-3.0, 0.0, 1.2), (0.0, 0.6))))
def test_preference_information_is_the_mean_over_both_orders(
    margin: float, bias: float, log_tie: float | None
) -> None:
    nu = None if log_tie is None else torch.tensor(log_tie, dtype=torch.float64)

    def loss(value: Tensor, preferred: int, sign: float) -> Tensor:
        logits = (sign * value + bias).reshape(1)
        return preference_loss(logits, torch.tensor([preferred]), nu)[0]

    point, total = torch.tensor(margin, dtype=torch.float64), 0.0
    for sign, preferred in product((1.0, -1.0), (1, 2) if nu is None else (0, 1, 2)):
        slope = float(torch.func.grad(loss)(point, preferred, sign))
        total += math.exp(-float(loss(point, preferred, sign))) * slope**2 / 2
    information = preference_information(point.reshape(1), bias, log_tie)
    assert float(information[0]) == pytest.approx(total, rel=1e-9)


def test_far_from_every_threshold_the_information_is_zero_not_nan() -> None:
    information = score_information(torch.tensor([-800.0, 800.0], dtype=torch.float64), THRESHOLDS)
    assert information.tolist() == [0.0, 0.0]


def test_each_scorer_has_its_own_prior() -> None:
    scores = [torch.tensor([[0.1, 0.4]], dtype=torch.float64), torch.tensor([[0.2, 0.1]])]
    priors = [
        AnswerPrior(FITTED, 2.0, 0.3, 5.0, tuple(THRESHOLDS.tolist())),
        AnswerPrior(FITTED, 4.0, 0.1, 7.0, tuple((THRESHOLDS + 1).tolist())),
    ]
    views = [
        (scorer_scores.double(), prior) for scorer_scores, prior in zip(scores, priors, strict=True)
    ]
    latents, weights = latents_of_answers(views, torch.tensor([[0, 1]]))
    level = float(THRESHOLDS.mean())
    first = [2 * (0.1 - 0.4), 5 * 0.1 - level, 5 * 0.4 - level]
    second = [4 * (0.2 - 0.1), 7 * 0.2 - level - 1, 7 * 0.1 - level - 1]
    assert latents.flatten().tolist() == pytest.approx([*first, *second], rel=1e-6)
    mean = latents.mean(dim=0)[0]
    assert float(weights[0, 0]) == pytest.approx(float(preference_information(mean[:1], 0.2)))
    assert float(weights[0, 1]) == pytest.approx(
        float(score_information(mean[1:2], THRESHOLDS - level))
    )


def test_an_offset_shared_by_the_thresholds_adds_no_information() -> None:
    """Two scorers that expect the same answers, one with all scores and thresholds shifted."""
    scores = torch.rand(1, 6, dtype=torch.float64)
    priors = [
        AnswerPrior(FITTED, 4.0, 0.0, 5.0, tuple((THRESHOLDS + 5.0 * shift).tolist()))
        for shift in (0.0, 0.5)
    ]
    views = [(scores, priors[0]), (scores + 0.5, priors[1])]
    information = Information(*latents_of_answers(views, torch.tensor([[0, 1], [2, 3], [4, 5]])))
    assert information.gains(range(3)).abs().max() < 1e-9


def test_without_a_score_model_only_the_margin_counts() -> None:
    scores = torch.rand(3, 4, dtype=torch.float64)
    latents, weights = latents_of_answers(
        [(scores, AnswerPrior("own", 10.0))], torch.tensor([[0, 1], [2, 3]])
    )
    assert latents.shape == (3, 2, 1)
    assert weights.shape == (2, 1)
