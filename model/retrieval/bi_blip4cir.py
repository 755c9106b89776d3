"""Bi-BLIP4CIR: every triplet trains in both directions.

Liu, Sun, Hong, Teney, Gould: "Bi-directional training for composed image retrieval via text prompt
learning" (arXiv 2303.16604). On CLIP4CIR's two stages, with BLIP's two encoders apart and its image
side frozen, a reversed loss is added: the target and the same text, read backwards, shall find the
reference. Inference reads texts forwards alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 -- the usual name

from hsfiq.model.retrieval.backbone import DirectedTowers, contrastive
from hsfiq.model.retrieval.system import Batch, Combiner, Encode, Losses, VectorSystem
from hsfiq.model.system_recipes import BiBlip4cirRecipe

Direction = Literal["forward", "backward"]
DIRECTIONS: tuple[Direction, ...] = get_args(Direction)

TOKEN_STD = 0.02
"""Of a new token's embedding, as BERT draws its own."""


class BiBlip4cir(VectorSystem):
    name = "bi-blip4cir"
    backbone: DirectedTowers
    recipe: BiBlip4cirRecipe

    def __init__(self, backbone: DirectedTowers, recipe: BiBlip4cirRecipe) -> None:
        super().__init__(backbone, recipe)
        self.combiner = Combiner(backbone.dim, recipe.projection, recipe.hidden, recipe.dropout)
        self.directions = Directions(backbone.text_width, recipe.direction)

    def begin(self, stage: int) -> None:
        self.stage = stage
        trained = [self.combiner] if stage == 2 else [self.backbone.text, self.directions]
        self.train_only(trained)

    def own_lr(self) -> Mapping[str, float]:
        if self.stage == 2 or self.recipe.proj_lr is None:
            return {}
        return {"backbone.text.proj.": self.recipe.proj_lr}

    def compose(self, tokens: Tensor, texts: Sequence[str]) -> Tensor:
        images = self.image_vectors(tokens)  # [B, D]
        return self.combine(images, self.text_vectors(texts, "forward"))  # [B, D]

    def compose_reversed(self, tokens: Tensor, texts: Sequence[str]) -> Tensor:
        """Compose targets with texts read backwards: [B, P, W] and B texts -> [B, D], length 1."""
        targets = self.as_sources(self.image_vectors(tokens))  # [B, D]
        return self.combine(targets, self.text_vectors(texts, "backward"))  # [B, D]

    def losses(self, batch: Batch) -> Losses:
        references = self.image_vectors(batch.references)  # [B, D]
        targets = self.image_vectors(batch.targets)  # [B, D]
        queries = self.combine(references, self.text_vectors(batch.texts, "forward"))  # [B, D]
        logits = queries @ F.normalize(targets, dim=1).T / self.recipe.temperature  # [B, B]
        terms = {"forward": contrastive(logits)}
        alpha = self.recipe.alpha[self.stage - 1]
        if alpha:
            reversed_words = self.text_vectors(batch.reversed_texts, "backward")  # [B, D]
            reversed_logits = self.reversed_logits(targets, reversed_words, references)  # [B, B]
            terms["reversed"] = alpha * contrastive(reversed_logits)
        return Losses(terms, logits)

    def reversed_logits(self, targets: Tensor, words: Tensor, references: Tensor) -> Tensor:
        """Row i: of text i composed with every target, and reference i (eq. 2).

        With negatives of references: of text i composed with target i, and every reference.
        Three times [B, D] -> [B, B].
        """
        targets, goals = self.as_sources(targets), F.normalize(references, dim=1)  # [B, D]
        if self.recipe.negatives == "references":
            return self.combine(targets, words) @ goals.T / self.recipe.temperature
        if self.stage == 2:
            pairs = self.combiner.pairs(targets, words)  # [B, B, D], texts first
        else:
            pairs = F.normalize(words.unsqueeze(1) + targets, dim=2)  # [B, B, D]
        return torch.einsum("ijd,id->ij", pairs, goals) / self.recipe.temperature

    def combine(self, images: Tensor, words: Tensor) -> Tensor:
        """[B, D] and [B, D] -> [B, D], each of length 1."""
        if self.stage == 2:
            combined: Tensor = self.combiner(images, words)
            return combined
        return F.normalize(images + words, dim=1)

    def as_sources(self, targets: Tensor) -> Tensor:
        """The vectors of targets [B, D] as they are composed.

        Those of stage I have length 1, as in the published code; the paper does not speak of it.
        """
        return targets if self.stage == 2 else F.normalize(targets, dim=1)

    def readings(self) -> Mapping[str, Encode]:
        return {direction: partial(self.read, direction=direction) for direction in DIRECTIONS}

    def read(self, texts: Sequence[str], direction: Direction) -> Tensor:
        """B texts read in a direction -> [B, D]."""
        if self.recipe.direction == "code":
            return self.backbone.text_vectors([directed_text(text, direction) for text in texts])
        return self.backbone.text_vectors(texts, self.directions.token(direction))


class Directions(nn.Module):
    """The learned tokens that say in which direction a text is read."""

    def __init__(self, width: int, setting: str) -> None:
        super().__init__()
        learned = {"token": ("forward", "backward"), "backward-token": ("backward",)}
        for direction in learned.get(setting, ()):
            token = nn.Parameter(TOKEN_STD * torch.randn(width))  # [H]
            self.register_parameter(f"{direction}_token", token)

    def token(self, direction: Direction) -> Tensor | None:
        """A direction's token [H], if it has one."""
        return getattr(self, f"{direction}_token", None)


def directed_text(text: str, direction: Direction) -> str:
    """The text as the published code directs it: `[forward] red and [forward] no belt`.

    The string comes first and after every "and", also inside words. The code does not register it
    as a token, so BERT reads three words: `[`, `forward`, `]`.
    """
    return " ".join(re.sub("^|and", rf"\g<0> [{direction}] ", text).split())
