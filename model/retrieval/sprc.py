"""SPRC: the reference and the text become a prompt of the text's own sentence vector.

Bai et al.: "Sentence-level prompts benefit composed image retrieval" (ICLR 2024), built from the
paper alone: its code has no licence. Two passes through a Q-Former: the first fuses queries, text
and reference; in the second the fused queries are a prompt beside the text, and no image is read.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 -- the usual name

from hsfiq.model.retrieval.backbone import QFormer, contrastive
from hsfiq.model.retrieval.system import Batch, Losses, QFormerSystem
from hsfiq.model.scorer.scorer import all_relevance
from hsfiq.model.system_recipes import SprcRecipe

PROMPT_STD = 0.02
"""Of the first values of the free prompt tokens, as BLIP-2 draws its query tokens."""


class Sprc(QFormerSystem):
    name = "sprc"
    recipe: SprcRecipe

    def __init__(self, backbone: QFormer, recipe: SprcRecipe) -> None:
        super().__init__(backbone, recipe)
        self.prompts = nn.Parameter(PROMPT_STD * torch.randn(backbone.query_tokens.shape))  # [Q, H]
        self.temperature = nn.Parameter(torch.tensor(recipe.temperature))

    def begin(self, stage: int) -> None:
        super().begin(stage)
        self.temperature.requires_grad_(self.recipe.temperature_kind == "learned")

    def loss_temperature(self) -> float:
        return self.temperature.item()

    def compose(self, tokens: Tensor, texts: Sequence[str]) -> Tensor:
        fused = self.fuse(tokens, texts)  # [B, Q, H]
        return self.sentences(fused, texts, text_first=False)  # [B, D]

    def losses(self, batch: Batch) -> Losses:
        fused = self.fuse(batch.references, batch.texts)  # [B, Q, H]
        targets = self.gallery(batch.targets)  # [B, Q, D]
        queries = self.sentences(fused, batch.texts, text_first=False)  # [B, D]
        logits = all_relevance(queries, targets, "max") / self.temperature  # [B, B]
        terms = {"itc": contrastive(logits)}
        if self.recipe.regularisation:
            prompts = self.prompts.expand(len(batch.texts), -1, -1)  # [B, Q, H]
            free = self.sentences(prompts, batch.texts, text_first=True)  # [B, D]
            plain = contrastive(all_relevance(free, targets, "max") / self.temperature)
            terms["rtc"] = self.recipe.regularisation * plain
        if self.recipe.alignment:
            terms["align"] = self.recipe.alignment * alignment(fused, self.prompts)
        return Losses(terms, logits)

    def fuse(self, tokens: Tensor, texts: Sequence[str]) -> Tensor:
        """The sentence-level prompts of references and texts: [B, P, W] -> [B, Q, H]."""
        queries = self.backbone.query_tokens.expand(len(tokens), -1, -1)  # [B, Q, H]
        return self.backbone.read_both(queries, tokens, texts)

    def sentences(self, prompts: Tensor, texts: Sequence[str], *, text_first: bool) -> Tensor:
        """The vectors of length 1 of texts with their prompts: [B, Q, H] -> [B, D]."""
        states = self.backbone.read_prompted(prompts, texts, text_first=text_first)  # [B, H]
        projected: Tensor = self.backbone.text_proj(states)  # [B, D]
        return F.normalize(projected.float(), dim=-1)


def alignment(fused: Tensor, prompts: Tensor) -> Tensor:
    """The mean squared distance of mean prompts: [B, Q, H] and the free ones [Q, H] -> [].

    The free prompts have no gradient from it: they learn from the loss of texts alone.
    """
    free = prompts.detach().mean(dim=0).expand(len(fused), -1)  # [B, H]
    return F.mse_loss(fused.mean(dim=1), free)
