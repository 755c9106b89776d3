"""What the backbones of the retrieval systems share: their protocol, first weights and losses."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 -- the usual name

from hsfiq.model.encoders.encoder import FrozenEncoder

# Random weights for a backbone without published ones.

EMBEDDING_STD = 0.02
"""For tables of words and positions, as BERT and CLIP draw them."""

LAST_NORM = 0.3
"""The scale of a residual branch of a ResNet. Its batch norms keep their statistics, so at scale 1
each of RN50x4's 26 blocks would double the variance."""


def draw_weights(module: nn.Module, generator: torch.Generator) -> None:
    """Draw every weight so that the size of the activations changes little from layer to layer.

    Matrices and convolutions: variance 1 / inputs of a unit (twice that for convolutions, whose
    outputs ReLU halves); norms: 1; biases: 0; the statistics of batch norms: 0 and 1.
    """
    for name, parameter in module.named_parameters():
        if "embedding" in name:
            nn.init.normal_(parameter, std=EMBEDDING_STD, generator=generator)
        elif parameter.dim() == 4:
            std = (2 / parameter[0].numel()) ** 0.5
            nn.init.normal_(parameter, std=std, generator=generator)
        elif parameter.dim() > 1:
            nn.init.normal_(parameter, std=parameter.shape[-1] ** -0.5, generator=generator)
        elif name.endswith("bias"):
            nn.init.zeros_(parameter)
        else:
            nn.init.constant_(parameter, LAST_NORM if name.endswith(".bn3.weight") else 1)
    for part in module.modules():
        if isinstance(part, nn.BatchNorm2d):
            part.reset_running_stats()


# The protocols of backbones: what a system needs from the encoders that it is built on.
#
# Letters in shapes: B batch, P image tokens, W their width, T words, Q query tokens, H hidden
# width, D joint dimension.


class Backbone(FrozenEncoder, Protocol):
    """A `torch.nn.Module` with these members."""

    dim: int
    """D."""
    frozen: tuple[str, ...]
    """Prefixes of the names of the weights that `image_tokens` depends on, or that no vector
    depends on. They come from the published files; a checkpoint holds all other weights."""


class TwoTowers(Backbone, Protocol):
    """Two encoders into one space; their vectors are not normalized."""

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


# The losses that several systems share: a batch's targets are each other's negatives.


def contrastive(logits: Tensor) -> Tensor:
    """Cross-entropy of each query's own target, in row and column i: [B, B] -> [].

    InfoNCE (van den Oord et al., arXiv 1807.03748, eq. 4), the loss L_F of Bi-BLIP4CIR's eq. 1.
    """
    return F.cross_entropy(logits, torch.arange(len(logits), device=logits.device))


def hn_nce(logits: Tensor, alpha: float, beta: float, *, as_published: bool = False) -> Tensor:
    """HN-NCE of each row's own column, hard negatives weighing more: [B, B] -> [].

    Radenovic et al., arXiv 2301.02280, as in CoVR: with s the logits,
        -mean_i log(e^s_ii / (alpha e^s_ii + sum_{j != i} w_ij e^s_ij)),
        w_ij = (B - 1) e^(beta s_ij) / sum_{k != i} e^(beta s_ik).
    Gradients pass through the weights. One row alone has no negatives: 0. `as_published`: the
    divisor of w_ij is row j's sum over k != j, as CoVR's code computes it for queries by a slip of
    broadcasting.
    """
    n = len(logits)
    if n == 1:
        return contrastive(logits)
    own = torch.eye(n, dtype=torch.bool, device=logits.device)  # [B, B]
    hardness = beta * logits  # [B, B]
    log_sums = hardness.masked_fill(own, -math.inf).logsumexp(dim=1)  # [B]
    divisors = log_sums if as_published else log_sums.unsqueeze(1)  # [B] of columns, or [B, 1]
    log_weights = math.log(n - 1) + hardness - divisors  # [B, B]
    log_alpha = math.log(alpha) if alpha else -math.inf
    log_weights = log_weights.masked_fill(own, log_alpha)  # [B, B]
    return ((logits + log_weights).logsumexp(dim=1) - logits.diagonal()).mean()
