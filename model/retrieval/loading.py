"""Loading whatever ranks images: a retrieval system or a scorer, from its checkpoint."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import torch
from torch import nn

from hsfiq.errors import UnreadableInput
from hsfiq.model.checkpoints import checkpoint as checkpoints
from hsfiq.model.checkpoints.checkpoint import Checkpoint
from hsfiq.model.encoders.plugins import build_retriever, is_specification
from hsfiq.model.encoders.protocol import FrozenEncoder, Retriever
from hsfiq.model.recipes.recipe import Recipe
from hsfiq.model.recipes.system_recipe import SystemRecipe
from hsfiq.model.recipes.systems import system_recipe_from_json
from hsfiq.model.recipes.zero_shot import ZeroShot
from hsfiq.model.retrieval.systems.registry import new_system
from hsfiq.model.retrieval.systems.system import FROZEN, System
from hsfiq.model.scorer.loading import Loaded, load_scorer


@dataclass(frozen=True, slots=True)
class LoadedRetriever:
    retriever: Retriever
    frozen_encoder: FrozenEncoder
    """Whose tokens the retriever reads; systems on the same backbone share their tokens."""
    recipe: Recipe | SystemRecipe | ZeroShot
    checkpoint: Checkpoint

    @property
    def system(self) -> str:
        """The name for ranked lists: the system's, or the recipe's of a scorer."""
        return self.recipe.system if isinstance(self.recipe, SystemRecipe) else self.recipe.name


def load_retriever(path: Path, weights: Path | None, device: torch.device) -> LoadedRetriever:
    """Load the system or the scorer of a checkpoint, or build an untrained one, `NAME:ARGUMENT`.

    `weights` is the folder of published files, which hold the frozen weights; the usual one if
    None. UnreadableInput for weights that the checkpoint was not trained on.
    """
    if is_specification(path):
        return zero_shot(str(path), device)
    checkpoint = checkpoints.read(path)
    recipe = recipe_of(checkpoint)
    if isinstance(recipe, SystemRecipe):
        system = load_system(checkpoint, recipe, weights).to(device)
        return LoadedRetriever(system, system.backbone, recipe, checkpoint)
    return retriever_of(load_scorer(path, weights, device))


def zero_shot(specification: str, device: torch.device) -> LoadedRetriever:
    """A retriever that is used as it was published, with what a checkpoint would record."""
    retriever = build_retriever(specification)
    retriever.train(mode=False)
    if isinstance(retriever, nn.Module):
        retriever.to(device)
    recipe = ZeroShot(retriever.name)
    about = {
        "recipe": recipe.to_json(),
        "encoder": {
            "name": retriever.name,
            "frozen_sha256": retriever.frozen_id(),
            "tokens": list(retriever.tokens_shape),
        },
        "files": {"scorer": {"sha256": digest_of(specification, retriever)}},
    }
    return LoadedRetriever(retriever, retriever, recipe, Checkpoint(Path(specification), about))


def digest_of(specification: str, retriever: Retriever) -> str:
    """Identifies the scores: the weights, and how the specification says to use them."""
    return sha256(f"{specification} {retriever.frozen_id()}".encode()).hexdigest()


def recipe_of(checkpoint: Checkpoint) -> Recipe | SystemRecipe:
    """The recipe of a system or a scorer; UnreadableInput if it is not one of this version."""
    value, where = checkpoint.about.get("recipe"), f"{checkpoint.path}: recipe"
    if isinstance(value, dict) and "system" in value:
        return system_recipe_from_json(value, where)
    return Recipe.from_json(value, where)


def retriever_of(loaded: Loaded) -> LoadedRetriever:
    encoder = loaded.scorer.encoder
    return LoadedRetriever(encoder, encoder, loaded.recipe, loaded.checkpoint)


def load_system(checkpoint: Checkpoint, recipe: SystemRecipe, weights: Path | None) -> System:
    """The system of a checkpoint, as its stage left it; raises as `load_retriever`."""
    where = str(checkpoint.path)
    encoder, stage = (checkpoint.about.get(key) for key in ("encoder", "stage"))
    if not isinstance(encoder, dict) or not isinstance(stage, int):
        raise UnreadableInput(
            where, "does not record its stage and encoder", "copy the checkpoint again"
        )
    system = with_frozen_weights(checkpoint, recipe, weights)
    if encoder.get("frozen_sha256") != system.frozen_id():
        raise UnreadableInput(
            where,
            "was trained on other weights of the frozen image encoder",
            "name the folder of those weights with --weights",
        )
    system.begin(stage)
    system.load(checkpoint)
    return system


def with_frozen_weights(
    checkpoint: Checkpoint, recipe: SystemRecipe, weights: Path | None
) -> System:
    """A system for a checkpoint's weights; the frozen ones are its own, if it was imported."""
    if FROZEN not in checkpoint.about["files"]:
        return new_system(recipe, weights, "frozen")
    system = new_system(recipe, weights, "empty")
    system.load_frozen(checkpoint)
    return system
