"""The Combiner: stage II of CLIP4CIR and Bi-BLIP4CIR.

Baldrati et al., CVPR 2022 workshops; the order of its parts is that of the authors' code, and so
are the names of its layers, so that their weights load without renaming.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 -- the usual name


class Combiner(nn.Module):
    """Composes an image vector and a text vector of width D into a query of length 1."""

    def __init__(self, dim: int, projection: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.text_projection_layer = nn.Linear(dim, projection)
        self.image_projection_layer = nn.Linear(dim, projection)
        self.combiner_layer = nn.Linear(2 * projection, hidden)
        self.output_layer = nn.Linear(hidden, dim)
        self.dropout = nn.Dropout(dropout)
        self.dynamic_scalar = nn.Sequential(
            nn.Linear(2 * projection, hidden),
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Linear(hidden, 1),
            nn.Sigmoid(),
        )

    def forward(self, images: Tensor, texts: Tensor) -> Tensor:
        """[B, D] and [B, D] -> [B, D]."""
        text = self.dropout(F.relu(self.text_projection_layer(texts)))  # [B, projection]
        image = self.dropout(F.relu(self.image_projection_layer(images)))  # [B, projection]
        both = torch.cat([text, image], dim=1)  # [B, 2 projection]
        mixed = self.dropout(F.relu(self.combiner_layer(both)))  # [B, hidden]
        share = self.dynamic_scalar(both)  # [B, 1], of the text
        return F.normalize(self.output_layer(mixed) + share * texts + (1 - share) * images, dim=1)
