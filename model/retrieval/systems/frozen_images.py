"""The image side of two towers, while it is not trained, as the feature cache's encoder."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from hsfiq.model.encoders.blip2_weights import frozen_id
from hsfiq.model.retrieval.backbones.protocol import TwoTowers


class ImageVectors:
    """A `FrozenEncoder` that gives each image one token, its vector; no step computes it again."""

    def __init__(self, towers: TwoTowers) -> None:
        self._towers = towers
        self.name = towers.name
        self.preprocessing = towers.preprocessing
        self.tokens_shape = (1, towers.dim)

    def frozen_id(self) -> str:
        return frozen_id(("vectors", self._towers.frozen_id()), self._towers.image.state_dict())

    def image_modules(self) -> Sequence[nn.Module]:
        return (self._towers.image,)

    @torch.no_grad()
    def image_tokens(self, pixels: Tensor) -> Tensor:
        tokens = self._towers.image_tokens(pixels)  # [B, P, W]
        return self._towers.image_vectors(tokens).unsqueeze(1)  # [B, 1, D]
