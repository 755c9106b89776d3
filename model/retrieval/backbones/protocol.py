"""The protocols of backbones: what a system needs from the encoders that it is built on.

Letters in shapes: B batch, P image tokens, W their width, T words, Q query tokens, H hidden width,
D joint dimension.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from torch import Tensor, nn

from hsfiq.model.encoders.protocol import FrozenEncoder


class Backbone(FrozenEncoder, Protocol):
    """A `torch.nn.Module` with these members."""

    dim: int
    """D."""
    frozen: tuple[str, ...]
    """Prefixes of the names of the weights that `image_tokens` depends on, or that no vector
    depends on. They come from the published files; a checkpoint holds all other weights."""


class TwoTowers(Backbone, Protocol):
    """Two encoders into one space, neither of whose vectors has length 1."""

    @property
    def image(self) -> nn.Module:
        """Holds every weight of `image_vectors` and `image_tokens`."""
        ...

    @property
    def text(self) -> nn.Module:
        """Holds every weight of `text_vectors`; its last projection is the attribute `proj`."""
        ...

    def image_vectors(self, tokens: Tensor) -> Tensor:
        """[B, P, W] -> [B, D]."""
        ...

    def text_vectors(self, texts: Sequence[str]) -> Tensor:
        """B texts -> [B, D]."""
        ...


class DirectedTowers(TwoTowers, Protocol):
    """Two towers whose text encoder takes one embedding that is not a word's."""

    text_width: int
    """H of the text encoder."""

    def text_vectors(self, texts: Sequence[str], direction: Tensor | None = None) -> Tensor:
        """B texts -> [B, D]; `direction` [H] is put after [CLS], as if it were a word."""
        ...


class CrossAttention(DirectedTowers, Protocol):
    """Two towers whose text encoder can also read an image by cross-attention."""

    def fused_vectors(self, tokens: Tensor, texts: Sequence[str]) -> Tensor:
        """Texts that read images: [B, P, W] and B texts -> [B, D]."""
        ...


class QFormer(Backbone, Protocol):
    """BLIP-2's Q-Former: query tokens and words in one transformer."""

    n_queries: int
    """Q."""

    @property
    def query_tokens(self) -> Tensor:
        """[Q, H]."""
        ...

    @property
    def vision_proj(self) -> nn.Module:
        """Projects states of query tokens, for the gallery: [..., H] -> [..., D]."""
        ...

    @property
    def text_proj(self) -> nn.Module:
        """Projects states of words: [..., H] -> [..., D]."""
        ...

    def read_image(self, tokens: Tensor) -> Tensor:
        """The query tokens' states after reading images alone: [B, P, W] -> [B, Q, H]."""
        ...

    def read_both(self, queries: Tensor, tokens: Tensor, texts: Sequence[str]) -> Tensor:
        """States of queries that attend to the words and read the image.

        Queries [B, Q, H], or any number of them, and images [B, P, W] -> [B, Q, H].
        """
        ...

    def read_prompted(self, prompts: Tensor, texts: Sequence[str], *, text_first: bool) -> Tensor:
        """The text's [CLS] state after attending to prompts [B, Q, H] and no image: [B, H].

        The order of positions is the prompts and then the text, or, with `text_first`, [CLS], the
        prompts and the other words (facts of SPRC's code).
        """
        ...
