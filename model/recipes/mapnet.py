"""MAPNet's recipes; PAPERS.md says where each value comes from, and what no source gives."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from hsfiq.model.recipes.qformer import QFORMER_CIRR, QFORMER_TRAINING
from hsfiq.model.recipes.system_recipe import SystemRecipe, drawn_stages

Proximity = Literal["cosine-distance", "euclidean", "printed"]
Marginals = Literal["both", "samples"]
Neighbours = Literal["start", "current"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MapnetRecipe(SystemRecipe):
    """A system in the spirit of MAPNet (Shi et al., ICCV 2025), of which only a poster is known.

    Attributes:
        contrastive_weight: of the contrastive loss, which the poster does not mention.
        msi_weight: of the multi-schema interaction.
        rp_weight: of the relaxed proximity loss.
        n_queries: the backbone's query tokens that compose; N_Q on the poster.
        marginals: what the transport's plan keeps to: uniform samples and queries (`both`), or
            `samples` alone, which then choose their queries without regard to each other.
        kernel_temperature: the weight of the plan's entropy, tau on the poster.
        sweeps: of Sinkhorn's algorithm.
        mmd_width: of the Gaussian kernel of the interaction's distance.
        proximity: what C is in the relaxed proximity loss: a distance of query and target
            (`cosine-distance`, or `euclidean` over its row's mean), or the similarity, and no
            hinge, as `printed`.
        neighbours: the targets' vectors that its weights W compare: those of the backbone at the
            `start` of training, or the `current` ones without gradient.
        proximity_width: of the Gaussian kernel of W, sigma in the repository's figure.
        gamma: the W from which on a pair is never pushed apart.
    """

    contrastive_weight: float = 1.0
    msi_weight: float = 1.0
    rp_weight: float = 10.0
    n_queries: int
    marginals: Marginals = "both"
    kernel_temperature: float = 0.1
    sweeps: int = 50
    mmd_width: float = 0.6
    proximity: Proximity = "cosine-distance"
    neighbours: Neighbours = "start"
    proximity_width: float = 0.6
    gamma: float = 0.5


_FASHIONIQ = MapnetRecipe(
    name="mapnet-fashioniq",
    dataset="fashioniq",
    system="mapnet",
    backbone="blip2-vitL",
    epochs=(50,),
    batch=(32,),
    **QFORMER_TRAINING,
    n_queries=32,
)

MAPNET_RECIPES: Final = (
    _FASHIONIQ,
    replace(
        _FASHIONIQ,
        name="mapnet-cirr",
        **QFORMER_CIRR,
    ),
)

DRAWN_MAPNET: Final[dict[str, Any]] = {
    "triplets": 4500,
    **drawn_stages(epochs=(8,), batch=(64,)),
    "n_queries": 8,
}
