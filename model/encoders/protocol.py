"""The protocols of retrievers and of the scorers' encoders.

The image encoder is frozen and its tokens depend on the image alone, so they are computed once and
kept (`hsfiq.model.features.cache`). The part after it is trained: `compose` and `gallery` read
tokens, never pixels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from torch import Tensor, nn

from hsfiq.model.encoders.preprocessing import Preprocessing


class FrozenEncoder(Protocol):
    """What the feature cache needs: the part of a model that is never trained.

    Letters in shapes: B batch, P image tokens, W their width, L vectors of an image in the gallery,
    D dimensions.
    """

    name: str
    preprocessing: Preprocessing
    tokens_shape: tuple[int, int]
    """(P, W)."""

    def frozen_id(self) -> str:
        """The sha256 of every weight and setting that `image_tokens` depends on."""
        ...

    def image_modules(self) -> Sequence[nn.Module]:
        """The modules with weights that `image_tokens` alone uses."""
        ...

    def image_tokens(self, pixels: Tensor) -> Tensor:
        """Encode images, without gradients: [B, 3, size, size] -> [B, P, W]."""
        ...


class Retriever(FrozenEncoder, Protocol):
    """Any model that ranks images for a query: a `torch.nn.Module` with these members."""

    training: bool

    def train(self, mode: bool = True) -> Any: ...

    def clean_text(self, text: str) -> str:
        """The text as `compose` is to be given it."""
        ...

    def compose(self, tokens: Tensor, texts: Sequence[str]) -> Tensor:
        """Compose references and clean texts: [B, P, W] and B texts -> [B, D], of length 1."""
        ...

    def gallery(self, tokens: Tensor) -> Tensor:
        """Project images to the vectors that queries are compared with: [B, P, W] -> [B, L, D]."""
        ...


class Encoder(Retriever, Protocol):
    """A scorer's encoder; only its trained parameters require gradients.

    `hsfiq.model.encoders.registry.build_encoder` takes its name.
    """

    temperature: nn.Parameter
    """Training divides scores by it (QuRe eq. 1): 0.07 at the start; learned in BLIP-2."""
