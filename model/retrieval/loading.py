"""Loading whatever ranks images: a retrieval system or a scorer, from its checkpoint."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from hsfiq.errors import UnreadableInput
from hsfiq.model.checkpoints import checkpoint as checkpoints
from hsfiq.model.checkpoints.checkpoint import Checkpoint
from hsfiq.model.encoders.protocol import Retriever
from hsfiq.model.recipes.recipe import Recipe
from hsfiq.model.recipes.system_recipe import SystemRecipe
from hsfiq.model.recipes.systems import system_recipe_from_json
from hsfiq.model.retrieval.systems.registry import new_system
from hsfiq.model.retrieval.systems.system import FROZEN, System
from hsfiq.model.scorer.loading import load_scorer


@dataclass(frozen=True, slots=True)
class LoadedRetriever:
    retriever: Retriever
    recipe: Recipe | SystemRecipe
    checkpoint: Checkpoint


def load_retriever(path: Path, weights: Path | None, device: torch.device) -> LoadedRetriever:
    """Load the system or the scorer of a checkpoint, or of a run's folder.

    `weights` is the folder of published files, which hold the frozen weights; the usual one if
    None. UnreadableInput for weights that the checkpoint was not trained on.
    """
    checkpoint = checkpoints.read(path)
    recipe = checkpoint.about.get("recipe")
    if isinstance(recipe, dict) and "system" in recipe:
        system, system_recipe = load_system(checkpoint, weights)
        return LoadedRetriever(system.to(device), system_recipe, checkpoint)
    loaded = load_scorer(path, weights, device)
    return LoadedRetriever(loaded.scorer.encoder, loaded.recipe, loaded.checkpoint)


def load_system(checkpoint: Checkpoint, weights: Path | None) -> tuple[System, SystemRecipe]:
    """The system of a checkpoint, as its stage left it; raises as `load_retriever`."""
    where = str(checkpoint.path)
    recipe = system_recipe_from_json(checkpoint.about.get("recipe"), f"{where}: recipe")
    encoder, stage = (checkpoint.about.get(key) for key in ("encoder", "stage"))
    if not isinstance(encoder, dict) or not isinstance(stage, int):
        raise UnreadableInput(
            where, "does not record its stage and encoder", "copy the checkpoint again"
        )
    complete = FROZEN in checkpoint.about["files"]
    system = new_system(recipe, weights, "empty" if complete else "frozen")
    if complete:
        system.load_frozen(checkpoint)
    if encoder.get("frozen_sha256") != system.frozen_id():
        raise UnreadableInput(
            where,
            "was trained on other weights of the frozen image encoder",
            "name the folder of those weights with --weights",
        )
    system.begin(stage)
    system.load(checkpoint)
    return system, recipe
