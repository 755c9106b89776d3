"""How answers follow from the scores of sets, and how unlikely that makes them.

S is a set's score, the mean over its images (CIRQRS eq. 7). Of a question's two sets,

    P(set 1 preferred) = sigmoid(m), m = (S1 - S2) / temperature + side bias

(Bradley and Terry 1952). Where answers are ties, the odds of set 1, set 2 and a tie are as
exp(m / 2), exp(-m / 2) and nu (Davidson 1970; with a side's advantage, Davidson and Beaver 1977).
So among the answers that are none, set 1 has the same share as before. Of a set's Likert score,

    P(score <= k) = sigmoid(threshold_k - S / score temperature - offset of the participant)

(McCullagh 1980, proportional odds). The offset is leniency: above 0, scores are higher.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 -- as everybody calls it

EDGE = 1e4
"""Beyond every threshold: the lowest score has none below it, the highest none above."""


def preference_loss(margins: Tensor, preferred: Tensor, log_tie: Tensor | None) -> Tensor:
    """The negative log-likelihood of preferences.

    Args:
        margins: [B] m, the log odds of set 1 against set 2.
        preferred: [B] int64: 1, 2, or 0 for a tie.
        log_tie: log nu, a scalar; None where no tie is allowed, and none may be there then.

    Returns:
        [B].
    """
    if log_tie is None:
        signs = 3.0 - 2.0 * preferred  # [B], 1 for set 1 and -1 for set 2
        return F.softplus(-signs * margins)
    odds = torch.stack([log_tie.expand_as(margins), margins / 2, -margins / 2], dim=1)  # [B, 3]
    chosen: Tensor = odds.gather(1, preferred.unsqueeze(1)).squeeze(1)  # [B]
    return odds.logsumexp(dim=1) - chosen


def score_loss(latents: Tensor, scores: Tensor, thresholds: Tensor) -> Tensor:
    """The negative log-likelihood of Likert scores.

    Args:
        latents: [B] S / score temperature + offset.
        scores: [B] int64, from 1.
        thresholds: [K - 1], rising, for K levels.

    Returns:
        [B]; NaN or infinite where the thresholds are out of order.
    """
    end = thresholds.new_full((1,), EDGE)
    edges = torch.cat([-end, thresholds, end])  # [K + 1]
    below, above = edges[scores - 1], edges[scores]  # [B]
    # sigmoid(a) - sigmoid(b) = sigmoid(a) sigmoid(-b) (1 - exp(b - a)), which loses no digits.
    inside = torch.log(-torch.expm1(below - above))  # [B]
    return F.softplus(latents - above) + F.softplus(below - latents) - inside
