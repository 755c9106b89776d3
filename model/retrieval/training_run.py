"""Training a retrieval system from end to end: backbone, tokens, stages, checkpoints."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch

from hsfiq.drawn import garment_of
from hsfiq.drawn.triplets import target_split
from hsfiq.errors import UnreadableInput
from hsfiq.model.checkpoints import checkpoint as checkpoints
from hsfiq.model.checkpoints.checkpoint import Checkpoint
from hsfiq.model.data.triplets import TrainingData
from hsfiq.model.features.tokens import TokenSource
from hsfiq.model.recipes.system_recipe import Stage, SystemRecipe
from hsfiq.model.retrieval.backbones.pretraining import load_pretrained
from hsfiq.model.retrieval.backbones.tiny import TinyQFormer, TinyTowers
from hsfiq.model.retrieval.loading import with_frozen_weights
from hsfiq.model.retrieval.systems.registry import new_system
from hsfiq.model.retrieval.systems.system import System
from hsfiq.model.retrieval.training_loop import SAVE_EVERY, StageTrainer
from hsfiq.model.runtime.distributed import Distributed
from hsfiq.model.runtime.seeds import generator
from hsfiq.model.scorer.inference import precision
from hsfiq.model.scorer.paths import ScorerPaths
from hsfiq.model.training.callbacks import Callback, TensorBoard
from hsfiq.model.training.run import ABOUT, identity, tokens_of, write_missing
from hsfiq.model.training.run_folder import RunFolder

BACKBONES = "backbones"
"""The folder of pre-trained small backbones, in the cache."""


def train_system(
    recipe: SystemRecipe,
    data: TrainingData,
    out: Path,
    paths: ScorerPaths,
    distributed: Distributed,
    callback: Callback,
    *,
    cached: bool = True,
    save_every: float = SAVE_EVERY,
) -> Checkpoint:
    """Train, or resume the run in the folder (left alone if ended); return the best checkpoint.

    Each stage starts from the best epoch of the one before; the last stage's checkpoint is in
    `out`, the others' in `out/stage-N`. UnreadableInput if the folder holds another run; Diverged
    if the loss is not finite.

    Args:
        paths: of a checkpoint to start from, published weights and the feature cache.
        cached: use the feature cache; else the frozen image encoder runs at every step.
        save_every: seconds after which a checkpoint is written within an epoch too.
    """
    if distributed.size > 1:
        raise UnreadableInput(
            "torchrun",
            f"{recipe.system} trains in one process: a batch's targets are its negatives",
            "start hsfiq train without torchrun",
        )
    device = distributed.device
    precision(recipe.precision, device)  # refuse it before hours of caching
    checkpoint = None if paths.checkpoint is None else checkpoints.read(paths.checkpoint)
    if checkpoint is None:
        system = new_system(recipe, paths.weights)
    else:
        system = with_frozen_weights(checkpoint, recipe, paths.weights)
    cache = paths.cache if cached else None
    tokens, data = tokens_of(data, system.backbone, cache, distributed, callback)
    init_sha256 = None
    if checkpoint is not None:
        system.load(checkpoint)
        init_sha256 = checkpoint.sha256
    elif isinstance(system.backbone, TinyTowers | TinyQFormer):
        pretrain_on(data, system.backbone, tokens, paths.cache / BACKBONES, recipe, callback)
    system.to(device)
    write_missing(data, out)
    same = identity(recipe, data, system.backbone, init_sha256)
    data = with_fewer_triplets(data, recipe)
    for stage in recipe.stages:
        is_last = stage == recipe.stages[-1]
        path = out if is_last else out / f"stage-{stage.number}"
        callback.stage(stage.number, len(recipe.stages))
        folder = RunFolder(path, {**same, "stage": stage.number}, ABOUT)
        train_stage(system, stage, data, recipe, tokens, folder, device, callback, save_every)
        best = checkpoints.read(path)
        system.load(best)
    return best


def train_stage(
    system: System,
    stage: Stage,
    data: TrainingData,
    recipe: SystemRecipe,
    tokens: TokenSource,
    folder: RunFolder,
    device: torch.device,
    callback: Callback,
    save_every: float,
) -> None:
    callbacks = (callback, TensorBoard(folder.path / "tensorboard"))
    trainer = StageTrainer(
        system, stage, data, recipe, tokens, folder, device, callbacks, save_every
    )
    try:
        trainer.train()
    finally:
        for each in callbacks:
            each.close()


def pretrain_on(
    data: TrainingData,
    backbone: TinyTowers | TinyQFormer,
    tokens: TokenSource,
    folder: Path,
    recipe: SystemRecipe,
    callback: Callback,
) -> None:
    """Pre-train a small backbone on the drawn garments of the training split."""
    if data.name != "drawn":
        raise UnreadableInput(
            "backbone=tiny",
            "is pre-trained on the drawn catalogue alone",
            "use --data drawn, or the recipe's own backbone",
        )
    garments = [garment_of(image) for image in sorted(data.images)]
    chosen = [garment for garment in garments if target_split(garment) == "train"]
    load_pretrained(backbone, folder, chosen, tokens, recipe.seed, callback.pretraining)


def with_fewer_triplets(data: TrainingData, recipe: SystemRecipe) -> TrainingData:
    """The data with `recipe.triplets` of its training triplets, drawn from the recipe's seed."""
    if recipe.triplets is None or recipe.triplets >= len(data.train):
        return data
    order = torch.randperm(len(data.train), generator=generator(recipe.seed, "triplets"))
    kept = sorted(order[: recipe.triplets].tolist())
    return replace(data, train=tuple(data.train[row] for row in kept))
