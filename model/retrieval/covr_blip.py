"""CoVR-BLIP: a text that reads the reference by cross-attention, and targets that stay untuned.

Ventura, Yang, Schmid, Varol: "CoVR: Learning composed video retrieval from web video captions"
(AAAI 2024, arXiv 2308.14746). The image side is frozen, so a gallery never has to be computed
again; the text encoder, its cross-attention and its projection are trained with HN-NCE.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor
from torch.nn import functional as F  # noqa: N812 -- the usual name

from hsfiq.model.retrieval.backbone import CrossAttention, contrastive, hn_nce
from hsfiq.model.retrieval.system import Batch, Losses, TwoTowerSystem
from hsfiq.model.system_recipes import CovrBlipRecipe


class CovrBlip(TwoTowerSystem):
    name = "covr-blip"
    backbone: CrossAttention
    recipe: CovrBlipRecipe

    def begin(self, stage: int) -> None:
        self.stage = stage
        self.train_only([self.backbone.text])

    def compose(self, tokens: Tensor, texts: Sequence[str]) -> Tensor:
        return F.normalize(self.backbone.fused_vectors(tokens, texts), dim=1)  # [B, D]

    def losses(self, batch: Batch) -> Losses:
        queries = self.compose(batch.references, batch.texts)  # [B, D]
        targets = self.gallery(batch.targets).squeeze(1)  # [B, D]
        logits = queries @ targets.T / self.recipe.temperature  # [B, B]
        terms = {
            "to-targets": self.loss(logits, as_published=self.recipe.loss == "hn-nce-code"),
            "to-queries": self.loss(logits.T, as_published=False),
        }
        return Losses(terms, logits)

    def loss(self, logits: Tensor, *, as_published: bool) -> Tensor:
        """The loss of one direction: [B, B] -> []."""
        if self.recipe.loss == "info-nce":
            return contrastive(logits)
        return hn_nce(logits, self.recipe.alpha, self.recipe.beta, as_published=as_published)
