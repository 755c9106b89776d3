"""The answer model: how answers follow from the scores of sets, fitted with the scorer fixed.

Temperatures, side bias, ties, thresholds and offsets are maximum-likelihood estimates; the problem
is convex in them (Pratt 1981 for the thresholds). Weak normal priors, and a barrier between
neighbouring thresholds, keep them finite if the answers determine little: if the scorer is never
wrong, or a score was never given.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from hsfiq.answer_rules import HIGHEST_SCORE, LOWEST_SCORE
from hsfiq.model.preference.likelihood import preference_loss, score_loss
from hsfiq.model.preference.response_fit import (
    ArrowheadHessian,
    Derivatives,
    Fit,
    ThresholdComparisons,
    dense_derivatives,
    fit_with_min_slope,
    slope_and_curvature,
)

N_THRESHOLDS = HIGHEST_SCORE - LOWEST_SCORE

MIN_SLOPE = 1.0
"""1 / the highest temperature. A scorer that ranks at random, or in reverse, would get an infinite
or negative temperature, and training would keep it so."""

SLOPE_SD, LOGIT_SD = 100.0, 10.0
"""Standard deviations of the weak normal priors about 0: of slopes, and of terms in logits."""
BARRIER = 0.1
"""Weight, in answers, of the barrier between neighbouring thresholds: -log of their distance."""


@dataclass(frozen=True, slots=True)
class AnswerTensors:
    """The answers to Q questions by P participants."""

    preferred: Tensor  # [Q] int64: 1, 2, or 0 for a tie
    scores: Tensor  # [Q, 2] int64, 1 to 5
    people: Tensor  # [Q] int64, the participant's index
    weights: Tensor  # [Q] of the question in every loss; 1 on average
    participants: tuple[str, ...]

    def part(self, places: Tensor, device: torch.device) -> AnswerTensors:
        """The answers to some questions, [B], on a device."""
        return AnswerTensors(
            preferred=self.preferred[places].to(device),
            scores=self.scores[places].to(device),
            people=self.people[places].to(device),
            weights=self.weights[places].to(device),
            participants=self.participants,
        )


@dataclass(frozen=True, slots=True)
class AnswerModel:
    """The fitted parameters of `hsfiq.model.preference.likelihood`; a slope is 1 / temperature."""

    preferences: Fit  # [slope, side bias], and log nu if there are ties
    scores: Fit  # [slope, 4 thresholds, P offsets]
    participants: tuple[str, ...]

    @property
    def side_bias(self) -> float:
        """In logits; above 0, set 1 is preferred too often."""
        return float(self.preferences.values[1])

    @property
    def thresholds(self) -> Tensor:
        return self.scores.values[1 : 1 + N_THRESHOLDS]  # [4], rising

    @property
    def offsets(self) -> Tensor:
        return self.scores.values[1 + N_THRESHOLDS :]  # [P] logits

    def margins(self, sets: Tensor) -> Tensor:
        """The log odds that set 1 is preferred, with side bias: scores [B, 2] -> [B]."""
        return margins(self.preferences.values.to(sets), sets)

    def losses(self, sets: Tensor, answers: AnswerTensors) -> tuple[Tensor, Tensor]:
        """The unweighted losses of answers by participants that the model was fitted to.

        From the scores of sets, [B, 2]: [B] of the preferences, and [B] of the Likert scores.
        """
        preferences, scores = self.preferences.values.to(sets), self.scores.values.to(sets)
        return preference_losses(preferences, sets, answers), score_losses(scores, sets, answers)

    def to_json(self) -> dict[str, Any]:
        preferences, scores = with_errors(self.preferences), with_errors(self.scores)
        result: dict[str, Any] = {
            "slope": preferences[0],
            "side_bias": preferences[1],
            "log_tie": preferences[2] if len(preferences) > 2 else None,
            "score_slope": scores[0],
            "thresholds": scores[1 : 1 + N_THRESHOLDS],
            "offsets": dict(zip(self.participants, scores[1 + N_THRESHOLDS :], strict=True)),
        }
        if result["log_tie"] is None:
            result["log_tie_reason"] = "no answer that was trained on is a tie"
        return result


def with_errors(fit: Fit) -> list[dict[str, float | None]]:
    """Each value with its standard error; null for a value at its bound."""
    return [
        {"value": value, "se": None if math.isnan(error) else error}
        for value, error in zip(fit.values.tolist(), fit.errors.tolist(), strict=True)
    ]


def margins(values: Tensor, sets: Tensor) -> Tensor:
    """The margins m of `likelihood`: [slope, side bias, ...] and scores [B, 2] -> [B]."""
    return values[0] * (sets[:, 0] - sets[:, 1]) + values[1]


def preference_losses(values: Tensor, sets: Tensor, answers: AnswerTensors) -> Tensor:
    """[slope, side bias] or [slope, side bias, log nu], and scores [B, 2] -> [B]."""
    log_tie = values[2] if len(values) > 2 else None
    return preference_loss(margins(values, sets), answers.preferred, log_tie)


def score_losses(values: Tensor, sets: Tensor, answers: AnswerTensors) -> Tensor:
    """[slope, thresholds, offsets] and scores [B, 2] -> [B], the mean over the two sets."""
    offsets = values[1 + N_THRESHOLDS :][answers.people]  # [B]
    latents = values[0] * sets + offsets.unsqueeze(1)  # [B, 2]
    thresholds = values[1 : 1 + N_THRESHOLDS]
    losses = score_loss(latents.flatten(), answers.scores.flatten(), thresholds)  # [2B]
    return losses.view_as(sets).mean(dim=1)


def fit_answers(sets: Tensor, answers: AnswerTensors, offset_sd: float) -> AnswerModel:
    """Fit the answer model to the scores of sets, [Q, 2]; `Diverged` if they are not finite."""
    exact = sets.double()
    return AnswerModel(
        preferences=fit_preferences(exact, answers),
        scores=fit_scores(exact, answers, offset_sd),
        participants=answers.participants,
    )


def fit_preferences(sets: Tensor, answers: AnswerTensors) -> Fit:
    """Fit slope, side bias and, if there are ties, log nu; sets are [Q, 2] float64."""
    has_ties = bool((answers.preferred == 0).any())
    prior_sds = sets.new_tensor([SLOPE_SD, LOGIT_SD, LOGIT_SD][: 3 if has_ties else 2])

    def objective(values: Tensor) -> Tensor:
        losses = preference_losses(values, sets, answers)
        return answers.weights @ losses + ((values / prior_sds) ** 2).sum() / 2

    start = sets.new_zeros(len(prior_sds))
    return fit_with_min_slope(objective, start, dense_derivatives(objective), MIN_SLOPE)


def fit_scores(sets: Tensor, answers: AnswerTensors, offset_sd: float) -> Fit:
    """Fit slope, thresholds and offsets; sets are [Q, 2] float64."""
    n = len(answers.participants)
    prior_sds = torch.cat([common_prior_sds(sets), sets.new_full((n,), offset_sd)])

    def objective(values: Tensor) -> Tensor:
        gaps = values[1 : 1 + N_THRESHOLDS].diff()  # [3]
        losses = 2 * score_losses(values, sets, answers)  # both scores are answers
        prior = ((values / prior_sds) ** 2).sum() / 2
        return answers.weights @ losses + prior - BARRIER * gaps.log().sum()

    start = torch.cat([sets.new_tensor([0.0, -1.5, -0.5, 0.5, 1.5]), sets.new_zeros(n)])
    derivatives = score_derivatives(sets, answers, offset_sd)
    return fit_with_min_slope(objective, start, derivatives, MIN_SLOPE)


def common_prior_sds(like: Tensor) -> Tensor:
    """Of the weak priors of slope and thresholds: [1 + 4]."""
    return like.new_tensor([SLOPE_SD, *[LOGIT_SD] * N_THRESHOLDS])


def score_derivatives(sets: Tensor, answers: AnswerTensors, offset_sd: float) -> Derivatives:
    """Derivatives of the objective of `fit_scores`, in time and memory linear in the answers."""
    scores, weights = answers.scores.flatten(), answers.weights.repeat_interleave(2)  # [2Q]
    is_high, is_low = scores > LOWEST_SCORE, scores < HIGHEST_SCORE  # [2Q]
    places = torch.cat([is_high.nonzero(), is_low.nonzero()]).squeeze(1)  # [T]
    is_above = torch.arange(len(places)) < is_high.sum()  # [T]
    comparisons = ThresholdComparisons(
        sets=sets.flatten()[places],
        people=answers.people.repeat_interleave(2)[places],
        thresholds=scores[places] - 1 - is_above.long(),
        above=is_above.to(sets),
        weights=weights[places],
        n_people=len(answers.participants),
        n_thresholds=N_THRESHOLDS,
    )
    prior_sds, inner = common_prior_sds(sets), slice(LOWEST_SCORE + 1, HIGHEST_SCORE)
    between = torch.bincount(scores, weights, HIGHEST_SCORE + 1)[inner]  # [3]

    def common(values: Tensor) -> Tensor:
        """The terms of slope and thresholds alone, of `score_loss` and of the priors."""
        gaps = values[1:].diff()  # [3]
        inside = between @ torch.log(-torch.expm1(-gaps))
        return ((values / prior_sds) ** 2).sum() / 2 - inside - BARRIER * gaps.log().sum()

    slope_and_corner = slope_and_curvature(common)

    def derivatives(values: Tensor) -> tuple[Tensor, ArrowheadHessian]:
        first, offsets = values[: 1 + N_THRESHOLDS], values[1 + N_THRESHOLDS :]
        gradient, hessian = comparisons.derivatives(values)
        common_gradient, corner = slope_and_corner(first)
        diagonal = hessian.diagonal + offset_sd**-2
        prior = torch.cat([common_gradient, offsets / offset_sd**2])
        return gradient + prior, ArrowheadHessian(hessian.corner + corner, hessian.cross, diagonal)

    return derivatives
