"""Building a system from its recipe."""

from __future__ import annotations

from pathlib import Path

import torch

from hsfiq.model.recipes.bi_blip4cir import BiBlip4cirRecipe
from hsfiq.model.recipes.clip4cir import Clip4cirRecipe
from hsfiq.model.recipes.covr_blip import CovrBlipRecipe
from hsfiq.model.recipes.mapnet import MapnetRecipe
from hsfiq.model.recipes.sprc import SprcRecipe
from hsfiq.model.recipes.system_recipe import SystemRecipe
from hsfiq.model.retrieval.backbones.registry import (
    build_cross_attention,
    build_directed_towers,
    build_qformer,
    build_towers,
)
from hsfiq.model.retrieval.systems.bi_blip4cir import BiBlip4cir
from hsfiq.model.retrieval.systems.clip4cir import Clip4cir
from hsfiq.model.retrieval.systems.covr_blip import CovrBlip
from hsfiq.model.retrieval.systems.mapnet import Mapnet
from hsfiq.model.retrieval.systems.sprc import Sprc
from hsfiq.model.retrieval.systems.system import System
from hsfiq.model.retrieval.weights.pretrained import Start
from hsfiq.model.runtime.seeds import seed_for


def new_system(recipe: SystemRecipe, weights: Path | None, start: Start = "published") -> System:
    """The system before training, on a pre-trained backbone; new weights follow from the seed.

    `weights` is the folder of the backbones' published files; the usual one if None. `start` says
    which of its weights CLIP or BLIP takes from them, in case a checkpoint has the others; BLIP-2
    takes all. The small backbone's weights are drawn too.
    """
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(seed_for(recipe.seed, "weights"))
        return build_system(recipe, weights, start)


def build_system(recipe: SystemRecipe, weights: Path | None, start: Start) -> System:
    if isinstance(recipe, Clip4cirRecipe):
        return Clip4cir(build_towers(recipe, weights, start), recipe)
    if isinstance(recipe, BiBlip4cirRecipe):
        return BiBlip4cir(build_directed_towers(recipe, weights, start), recipe)
    if isinstance(recipe, CovrBlipRecipe):
        return CovrBlip(build_cross_attention(recipe, weights, start), recipe)
    if isinstance(recipe, SprcRecipe):
        return Sprc(build_qformer(recipe, weights), recipe)
    if isinstance(recipe, MapnetRecipe):
        return Mapnet(build_qformer(recipe, weights), recipe)
    raise TypeError(f"no system has recipes of {type(recipe).__name__}")
