"""Building a scorer: untrained, as a recipe starts it, or from a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor, nn

from hsfiq.errors import UnreadableInput
from hsfiq.model import checkpoints
from hsfiq.model.checkpoints import Checkpoint
from hsfiq.model.encoders.registry import build_encoder
from hsfiq.model.image_tokens import default_root
from hsfiq.model.recipes import Recipe
from hsfiq.model.runtime import generator
from hsfiq.model.scorer.scorer import Scorer, trained_parameters


@dataclass(frozen=True, slots=True)
class Loaded:
    scorer: Scorer
    recipe: Recipe
    checkpoint: Checkpoint


def new_scorer(recipe: Recipe, weights: Path | None) -> Scorer:
    """The scorer before training: BLIP-2 as published, `tiny` with weights drawn from the seed.

    `weights` is the folder of BLIP-2's published files; the usual one if None. Raises as
    `build_encoder`.
    """
    encoder = build_encoder(
        recipe.encoder,
        size=recipe.size,
        pad_ratio=recipe.pad_ratio,
        folder=weights,
        generator=generator(recipe.seed, "weights"),
    )
    return Scorer(encoder, recipe.pooling)


def load_scorer(path: Path, weights: Path | None, device: torch.device) -> Loaded:
    """Load the scorer of a checkpoint, or of a run's folder.

    `weights` is as for `new_scorer`: a checkpoint does not hold the frozen weights.

    UnreadableInput for weights that it was not trained on.
    """
    checkpoint = checkpoints.read(path)
    recipe = Recipe.from_json(checkpoint.about.get("recipe"), f"{checkpoint.path}: recipe")
    if not all(isinstance(checkpoint.about.get(key), dict) for key in ("encoder", "data")):
        raise UnreadableInput(
            str(checkpoint.path),
            "does not record its training data",
            "copy the checkpoint again",
        )
    scorer = new_scorer(recipe, weights)
    if checkpoint.about["encoder"].get("frozen_sha256") != scorer.encoder.frozen_id():
        raise UnreadableInput(
            str(checkpoint.path),
            f"was trained on another image encoder than this {recipe.encoder}",
            "name the training's folder with --weights",
        )
    load_parameters(checkpoint, scorer)
    return Loaded(scorer.to(device), recipe, checkpoint)


def load_parameters(checkpoint: Checkpoint, scorer: Scorer) -> None:
    tensors = checkpoint.tensors("scorer")
    copy_parameters(tensors, trained_parameters(scorer), str(checkpoint.path))


def copy_parameters(
    tensors: Mapping[str, Tensor], parameters: Mapping[str, nn.Parameter], where: str
) -> None:
    """Copy tensors into parameters by name; UnreadableInput, and no change, if any does not fit."""
    differing = sorted(set(tensors) ^ set(parameters)) or sorted(
        name for name, parameter in parameters.items() if tensors[name].shape != parameter.shape
    )
    if differing:
        raise UnreadableInput(
            where,
            f"does not fit the encoder: {len(differing)} of its tensors differ, "
            f"first {differing[0]}",
            "use the version and the encoder that wrote it",
        )
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(tensors[name])


# The files that a scorer is loaded from and works on.


@dataclass(frozen=True, slots=True)
class ScorerPaths:
    """Where training, scoring, evaluation and pair selection find their files.

    Attributes:
        checkpoint: a checkpoint's JSON file or a run's folder; None for a new scorer.
        images: the folder of the images; None for the usual places.
        weights: the folder of BLIP-2's published files; None for the usual one.
        cache: the feature cache's folder.
    """

    checkpoint: Path | None = None
    images: Path | None = None
    weights: Path | None = None
    cache: Path = field(default_factory=default_root)

    def required(self, name: Literal["checkpoint", "images"]) -> Path:
        path: Path | None = getattr(self, name)
        if path is None:
            raise UnreadableInput(name, "is required")
        return path
