"""The losses that several systems share: a batch's targets are each other's negatives."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 -- the usual name


def contrastive(logits: Tensor) -> Tensor:
    """Cross-entropy of each query's own target, in row and column i: [B, B] -> [].

    InfoNCE (van den Oord et al., arXiv 1807.03748, eq. 4), the loss L_F of Bi-BLIP4CIR's eq. 1.
    """
    return F.cross_entropy(logits, torch.arange(len(logits), device=logits.device))
