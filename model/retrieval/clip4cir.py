"""CLIP4CIR: CLIP's two encoders, and a Combiner of their vectors.

Baldrati, Bertini, Uricchio, Del Bimbo: "Effective conditioned and composed image retrieval
combining CLIP-based features" (CVPR 2022) and "Composed image retrieval using contrastive learning
and task-oriented CLIP-based features" (TOMM 2023). Stage I tunes the encoders with the normalised
sum of the two vectors as the query; stage II trains the Combiner on the tuned encoders.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor
from torch.nn import functional as F  # noqa: N812 -- the usual name

from hsfiq.model.retrieval.backbone import TwoTowers, contrastive
from hsfiq.model.retrieval.system import Batch, Combiner, Losses, VectorSystem
from hsfiq.model.system_recipes import Clip4cirRecipe


class Clip4cir(VectorSystem):
    name = "clip4cir"
    recipe: Clip4cirRecipe

    def __init__(self, backbone: TwoTowers, recipe: Clip4cirRecipe) -> None:
        super().__init__(backbone, recipe)
        self.combiner = Combiner(backbone.dim, recipe.projection, recipe.hidden, recipe.dropout)

    def begin(self, stage: int) -> None:
        self.stage = stage
        if stage == 2:
            self.train_only([self.combiner])
        elif self.recipe.tuned == "text":
            self.train_only([self.backbone.text])
        else:
            self.train_only([self.backbone.image, self.backbone.text])

    def compose(self, tokens: Tensor, texts: Sequence[str]) -> Tensor:
        images = self.image_vectors(tokens)  # [B, D]
        words = self.text_vectors(texts)  # [B, D]
        if self.stage == 2:
            combined: Tensor = self.combiner(images, words)
            return combined  # [B, D]
        return F.normalize(images + words, dim=1)  # [B, D]

    def losses(self, batch: Batch) -> Losses:
        queries = self.compose(batch.references, batch.texts)  # [B, D]
        targets = self.gallery(batch.targets).squeeze(1)  # [B, D]
        logits = queries @ targets.T / self.recipe.temperature  # [B, B]
        return Losses({"contrastive": contrastive(logits)}, logits)
