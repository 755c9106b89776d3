"""The protocol of the encoders.

The image encoder is frozen and its tokens depend on the image alone, so they are computed once and
kept (`hsfiq.model.features.cache`). The part after it is trained: `query` and `gallery` read
tokens, never pixels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from torch import Tensor, nn

from hsfiq.model.encoders.preprocessing import Preprocessing


class Encoder(Protocol):
    """A `torch.nn.Module` with these members; only its trained parameters require gradients.

    Letters in shapes: B batch, P image tokens, W their width, L vectors of an image in the gallery,
    D dimensions.
    """

    name: str
    """As `hsfiq.model.encoders.registry.build_encoder` takes it."""
    preprocessing: Preprocessing
    tokens_shape: tuple[int, int]
    """(P, W)."""
    temperature: nn.Parameter
    """Training divides scores by it (QuRe eq. 1): 0.07 at the start; learned in BLIP-2."""

    def frozen_id(self) -> str:
        """The sha256 of every weight and setting that `image_tokens` depends on."""
        ...

    def image_tokens(self, pixels: Tensor) -> Tensor:
        """Encode images, without gradients: [B, 3, size, size] -> [B, P, W]."""
        ...

    def query(self, tokens: Tensor, texts: Sequence[str]) -> Tensor:
        """Compose references and texts: [B, P, W] and B texts -> [B, D], each of length 1."""
        ...

    def gallery(self, tokens: Tensor) -> Tensor:
        """Project images to the vectors that queries are compared with: [B, P, W] -> [B, L, D]."""
        ...
