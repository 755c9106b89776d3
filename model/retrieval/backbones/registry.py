"""Building a backbone by its name.

`weights` is the folder of published files, the usual one if None; `start` says which of a
backbone's weights they give (`hsfiq.model.retrieval.weights.pretrained.Start`).
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from hsfiq.errors import UnreadableInput
from hsfiq.model.recipes.system_recipe import SystemRecipe
from hsfiq.model.retrieval.backbones import blip2
from hsfiq.model.retrieval.backbones.blip import Blip, BlipCrossAttention
from hsfiq.model.retrieval.backbones.clip.model import Clip
from hsfiq.model.retrieval.backbones.protocol import (
    CrossAttention,
    DirectedTowers,
    QFormer,
    TwoTowers,
)
from hsfiq.model.retrieval.backbones.tiny import TinyQFormer, TinyTowers
from hsfiq.model.retrieval.weights.pretrained import FILES, Start, load_towers
from hsfiq.model.runtime.seeds import generator


def build_towers(
    recipe: SystemRecipe, weights: Path | None, start: Start, *, reads_images: bool = False
) -> TwoTowers:
    """Two encoders apart."""
    if recipe.backbone == "tiny":
        return TinyTowers(generator(recipe.seed, "backbone"))
    if recipe.backbone in FILES:
        towers = load_towers(recipe.backbone, weights, start, reads_images=reads_images)
        return prepared(towers, recipe)
    raise not_for(recipe, weights)


def build_directed_towers(
    recipe: SystemRecipe, weights: Path | None, start: Start
) -> DirectedTowers:
    """Two encoders apart, of which that of texts takes a direction."""
    towers = build_towers(recipe, weights, start)
    if isinstance(towers, TinyTowers | Blip):
        return towers
    raise not_for(recipe, weights)


def build_cross_attention(
    recipe: SystemRecipe, weights: Path | None, start: Start
) -> CrossAttention:
    """Two encoders, of which that of texts can read an image."""
    towers = build_towers(recipe, weights, start, reads_images=True)
    if isinstance(towers, TinyTowers | BlipCrossAttention):
        return towers
    raise not_for(recipe, weights)


def prepared(towers: Clip | Blip, recipe: SystemRecipe) -> Clip | Blip:
    """Pad images as the recipe says; UnreadableInput if it wants them of another size."""
    right = towers.preprocessing.size
    if recipe.size != right:
        raise UnreadableInput(
            f"size={recipe.size}",
            f"{recipe.backbone} takes images of {right} pixels",
            f"set size={right}",
        )
    towers.preprocessing = replace(towers.preprocessing, pad_ratio=recipe.pad_ratio)
    return towers


def build_qformer(recipe: SystemRecipe, weights: Path | None) -> QFormer:
    """A Q-Former."""
    if recipe.backbone == "tiny":
        return TinyQFormer(generator(recipe.seed, "backbone"))
    if recipe.backbone in ("blip2-vitL", "blip2-vitg", "blip2-hf"):
        return blip2.load(
            recipe.backbone, size=recipe.size, pad_ratio=recipe.pad_ratio, weights=weights
        )
    raise not_for(recipe, weights)


def not_for(recipe: SystemRecipe, weights: Path | None) -> UnreadableInput:
    return UnreadableInput(
        f"backbone={recipe.backbone}",
        f"{recipe.system} cannot be built on it" + (f" from {weights}" if weights else ""),
        "leave the recipe's own backbone",
    )
