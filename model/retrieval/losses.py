"""The losses that several systems share: a batch's targets are each other's negatives."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 -- the usual name


def contrastive(logits: Tensor) -> Tensor:
    """Cross-entropy of each query's own target, in row and column i: [B, B] -> [].

    InfoNCE (van den Oord et al., arXiv 1807.03748, eq. 4), the loss L_F of Bi-BLIP4CIR's eq. 1.
    """
    return F.cross_entropy(logits, torch.arange(len(logits), device=logits.device))


def hn_nce(logits: Tensor, alpha: float, beta: float, *, as_published: bool = False) -> Tensor:
    """HN-NCE of each row's own column, hard negatives weighing more: [B, B] -> [].

    Radenovic et al., arXiv 2301.02280, as in CoVR: with s the logits,
        -mean_i log(e^s_ii / (alpha e^s_ii + sum_{j != i} w_ij e^s_ij)),
        w_ij = (B - 1) e^(beta s_ij) / sum_{k != i} e^(beta s_ik).
    Gradients pass through the weights. One row alone has no negatives: 0. `as_published`: the
    divisor of w_ij is row j's sum over k != j, as CoVR's code computes it for queries by a slip of
    broadcasting.
    """
    n = len(logits)
    if n == 1:
        return contrastive(logits)
    own = torch.eye(n, dtype=torch.bool, device=logits.device)  # [B, B]
    hardness = beta * logits  # [B, B]
    log_sums = hardness.masked_fill(own, -math.inf).logsumexp(dim=1)  # [B]
    divisors = log_sums if as_published else log_sums.unsqueeze(1)  # [B] of columns, or [B, 1]
    log_weights = math.log(n - 1) + hardness - divisors  # [B, B]
    log_alpha = math.log(alpha) if alpha else -math.inf
    log_weights = log_weights.masked_fill(own, log_alpha)  # [B, B]
    return ((logits + log_weights).logsumexp(dim=1) - logits.diagonal()).mean()
