"""What lies between the scores of sets and the answers, estimated with the scorer held fixed.

Temperature, side bias, ties, thresholds and offsets are found by maximum likelihood, which is
convex in them (Pratt 1981 for the thresholds). Weak normal laws and a barrier between thresholds
keep them finite where few answers say little: where a scorer is never wrong, or a score was never
given.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from hsfiq.model.preference.arrow import Arrow
from hsfiq.model.preference.comparisons import compare
from hsfiq.model.preference.likelihood import preference_loss, score_loss
from hsfiq.model.preference.newton import Derivatives, Fit, Hessian, dense, minimise
from hsfiq.records import HIGHEST_SCORE, LOWEST_SCORE

N_THRESHOLDS = HIGHEST_SCORE - LOWEST_SCORE

LEAST_SLOPE = 1.0
"""1 / the highest temperature. A scorer that knows nothing, or the wrong way round, would be given
an infinite or negative one, and be trained to go on so."""

SLOPE_SD, LOGIT_SD = 100.0, 10.0
"""Of the weak normal laws about 0: for slopes, and for what is added to logits."""
BARRIER = 0.1
"""Answers that the barrier between neighbouring thresholds, -log of their distance, weighs."""


@dataclass(frozen=True, slots=True)
class Judgements:
    """The answers as tensors, Q questions by P participants; a question's sets are side by side.

    Attributes:
        preferred: [Q] int64: 1, 2, or 0 for a tie.
        scores: [Q, 2] int64, 1 to 5.
        people: [Q] int64, the participant's number.
        weights: [Q] of the question in every loss; 1 on average.
        participants: the P names, by number.
    """

    preferred: Tensor
    scores: Tensor
    people: Tensor
    weights: Tensor
    participants: tuple[str, ...]

    @property
    def ties(self) -> bool:
        """Whether any question was answered with a tie."""
        return bool((self.preferred == 0).any())


@dataclass(frozen=True, slots=True)
class AnswerModel:
    """The fitted laws of `hsfiq.model.preference.likelihood`.

    Attributes:
        preferences: [slope, side bias], and log nu where there are ties; slope is 1 / temperature.
        scores: [slope, 4 thresholds, P offsets].
        participants: whose the offsets are.
    """

    preferences: Fit
    scores: Fit
    participants: tuple[str, ...]

    @property
    def side_bias(self) -> float:
        """In logits; above 0, set 1 is preferred too often."""
        return float(self.preferences.values[1])

    @property
    def thresholds(self) -> Tensor:
        """[4], rising."""
        return self.scores.values[1 : 1 + N_THRESHOLDS]

    @property
    def offsets(self) -> Tensor:
        """[P] in logits."""
        return self.scores.values[1 + N_THRESHOLDS :]

    def margins(self, sets: Tensor) -> Tensor:
        """The log odds that set 1 is preferred, side bias and all: scores [B, 2] -> [B]."""
        return margins(self.preferences.values.to(sets), sets)

    def losses(self, sets: Tensor, asked: Judgements) -> tuple[Tensor, Tensor]:
        """The losses of some answers, unweighted.

        Args:
            sets: [B, 2] scores of their sets.
            asked: B of the questions that the model was fitted to, or others of its participants.

        Returns:
            [B] of the preferences, and [B] the mean of the two Likert scores'.
        """
        preferences, scores = self.preferences.values.to(sets), self.scores.values.to(sets)
        return (
            preference_losses(preferences, sets, asked),
            score_losses(scores, sets, asked),
        )

    def to_json(self) -> dict[str, Any]:
        """Every number with its standard error, the scorer held fixed and answers independent."""
        preferences, scores = pairs(self.preferences), pairs(self.scores)
        found: dict[str, Any] = {
            "slope": preferences[0],
            "side_bias": preferences[1],
            "log_tie": preferences[2] if len(preferences) > 2 else None,
            "score_slope": scores[0],
            "thresholds": scores[1 : 1 + N_THRESHOLDS],
            "offsets": dict(zip(self.participants, scores[1 + N_THRESHOLDS :], strict=True)),
        }
        if found["log_tie"] is None:
            found["log_tie_reason"] = "no answer that was trained on is a tie"
        return found


def pairs(fit: Fit) -> list[dict[str, float | None]]:
    """Each value with its standard error; null for one that lies at its bound."""
    return [
        {"value": value, "se": None if math.isnan(error) else error}
        for value, error in zip(fit.values.tolist(), fit.errors.tolist(), strict=True)
    ]


def margins(values: Tensor, sets: Tensor) -> Tensor:
    """M of `objective`: [slope, side bias, ...] and scores [B, 2] -> [B]."""
    return values[0] * (sets[:, 0] - sets[:, 1]) + values[1]


def preference_losses(values: Tensor, sets: Tensor, asked: Judgements) -> Tensor:
    """[slope, side bias] or [slope, side bias, log nu], and scores [B, 2] -> [B]."""
    log_tie = values[2] if len(values) > 2 else None
    return preference_loss(margins(values, sets), asked.preferred, log_tie)


def score_losses(values: Tensor, sets: Tensor, asked: Judgements) -> Tensor:
    """[slope, thresholds, offsets] and scores [B, 2] -> [B], the mean over the two sets."""
    offsets = values[1 + N_THRESHOLDS :][asked.people]  # [B]
    latents = values[0] * sets + offsets.unsqueeze(1)  # [B, 2]
    thresholds = values[1 : 1 + N_THRESHOLDS]
    losses = score_loss(latents.flatten(), asked.scores.flatten(), thresholds)  # [2B]
    return losses.view_as(sets).mean(dim=1)


def fit_answers(sets: Tensor, asked: Judgements, offset_sd: float) -> AnswerModel:
    """Fit all that answers depend on besides the scores of sets.

    Args:
        sets: [Q, 2] scores of the questions' sets.
        asked: the answers.
        offset_sd: standard deviation of the normal law of the offsets.

    Raises:
        Diverged: the scores are no numbers.
    """
    exact = sets.double()
    return AnswerModel(
        preferences=fit_preferences(exact, asked),
        scores=fit_scores(exact, asked, offset_sd),
        participants=asked.participants,
    )


def fit_preferences(sets: Tensor, asked: Judgements) -> Fit:
    """Fit slope, side bias and, where there are ties, log nu; sets are [Q, 2] float64."""
    spreads = sets.new_tensor([SLOPE_SD, LOGIT_SD, LOGIT_SD][: 3 if asked.ties else 2])

    def objective(values: Tensor) -> Tensor:
        losses = preference_losses(values, sets, asked)
        return asked.weights @ losses + ((values / spreads) ** 2).sum() / 2

    return with_least_slope(objective, sets.new_zeros(len(spreads)), dense(objective))


def fit_scores(sets: Tensor, asked: Judgements, offset_sd: float) -> Fit:
    """Fit slope, thresholds and offsets; sets are [Q, 2] float64."""
    n = len(asked.participants)
    spreads = torch.cat([common_spreads(sets), sets.new_full((n,), offset_sd)])

    def objective(values: Tensor) -> Tensor:
        gaps = values[1 : 1 + N_THRESHOLDS].diff()  # [3]
        losses = 2 * score_losses(values, sets, asked)  # both scores are answers
        law = ((values / spreads) ** 2).sum() / 2
        return asked.weights @ losses + law - BARRIER * gaps.log().sum()

    start = torch.cat([sets.new_tensor([0.0, -1.5, -0.5, 0.5, 1.5]), sets.new_zeros(n)])
    return with_least_slope(objective, start, score_derivatives(sets, asked, offset_sd))


def common_spreads(like: Tensor) -> Tensor:
    """Of the weak normal laws of slope and thresholds: [1 + 4]."""
    return like.new_tensor([SLOPE_SD, *[LOGIT_SD] * N_THRESHOLDS])


def score_derivatives(sets: Tensor, asked: Judgements, offset_sd: float) -> Derivatives:
    """The derivatives of what `fit_scores` minimises, in time and memory that grow as answers do.

    An offset meets nobody else's, so that the Hessian is an arrow.
    """
    scores, weights = asked.scores.flatten(), asked.weights.repeat_interleave(2)  # [2Q]
    people, n = asked.people.repeat_interleave(2), len(asked.participants)
    compared = compare(sets.flatten(), scores, people, weights, n, N_THRESHOLDS)
    spreads, inner = common_spreads(sets), slice(LOWEST_SCORE + 1, HIGHEST_SCORE)
    between = torch.bincount(scores, weights, HIGHEST_SCORE + 1)[inner]  # [3]

    def common(values: Tensor) -> Tensor:
        """What depends on slope and thresholds alone, of `score_loss` and of the laws."""
        gaps = values[1:].diff()  # [3]
        inside = between @ torch.log(-torch.expm1(-gaps))
        return ((values / spreads) ** 2).sum() / 2 - inside - BARRIER * gaps.log().sum()

    slope = torch.func.grad(common)

    def derivatives(values: Tensor) -> tuple[Tensor, Arrow]:
        first, offsets = values[: 1 + N_THRESHOLDS], values[1 + N_THRESHOLDS :]
        gradient, arrow = compared.derivatives(values)
        corner = arrow.corner + torch.func.jacrev(slope)(first)
        diagonal = arrow.diagonal + offset_sd**-2
        law = torch.cat([slope(first), offsets / offset_sd**2])
        return gradient + law, Arrow(corner, arrow.cross, diagonal)

    return derivatives


def with_least_slope(
    objective: Callable[[Tensor], Tensor], start: Tensor, derivatives: Derivatives
) -> Fit:
    """Minimise; where the first value would fall below the least slope, hold it there."""
    found = minimise(objective, start, derivatives)
    if found.values[0] >= LEAST_SLOPE:
        return found
    slope = start.new_tensor([LEAST_SLOPE])

    def others(values: Tensor) -> tuple[Tensor, Hessian]:
        gradient, hessian = derivatives(torch.cat([slope, values]))
        return gradient[1:], hessian.without_first()

    rest = minimise(lambda values: objective(torch.cat([slope, values])), start[1:], others)
    unknown = torch.full_like(slope, torch.nan)
    return Fit(torch.cat([slope, rest.values]), torch.cat([unknown, rest.errors]))


def numbered(names: Sequence[str]) -> tuple[tuple[str, ...], Tensor]:
    """The names once each, sorted, and each one's number: [Q] int64."""
    distinct = tuple(sorted(set(names)))
    number = {name: i for i, name in enumerate(distinct)}
    return distinct, torch.tensor([number[name] for name in names])
