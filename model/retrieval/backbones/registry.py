"""Building a backbone by its name."""

from __future__ import annotations

from pathlib import Path

from hsfiq.errors import UnreadableInput
from hsfiq.model.recipes.system_recipe import SystemRecipe
from hsfiq.model.retrieval.backbones.protocol import CrossAttention, QFormer
from hsfiq.model.retrieval.backbones.tiny import TinyQFormer, TinyTowers
from hsfiq.model.runtime.seeds import generator


def build_towers(recipe: SystemRecipe, weights: Path | None) -> CrossAttention:
    """Two encoders; `weights` is the folder of published files, the usual one if None."""
    if recipe.backbone == "tiny":
        return TinyTowers(generator(recipe.seed, "backbone"))
    raise not_for(recipe, weights)


def build_qformer(recipe: SystemRecipe, weights: Path | None) -> QFormer:
    """A Q-Former; `weights` is as for `build_towers`."""
    if recipe.backbone == "tiny":
        return TinyQFormer(generator(recipe.seed, "backbone"))
    raise not_for(recipe, weights)


def not_for(recipe: SystemRecipe, weights: Path | None) -> UnreadableInput:
    return UnreadableInput(
        f"backbone={recipe.backbone}",
        f"{recipe.system} cannot be built on it" + (f" from {weights}" if weights else ""),
        "leave the recipe's own backbone",
    )
