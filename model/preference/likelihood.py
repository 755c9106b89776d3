"""The likelihood of preferences and Likert scores, given the scores of sets.

S is a set's score, the mean over its images (CIRQRS eq. 7). For the two sets of a question,

    P(set 1 preferred) = sigmoid(m), m = (S1 - S2) / temperature + side bias

(Bradley and Terry 1952). If ties occur, the odds of set 1, set 2 and a tie are exp(m / 2),
exp(-m / 2) and nu (Davidson 1970; with an order effect, Davidson and Beaver 1977), which leaves the
share of set 1 among the other answers unchanged. For a set's Likert score,

    P(score <= k) = sigmoid(threshold_k - S / score temperature - offset of the participant)

(McCullagh 1980, proportional odds). A participant with an offset above 0 gives higher scores.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 (its usual name)

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
