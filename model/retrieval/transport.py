"""Optimal transport with entropy, and distances of distributions: what MAPNet's losses need.

Letters in shapes: B samples, Q queries, L vectors of an image, D dimensions.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor


@torch.no_grad()
def transport_plan(
    similarities: Tensor, temperature: float, sweeps: int, *, both_marginals: bool = True
) -> Tensor:
    """The plan P [B, Q] with the least <P, -log S> + temperature KL(P || a b^T), for S in (0, 1].

    Its rows sum to a = 1 / B. Its columns sum to b = 1 / Q if both marginals are kept. Sinkhorn's
    algorithm (Cuturi, arXiv 1306.0895) in logarithms, because S^(1 / temperature) underflows. Each
    sweep scales the columns and then the rows, so the rows are exact.
    """
    n_samples, n_queries = similarities.shape
    kernel = similarities.double().log() / temperature  # [B, Q]
    row, column = -math.log(n_samples), -math.log(n_queries)
    columns = kernel.new_zeros(1, n_queries)
    for _ in range(sweeps if both_marginals else 0):
        rows = row - (kernel + columns).logsumexp(dim=1, keepdim=True)  # [B, 1]
        columns = column - (kernel + rows).logsumexp(dim=0, keepdim=True)  # [1, Q]
    rows = row - (kernel + columns).logsumexp(dim=1, keepdim=True)  # [B, 1]
    return (kernel + rows + columns).exp().to(similarities)  # [B, Q]


def gaussian_kernel(squared_distances: Tensor, width: float) -> Tensor:
    """exp(-d^2 / width), as the relaxed contrastive loss has it (Kim et al., CVPR 2021)."""
    return (-squared_distances / width).exp()


def squared_distances(first: Tensor, second: Tensor) -> Tensor:
    """Of vectors of length 1: [..., N, D] and [..., M, D] -> [..., N, M]."""
    return (2 - 2 * first @ second.mT).clamp(min=0)


def squared_mmd(points: Tensor, sets: Tensor, width: float) -> Tensor:
    """The squared maximum mean discrepancy of each point and its set: [B, D], [B, L, D] -> [B].

    The biased estimate of Gretton et al. (JMLR 2012), for samples of 1 and of L vectors.
    """
    across = gaussian_kernel(squared_distances(points.unsqueeze(1), sets), width)  # [B, 1, L]
    within = gaussian_kernel(squared_distances(sets, sets), width)  # [B, L, L]
    return 1 - 2 * across.mean(dim=(1, 2)) + within.mean(dim=(1, 2))  # [B]
