"""A system in the spirit of MAPNet: queries chosen by transport, and a relaxed proximity loss.

Shi, Yin, Chen, Zhang, Zhang, Xie and Qu: "Multi-schema proximity network for composed image
retrieval" (ICCV 2025). Only its poster and a figure are public, so this is one consistent reading
of them and no reproduction. The poster leaves open: the features behind C and W; what C is in
each formula (as printed, the proximity loss would pull pairs apart); the estimate of MMD^2; the
loss weights, and whether a contrastive loss is among them; the sweeps of Sinkhorn's algorithm;
how images are ranked; the optimiser. Each choice is a setting of `MapnetRecipe`.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 -- the usual name

from hsfiq.errors import UnreadableInput
from hsfiq.model.encoders.encoder import pooled_query
from hsfiq.model.retrieval.backbone import QFormer, contrastive
from hsfiq.model.retrieval.system import Batch, Losses, QFormerSystem, projected
from hsfiq.model.scorer.scorer import all_relevance
from hsfiq.model.system_recipes import MapnetRecipe, Proximity

# Optimal transport with entropy, and distances of distributions: what MAPNet's losses need.
#
# Letters in shapes: B samples, Q queries, L vectors of an image, D dimensions.


@torch.no_grad()
def transport_plan(
    similarities: Tensor, temperature: float, sweeps: int, *, both_marginals: bool = True
) -> Tensor:
    """The plan P [B, Q] with the least <P, -log S> + temperature KL(P || a b^T), for S in (0, 1].

    Its rows sum to a = 1 / B. Its columns sum to b = 1 / Q if both marginals are kept. Sinkhorn's
    algorithm (Cuturi, arXiv 1306.0895) in logarithms, because S^(1 / temperature) underflows. Each
    sweep scales the columns and then the rows, so the rows are exact.
    """
    n_samples, n_queries = similarities.shape
    kernel = similarities.double().log() / temperature  # [B, Q]
    row, column = -math.log(n_samples), -math.log(n_queries)
    columns = kernel.new_zeros(1, n_queries)
    for _ in range(sweeps if both_marginals else 0):
        rows = row - (kernel + columns).logsumexp(dim=1, keepdim=True)  # [B, 1]
        columns = column - (kernel + rows).logsumexp(dim=0, keepdim=True)  # [1, Q]
    rows = row - (kernel + columns).logsumexp(dim=1, keepdim=True)  # [B, 1]
    return (kernel + rows + columns).exp().to(similarities)  # [B, Q]


def gaussian_kernel(squared_distances: Tensor, width: float) -> Tensor:
    """exp(-d^2 / width), as the relaxed contrastive loss has it (Kim et al., CVPR 2021)."""
    return (-squared_distances / width).exp()


def squared_distances(first: Tensor, second: Tensor) -> Tensor:
    """Of vectors of length 1: [..., N, D] and [..., M, D] -> [..., N, M]."""
    return (2 - 2 * first @ second.mT).clamp(min=0)


def squared_mmd(points: Tensor, sets: Tensor, width: float) -> Tensor:
    """The squared maximum mean discrepancy of each point and its set: [B, D], [B, L, D] -> [B].

    The biased estimate of Gretton et al. (JMLR 2012), for samples of 1 and of L vectors.
    """
    across = gaussian_kernel(squared_distances(points.unsqueeze(1), sets), width)  # [B, 1, L]
    within = gaussian_kernel(squared_distances(sets, sets), width)  # [B, L, L]
    return 1 - 2 * across.mean(dim=(1, 2)) + within.mean(dim=(1, 2))  # [B]


class Mapnet(QFormerSystem):
    name = "mapnet"
    recipe: MapnetRecipe

    def __init__(self, backbone: QFormer, recipe: MapnetRecipe) -> None:
        super().__init__(backbone, recipe)
        if recipe.n_queries > backbone.n_queries:
            raise UnreadableInput(
                f"n_queries={recipe.n_queries}",
                f"backbone {recipe.backbone} has {backbone.n_queries} query tokens",
                f"set n_queries={backbone.n_queries} or fewer",
            )
        self._at_start: tuple[QFormer, ...] = ()

    def before_training(self) -> None:
        needed = self.recipe.rp_weight > 0 and self.recipe.neighbours == "start"
        # In a tuple, because its weights are not this module's: no checkpoint holds them.
        self._at_start = (self.frozen_copy(),) if needed else ()

    def frozen_copy(self) -> QFormer:
        """The backbone without gradients, in eval mode; both share the frozen weights."""
        shared = {id(p): p for name, p in self.named_parameters() if self.is_frozen(name)}
        copied = copy.deepcopy(self.backbone, shared)
        cast("nn.Module", copied).requires_grad_(requires_grad=False).eval()
        return copied

    def compose(self, tokens: Tensor, texts: Sequence[str]) -> Tensor:
        return pooled_query(self.query_vectors(tokens, texts))  # [B, D]

    def query_vectors(self, tokens: Tensor, texts: Sequence[str]) -> Tensor:
        """Each query token's vector of length 1: F^q, [B, P, W] -> [B, N_Q, D]."""
        queries = self.backbone.query_tokens[: self.recipe.n_queries]  # [N_Q, H]
        states = self.backbone.read_both(queries.expand(len(tokens), -1, -1), tokens, texts)
        vectors: Tensor = self.backbone.text_proj(states)  # [B, N_Q, D]
        return F.normalize(vectors.float(), dim=-1)

    def losses(self, batch: Batch) -> Losses:
        settings = self.recipe
        each = self.query_vectors(batch.references, batch.texts)  # [B, N_Q, D]
        images = self.gallery(batch.targets)  # [B, L, D]
        queries, targets = pooled_query(each), pooled_query(images)  # [B, D]
        logits = all_relevance(queries, images, "max") / settings.temperature  # [B, B]
        terms = {}
        if settings.contrastive_weight:
            terms["itc"] = settings.contrastive_weight * contrastive(logits)
        if settings.msi_weight:
            terms["msi"] = settings.msi_weight * self.interaction(each, images.detach())
        if settings.rp_weight:
            weights = gaussian_kernel(self.squared_neighbours(batch), settings.proximity_width)
            loss = proximity_loss(queries, targets, weights, settings.gamma, settings.proximity)
            terms["rp"] = settings.rp_weight * loss
        return Losses(terms, logits)

    def interaction(self, each: Tensor, images: Tensor) -> Tensor:
        """L_MSI: F^q [B, N_Q, D] and F^t [B, L, D] -> []."""
        chosen = self.chosen_queries(each, pooled_query(images))  # [B]
        points = each[torch.arange(len(each), device=each.device), chosen]  # [B, D]
        return squared_mmd(points, images, self.recipe.mmd_width).mean()

    @torch.no_grad()
    def chosen_queries(self, each: Tensor, targets: Tensor) -> Tensor:
        """The query token of each sample, p on the poster: [B, N_Q, D], [B, D] -> [B] int64."""
        cosines = torch.einsum("bqd,bd->bq", each, targets)  # [B, N_Q]
        similarities = ((1 + cosines) / 2).clamp(LEAST_SIMILARITY, 1)  # [B, N_Q]
        plan = transport_plan(
            similarities,
            self.recipe.kernel_temperature,
            self.recipe.sweeps,
            both_marginals=self.recipe.marginals == "both",
        )  # [B, N_Q]
        return plan.argmax(dim=1)

    @torch.no_grad()
    def squared_neighbours(self, batch: Batch) -> Tensor:
        """The squared distances of the targets' vectors that W compares: [B, B]."""
        (backbone,) = self._at_start or (self.backbone,)
        vectors = pooled_query(projected(backbone, batch.targets))  # [B, D]
        return squared_distances(vectors, vectors)


