"""Building a scorer: as a recipe starts it, or as a checkpoint kept it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from hsfiq.errors import UnreadableInput
from hsfiq.model import encoders
from hsfiq.model.checkpoints import files as checkpoints
from hsfiq.model.checkpoints.files import Checkpoint
from hsfiq.model.recipes.recipe import Recipe
from hsfiq.model.runtime.seeds import generator
from hsfiq.model.scorer.scorer import Scorer, put, trained_parameters


@dataclass(frozen=True, slots=True)
class Loaded:
    """A trained scorer and where it comes from."""

    scorer: Scorer
    recipe: Recipe
    checkpoint: Checkpoint


def new_scorer(recipe: Recipe, weights: Path | None) -> Scorer:
    """The scorer before its training: BLIP-2 as published, `tiny` as the seed draws it.

    Args:
        recipe: names the encoder.
        weights: the folder of BLIP-2's published files; the usual one if None.

    Raises:
        UnreadableInput: missing or broken weights.
        HsfiqError: a package that the encoder needs is not installed.
    """
    encoder = encoders.build(
        recipe.encoder,
        size=recipe.size,
        pad_ratio=recipe.pad_ratio,
        folder=weights,
        generator=generator(recipe.seed, "weights"),
    )
    return Scorer(encoder, recipe.pooling)


def load_scorer(path: Path, weights: Path | None, device: torch.device) -> Loaded:
    """Load the scorer of a checkpoint.

    Args:
        path: the checkpoint's JSON file, or a run's folder.
        weights: as for `new_scorer`: what is frozen is not in the checkpoint.
        device: to put it on.

    Raises:
        UnreadableInput: no checkpoint, a broken one, or weights that it was not trained on.
    """
    checkpoint = checkpoints.read(path)
    recipe = Recipe.from_json(checkpoint.about.get("recipe"), f"{checkpoint.path}: recipe")
    trained_on = [checkpoint.about.get(key) for key in ("encoder", "data")]
    if not all(isinstance(it, dict) for it in trained_on):
        raise UnreadableInput(
            str(checkpoint.path), "does not say what it was trained on", "copy the checkpoint again"
        )
    scorer = new_scorer(recipe, weights)
    if checkpoint.about["encoder"].get("frozen_sha256") != scorer.encoder.frozen_id():
        raise UnreadableInput(
            str(checkpoint.path),
            f"was trained on another image encoder than this {recipe.encoder}",
            "name with --weights the folder that the training used",
        )
    put(checkpoint.tensors("scorer"), trained_parameters(scorer), str(checkpoint.path))
    return Loaded(scorer.to(device), recipe, checkpoint)
