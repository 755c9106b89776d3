"""How every encoder makes one vector of a query's L vectors."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F  # noqa: N812 -- the usual name


def pooled_query(vectors: Tensor) -> Tensor:
    """The mean of a query's vectors, scaled to length 1: [B, L, D] -> [B, D]."""
    return F.normalize(vectors.mean(dim=1), dim=-1)