LEAST_SIMILARITY = 1e-6
"""Of opposite vectors, whose logarithm would be infinite."""


def proximity_loss(
    queries: Tensor, targets: Tensor, weights: Tensor, gamma: float, proximity: Proximity
) -> Tensor:
    """L_RP of vectors of length 1: [B, D], [B, D] and W [B, B] -> [].

    mean W C^2 + mean max(gamma - W, 0) (1 - C)^2. With C a distance, the second term has the hinge
    max(1 - C, 0) of the relaxed contrastive loss that it resembles (Kim et al., CVPR 2021).
    """
    cosines = queries @ targets.T  # [B, B]
    if proximity == "printed":
        values = (1 + cosines) / 2  # [B, B]
        missing = 1 - values  # [B, B]
    else:
        values = 1 - cosines if proximity == "cosine-distance" else relative_distances(cosines)
        missing = (1 - values).clamp(min=0)  # [B, B]
    pull = weights * values.square()  # [B, B]
    push = (gamma - weights).clamp(min=0) * missing.square()  # [B, B]
    return (pull + push).mean()


LEAST_DISTANCE = 1e-12
"""Squared: the square root of 0 has no gradient."""


def relative_distances(cosines: Tensor) -> Tensor:
    """Euclidean distances of vectors of length 1 over their row's mean: [B, B] -> [B, B]."""
    distances = (2 - 2 * cosines).clamp(min=LEAST_DISTANCE).sqrt()  # [B, B]
    return distances / distances.mean(dim=1, keepdim=True)
