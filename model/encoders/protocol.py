"""What a scorer needs of its encoder, whichever it is.

The image encoder is frozen and its tokens depend on the image alone, so they are computed once and
kept (`model.features.cache`). What follows it is trained: `query` and `gallery` read tokens, never
pixels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

from torch import Tensor, nn

from hsfiq.model.encoders.preprocessing import Preprocessing

Pooling = Literal["max", "mean"]


class Encoder(Protocol):
    """A `torch.nn.Module` of this shape. Letters: B batch, P image tokens, W their width,
    L token vectors of an image in the gallery, D dimensions.

    Only the parameters that are trained require gradients.
    """  # noqa: D205

    name: str
    """Under which `hsfiq.model.encoders.build` makes it again: `tiny`, `blip2-vitL`."""
    preprocessing: Preprocessing
    """How an image becomes the pixels that `image_tokens` takes."""
    tokens_shape: tuple[int, int]
    """(P, W)."""
    temperature: nn.Parameter
    """Scores are divided by it in training (QuRe eq. 1): 0.07 at the start; learned in BLIP-2."""

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
        """Project images to what queries are compared with: [B, P, W] -> [B, L, D], length 1."""
        ...
