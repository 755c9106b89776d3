"""CLIP's text encoder (arXiv 2103.00020, section 2.4), with OpenAI's parameter names.

OpenAI's matrix `text_projection` is the layer `proj` here, transposed.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True, slots=True)
class TextSizes:
    """`length` counts the tokens of the longest text, with its first and last."""

    words: int
    length: int
    width: int
    heads: int
    layers: int
    dim: int


class ClipText(nn.Module):
    """Token ids to vectors, not normalised: the state of the last token, projected."""

    def __init__(self, sizes: TextSizes) -> None:
        super().__init__()
        self.token_embedding = nn.Embedding(sizes.words, sizes.width)
        self.positional_embedding = nn.Parameter(torch.zeros(sizes.length, sizes.width))
        self.transformer = Transformer(sizes)
        self.ln_final = nn.LayerNorm(sizes.width)
        self.proj = nn.Linear(sizes.width, sizes.dim, bias=False)

    def forward(self, ids: Tensor, lengths: Tensor) -> Tensor:
        """Encode [B, T] ids, of which `lengths` [B] are the text's, to [B, D]."""
        # No token reads a later one, so those after the last change nothing.
        x = self.token_embedding(ids) + self.positional_embedding[: ids.shape[1]]  # [B, T, W]
        x = self.ln_final(self.transformer(x))  # [B, T, W]
        last = x[torch.arange(len(x), device=x.device), lengths - 1]  # [B, W]
        vectors: Tensor = self.proj(last)  # [B, D]
        return vectors


class Transformer(nn.Module):
    def __init__(self, sizes: TextSizes) -> None:
        super().__init__()
        self.resblocks = nn.ModuleList(Block(sizes.width, sizes.heads) for _ in range(sizes.layers))

    def forward(self, x: Tensor) -> Tensor:
        length = x.shape[1]
        later = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1)  # [T, T]
        for block in self.resblocks:
            x = block(x, later)  # [B, T, W]
        return x


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attn = nn.MultiheadAttention(width, heads, batch_first=True)
        self.ln_1 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(
            OrderedDict(
                (
                    ("c_fc", nn.Linear(width, 4 * width)),
                    ("gelu", QuickGelu()),
                    ("c_proj", nn.Linear(4 * width, width)),
                )
            )
        )
        self.ln_2 = nn.LayerNorm(width)

    def forward(self, x: Tensor, hidden: Tensor) -> Tensor:
        """[B, T, W] -> [B, T, W]; `hidden` [T, T] is True where no attention is paid."""
        y = self.ln_1(x)  # [B, T, W]
        y, _ = self.attn(y, y, y, attn_mask=hidden, need_weights=False)  # [B, T, W]
        x = x + y  # [B, T, W]
        out: Tensor = x + self.mlp(self.ln_2(x))  # [B, T, W]
        return out


class QuickGelu(nn.Module):
    """The activation of OpenAI's weights; GELU itself gives other vectors."""

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.sigmoid(1.702 * x)
