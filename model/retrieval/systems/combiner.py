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

    def pairs(self, images: Tensor, texts: Tensor) -> Tensor:
        """Compose each text with each image: [J, D] and [I, D] -> [I, J, D].

        The same as `forward` in evaluation. Of the widest layers, W [a_i ; b_j] = W_a a_i + W_b b_j
        is computed from I + J products instead of I J. In training the pairs share masks of
        dropout: a text's pairs those of its states, an image's pairs those of its projection.
        """
        text = self.dropout(F.relu(self.text_projection_layer(texts)))  # [I, projection]
        image = self.dropout(F.relu(self.image_projection_layer(images)))  # [J, projection]
        mixed = self.output_layer(self._wide(self.combiner_layer, text, image))  # [I, J, D]
        first, last = self.dynamic_scalar[0], self.dynamic_scalar[3]
        share = torch.sigmoid(last(self._wide(first, text, image)))  # [I, J, 1], of the text
        composed = mixed + share * texts.unsqueeze(1) + (1 - share) * images  # [I, J, D]
        return F.normalize(composed, dim=2)

    def _wide(self, layer: nn.Module, text: Tensor, image: Tensor) -> Tensor:
        """Hidden states of every pair of projections: [I, J, hidden]."""
        weight, bias = layer.get_parameter("weight"), layer.get_parameter("bias")
        width = text.shape[1]
        of_text = F.linear(text, weight[:, :width], bias)  # [I, hidden]
        of_image = F.linear(image, weight[:, width:])  # [J, hidden]
        kept = self.dropout(torch.ones_like(of_text))  # [I, hidden]
        states: Tensor = F.relu(of_text.unsqueeze(1) + of_image) * kept.unsqueeze(1)
        return states
