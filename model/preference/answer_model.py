"""The answer model: how answers follow from the scores of sets, fitted with the scorer fixed.

Temperatures, side bias, ties, thresholds and offsets are maximum-likelihood estimates; the
problem is convex in them (Pratt 1981 for the thresholds). Weak normal priors, and a barrier
between neighbouring thresholds, keep them finite if the answers determine little: if the scorer
is never wrong, or a score was never given.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 (its usual name)

from hsfiq.answer_rules import HIGHEST_SCORE, LOWEST_SCORE
from hsfiq.model.runtime import Diverged

# The likelihood of preferences and Likert scores, given the scores of sets.
#
# S is a set's score, the mean over its images (CIRQRS eq. 7). For the two sets of a question,
#
#     P(set 1 preferred) = sigmoid(m), m = (S1 - S2) / temperature + side bias
#
# (Bradley and Terry 1952). If ties occur, the odds of set 1, set 2 and a tie are exp(m / 2), exp(-m
# / 2) and nu (Davidson 1970; with an order effect, Davidson and Beaver 1977), which leaves the
# share of set 1 among the other answers unchanged. For a set's Likert score,
#
#     P(score <= k) = sigmoid(threshold_k - S / score temperature - offset of the participant)
#
# (McCullagh 1980, proportional odds). A participant with an offset above 0 gives higher scores.

EDGE = 1e4
"""Stands for infinity: the bound of the lowest score below and of the highest above."""


def preference_loss(margins: Tensor, preferred: Tensor, log_tie: Tensor | None) -> Tensor:
    """The negative log-likelihood of preferences, [B].

    Args:
        margins: [B] m, the log odds of set 1 against set 2.
        preferred: [B] int64: 1, 2, or 0 for a tie.
        log_tie: log nu, a scalar; None if there are no ties.
    """
    if log_tie is None:
        signs = 3.0 - 2.0 * preferred  # [B], 1 for set 1 and -1 for set 2
        return F.softplus(-signs * margins)
    odds = torch.stack([log_tie.expand_as(margins), margins / 2, -margins / 2], dim=1)  # [B, 3]
    chosen: Tensor = odds.gather(1, preferred.unsqueeze(1)).squeeze(1)  # [B]
    return odds.logsumexp(dim=1) - chosen


def score_loss(latents: Tensor, scores: Tensor, thresholds: Tensor) -> Tensor:
    """The negative log-likelihood of Likert scores, [B].

    Args:
        latents: [B] S / score temperature + offset.
        scores: [B] int64, from 1.
        thresholds: [K - 1], rising, for K levels; the loss is NaN or infinite if they do not rise.
    """
    end = thresholds.new_full((1,), EDGE)
    edges = torch.cat([-end, thresholds, end])  # [K + 1]
    below, above = edges[scores - 1], edges[scores]  # [B]
    # sigmoid(a) - sigmoid(b) = sigmoid(a) sigmoid(-b) (1 - exp(b - a)), which keeps all digits.
    inside = torch.log(-torch.expm1(below - above))  # [B]
    return F.softplus(latents - above) + F.softplus(below - latents) - inside


# Newton's method for the convex fits of the answer model.
#
# The Hessian of the Likert scores' fit is an arrowhead matrix: a few common parameters, and one
# offset per participant. No answer depends on two participants' offsets, so their block is
# diagonal:
#
#     [ corner   cross    ]
#     [ cross'   diagonal ]
#
# Its Schur complement reduces each Newton step to as many equations as there are common parameters.
#
# This is faster than scipy's optimisers, which the `model` extra does not need. The fit for 2,000
# participants with 25 questions each, on one thread of a shared CPU, took 0.14 s with standard
# errors; `scipy.optimize.minimize` with the same derivatives took 0.54 s (trust-krylov), 0.58 s
# (trust-ncg), 2.8 s (Newton-CG), 40 s (trust-exact and L-BFGS-B), and 2.2 s more for the errors.

MAX_STEPS = 100
TOLERANCE = 1e-9
"""Bound on half the squared Newton decrement, which estimates the distance to the minimum."""
MIN_STEP_SHARE = 2.0**-40
SUFFICIENT_DECREASE = 1e-4
"""Share of the decrease predicted by the slope (Armijo's condition)."""


@dataclass(frozen=True, slots=True)
class Fit:
    """The minimum of an objective of K parameters.

    Standard errors are from the inverse Hessian (the observed information, answers taken as
    independent).
    """

    values: Tensor  # [K]
    errors: Tensor  # [K]


@dataclass(frozen=True, slots=True)
class ArrowheadHessian:
    """The Hessian of C common parameters followed by P offsets; P = 0 gives a dense matrix."""

    corner: Tensor  # [C, C], symmetric
    cross: Tensor  # [C, P]
    diagonal: Tensor  # [P], above 0

    def solve(self, gradient: Tensor) -> Tensor:
        """The Newton step x, [C + P], with Hessian x = gradient."""
        n = len(self.corner)
        common, own = gradient[:n], gradient[n:]
        step = torch.linalg.solve(self._schur(), common - self._scaled() @ own)  # [C]
        return torch.cat([step, (own - step @ self.cross) / self.diagonal])

    def inverse_diagonal(self) -> Tensor:
        """The diagonal of the inverse, [C + P]."""
        inverse, scaled = torch.linalg.inv(self._schur()), self._scaled()
        own = 1 / self.diagonal + (inverse @ scaled * scaled).sum(dim=0)  # [P]
        return torch.cat([inverse.diagonal(), own])

    def without_first(self) -> ArrowheadHessian:
        """The Hessian of all parameters but the first, which is held fixed."""
        return ArrowheadHessian(self.corner[1:, 1:], self.cross[1:], self.diagonal)

    def _schur(self) -> Tensor:
        return self.corner - self._scaled() @ self.cross.T  # [C, C]

    def _scaled(self) -> Tensor:
        return self.cross / self.diagonal  # [C, P]


Objective = Callable[[Tensor], Tensor]
"""[K] -> a scalar."""
Derivatives = Callable[[Tensor], tuple[Tensor, ArrowheadHessian]]
"""[K] -> the gradient [K] and the Hessian."""


def dense_derivatives(objective: Objective) -> Derivatives:
    """Derivatives by autograd, for a function of few parameters: K gradients per call."""
    both = slope_and_curvature(objective)

    def derivatives(values: Tensor) -> tuple[Tensor, ArrowheadHessian]:
        gradient, matrix = both(values)
        return gradient, ArrowheadHessian(matrix, matrix[:, :0], matrix[0, :0])

    return derivatives


def slope_and_curvature(objective: Objective) -> Callable[[Tensor], tuple[Tensor, Tensor]]:
    """The gradient [K] and the Hessian [K, K] by autograd, in one pass."""
    slope = torch.func.grad(objective)

    def twice(values: Tensor) -> tuple[Tensor, Tensor]:
        gradient = slope(values)
        return gradient, gradient

    def both(values: Tensor) -> tuple[Tensor, Tensor]:
        curvature, gradient = torch.func.jacrev(twice, has_aux=True)(values)
        return gradient, curvature

    return both


def minimise(objective: Objective, start: Tensor, derivatives: Derivatives | None = None) -> Fit:
    """Minimise a strictly convex function, by `dense_derivatives` if no others are given.

    Args:
        objective: infinite or NaN outside its domain, which is open and convex.
        start: [K] float64, inside the domain.
    """
    derivatives, values = derivatives or dense_derivatives(objective), start.clone()
    height = float(objective(values))
    for _ in range(MAX_STEPS):
        gradient, hessian = derivatives(values)
        step = hessian.solve(gradient)  # [K]
        decrement = float(gradient @ step)
        if decrement / 2 < TOLERANCE:
            return Fit(values, hessian.inverse_diagonal().sqrt())
        values, height = line_search(objective, values, height, step, decrement)
    raise Diverged(f"the fit of the answer model did not converge in {MAX_STEPS} steps")


def line_search(
    objective: Objective, values: Tensor, before: float, step: Tensor, decrement: float
) -> tuple[Tensor, float]:
    """Halve the step until the objective, `before` at first, decreases enough.

    Returns the new point and the objective there.
    """
    share = 1.0
    while share > MIN_STEP_SHARE:
        reached = values - share * step
        height = float(objective(reached))
        if height <= before - SUFFICIENT_DECREASE * share * decrement:
            return reached, height
        share /= 2
    raise Diverged("the fit of the answer model cannot decrease its objective any further")


def fit_with_min_slope(
    objective: Objective, start: Tensor, derivatives: Derivatives, min_slope: float
) -> Fit:
    """Minimise with the first parameter, the slope, bounded below; its error is NaN there."""
    fit = minimise(objective, start, derivatives)
    if fit.values[0] >= min_slope:
        return fit
    slope = start.new_tensor([min_slope])

    def other_derivatives(values: Tensor) -> tuple[Tensor, ArrowheadHessian]:
        gradient, hessian = derivatives(torch.cat([slope, values]))
        return gradient[1:], hessian.without_first()

    rest = minimise(
        lambda values: objective(torch.cat([slope, values])), start[1:], other_derivatives
    )
    unknown = torch.full_like(slope, torch.nan)
    return Fit(torch.cat([slope, rest.values]), torch.cat([unknown, rest.errors]))


@dataclass(frozen=True, slots=True)
class ThresholdComparisons:
    """Likert scores as T yes-or-no comparisons with K thresholds, by P participants.

    Score k means that the latent lies below threshold k and above threshold k - 1; the lowest and
    the highest score give one comparison each. A comparison is answered by the logistic model in

        z = slope S + offset of the participant - threshold,

    and `likelihood.score_loss` is their sum, up to a term of the thresholds alone. Its derivatives
    are therefore sums over comparisons, by participant and threshold.
    """

    sets: Tensor  # [T] scores of the sets
    people: Tensor  # [T] int64, the participant's index
    thresholds: Tensor  # [T] int64, the threshold's index
    above: Tensor  # [T] 1 if the latent lies above the threshold, else 0
    weights: Tensor  # [T]
    n_people: int
    n_thresholds: int

    def derivatives(self, values: Tensor) -> tuple[Tensor, ArrowheadHessian]:
        """Gradient and Hessian of the weighted loss at [slope, K thresholds, P offsets]."""
        slope, thresholds, offsets = values.tensor_split([1, 1 + self.n_thresholds])
        z = slope * self.sets + offsets[self.people] - thresholds[self.thresholds]  # [T]
        share = z.sigmoid()
        first = self.weights * (share - self.above)  # [T], derivative by z
        second = self.weights * share * (1 - share)  # [T], second derivative by z
        # dz is S by the slope, -1 by the threshold and 1 by the offset.
        first_sums = self._sums(first)  # [P, K]
        second_sums, second_sums_s = self._sums(second), self._sums(second * self.sets)  # [P, K]
        by_slope, by_slope_twice = first @ self.sets, second @ self.sets**2
        corner = torch.diag(torch.cat([by_slope_twice.reshape(1), second_sums.sum(dim=0)]))
        corner[0, 1:] = corner[1:, 0] = -second_sums_s.sum(dim=0)
        gradient = torch.cat([by_slope.reshape(1), -first_sums.sum(dim=0), first_sums.sum(dim=1)])
        cross = torch.cat([second_sums_s.sum(dim=1).unsqueeze(0), -second_sums.T])
        return gradient, ArrowheadHessian(corner, cross, diagonal=second_sums.sum(dim=1))

    def _sums(self, values: Tensor) -> Tensor:
        """Sum by participant and threshold: [T] -> [P, K]."""
        cells = self.people * self.n_thresholds + self.thresholds
        sums = torch.bincount(cells, values, self.n_people * self.n_thresholds)
        return sums.view(self.n_people, self.n_thresholds)


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
    """The fitted parameters of the answer model; a slope is 1 / temperature."""

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
            result["log_tie_reason"] = "no training answer is a tie"
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
