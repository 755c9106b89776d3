"""Images and texts as the vectors of an image-text model, which all encoders of one share."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 -- the usual name

from hsfiq.model.encoders.dual.towers import Towers
from hsfiq.text import decode


class VectorEncoder(nn.Module):
    """An encoder without `compose`: an image has one token, its vector.

    `hsfiq.model.encoders.protocol` describes the methods.
    """

    def __init__(self, name: str, towers: Towers) -> None:
        super().__init__()
        self.name = name
        self.towers = towers
        self.preprocessing = towers.preprocessing
        self.tokens_shape = (1, towers.width())

    def frozen_id(self) -> str:
        return self.towers.sha256

    def image_modules(self) -> Sequence[nn.Module]:
        return self.towers.image_modules()

    @torch.no_grad()
    def image_tokens(self, pixels: Tensor) -> Tensor:
        return self.towers.image_vectors(pixels).unsqueeze(1)  # [B, 1, D]

    def clean_text(self, text: str) -> str:
        return decode(text)

    def text_vectors(self, texts: Sequence[str]) -> Tensor:
        """Unit vectors of texts: [B, D]."""
        return F.normalize(self.towers.text_vectors(texts), dim=1)

    def gallery(self, tokens: Tensor) -> Tensor:
        return F.normalize(tokens.float(), dim=2)  # [B, 1, D]
