"""CLIP RN50x4, the backbone of CLIP4CIR (Baldrati et al., ACM TOMM 2023; MIT).

The image encoder is trained, so nothing of it can be computed once: the tokens that are cached are
the pixels themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from hsfiq.model.encoders.preprocessing import Preprocessing
from hsfiq.model.retrieval.backbones.clip.resnet import ClipResNet, ResNetSizes
from hsfiq.model.retrieval.backbones.clip.text import ClipText, TextSizes
from hsfiq.model.retrieval.backbones.clip.words import (
    cleaned,
    find_merges,
    read_merges,
    tokenizer_of,
)
from hsfiq.model.retrieval.backbones.initial_weights import draw_weights

NAME = "clip-rn50x4"

RN50X4_IMAGE = ResNetSizes(size=288, width=80, blocks=(4, 6, 10, 6), dim=640)
RN50X4_TEXT = TextSizes(words=49408, length=77, width=640, heads=10, layers=12, dim=640)


class Clip(nn.Module):
    """`TwoTowers` of hsfiq.model.retrieval.backbones.protocol describes the methods."""

    name = NAME
    frozen: tuple[str, ...] = ()

    def __init__(self, image: ResNetSizes, text: TextSizes, tokenizer: Any) -> None:
        super().__init__()
        self.preprocessing = Preprocessing(size=image.size)
        self.tokens_shape = (3 * image.size, image.size)
        self.dim = image.dim
        self.image = ClipResNet(image)
        self.text = ClipText(text)
        self._max_tokens = text.length
        self._tokenizer = tokenizer

    def train(self, mode: bool = True) -> Clip:
        """Switch the mode; the batch norms always use the statistics of CLIP's own training."""
        super().train(mode)
        self.image.eval()
        return self

    def frozen_id(self) -> str:
        """The same for all weights, because tokens are pixels."""
        return sha256(f"pixels {self.tokens_shape}".encode()).hexdigest()

    def image_modules(self) -> Sequence[nn.Module]:
        return ()

    @torch.no_grad()
    def image_tokens(self, pixels: Tensor) -> Tensor:
        return pixels.flatten(1, 2)  # [B, 3 * size, size]

    def image_vectors(self, tokens: Tensor) -> Tensor:
        pixels = tokens.reshape(len(tokens), 3, -1, tokens.shape[2])  # [B, 3, size, size]
        vectors: Tensor = self.image(pixels.to(self.image.conv1.weight.dtype))  # [B, D]
        return vectors

    def text_vectors(self, texts: Sequence[str]) -> Tensor:
        words = self.word_ids(texts)
        vectors: Tensor = self.text(words.input_ids, words.attention_mask.sum(dim=1))  # [B, D]
        return vectors

    def word_ids(self, texts: Sequence[str]) -> Any:
        """`input_ids` and `attention_mask`, both [B, T]; a text that is too long loses its end."""
        words = self._tokenizer(
            [cleaned(text) for text in texts],
            padding=True,
            truncation=True,
            max_length=self._max_tokens,
            return_tensors="pt",
        )
        return words.to(self.text.positional_embedding.device)


def build(folder: Path, generator: torch.Generator | None) -> Clip:
    """RN50x4; `folder`, or else an installed open_clip, has the file of its tokenizer.

    The generator draws the weights; without one they are uninitialised, for a checkpoint to fill.
    """
    tokenizer = tokenizer_of(read_merges(find_merges(folder)))
    return sized(RN50X4_IMAGE, RN50X4_TEXT, tokenizer, generator)


def sized(
    image: ResNetSizes, text: TextSizes, tokenizer: Any, generator: torch.Generator | None
) -> Clip:
    """A model of any size; the generator as in `build`."""
    with torch.device("meta"):
        clip = Clip(image, text, tokenizer)
    clip.to_empty(device="cpu")
    if generator is not None:
        draw_weights(clip, generator)
    return clip.eval()
