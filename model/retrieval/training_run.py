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
from hsfiq.model.retrieval.system_card import write_system_card
from hsfiq.model.retrieval.systems.registry import new_system
from hsfiq.model.retrieval.systems.system import System
from hsfiq.model.retrieval.training_loop import StageTrainer
from hsfiq.model.runtime.distributed import Distributed
from hsfiq.model.runtime.seeds import generator
from hsfiq.model.scorer.inference import precision
from hsfiq.model.training.callbacks import Callback, TensorBoard
from hsfiq.model.training.job import TrainingJob
from hsfiq.model.training.run import ABOUT, identity, tokens_of, write_missing
from hsfiq.model.training.run_folder import RunFolder

BACKBONES = "backbones"
"""The folder of pre-trained small backbones, in the cache."""


def train_system(recipe: SystemRecipe, job: TrainingJob) -> Checkpoint:
    """Train a system, or resume its run; return the best checkpoint.

    Each stage starts from the best epoch of the one before; the last stage's checkpoint is in
    `job.out`, the others' in `stage-N` there. UnreadableInput if the folder holds another run;
    Diverged if the loss is not finite.
    """
    refuse_processes(recipe, job.distributed)
    device = job.distributed.device
    precision(recipe.precision, device)  # refuse it before hours of caching
    initial = None if job.paths.checkpoint is None else checkpoints.read(job.paths.checkpoint)
    if initial is None:
        system = new_system(recipe, job.paths.weights)
    else:
        system = with_frozen_weights(initial, recipe, job.paths.weights)
    system.to(device)
    tokens, data = tokens_of(job.data, system.backbone, job.cache, job.distributed, job.callback)
    if initial is not None:
        system.load(initial)
    elif isinstance(system.backbone, TinyTowers | TinyQFormer):
        kept = job.paths.cache / BACKBONES
        pretrain_on(data, system.backbone.cpu(), tokens, kept, recipe, job.callback)
        system.to(device)
    write_missing(data, job.out)
    same = identity(recipe, data, system.backbone, initial.sha256 if initial else None)
    job = replace(job, data=with_fewer_triplets(data, recipe))
    for stage in recipe.stages:
        is_last = stage == recipe.stages[-1]
        path = job.out if is_last else job.out / f"stage-{stage.number}"
        job.callback.stage(stage.number, len(recipe.stages))
        folder = RunFolder(path, {**same, "stage": stage.number}, ABOUT)
        train_stage(system, stage, job, tokens, folder)
        best = checkpoints.read(path)
        write_system_card(best)
        system.load(best)
    return best


def refuse_processes(recipe: SystemRecipe, distributed: Distributed) -> None:
    if distributed.size > 1:
        raise UnreadableInput(
            "torchrun",
            f"{recipe.system} trains in one process: a batch's targets are its negatives",
            "start hsfiq train without torchrun",
        )


def train_stage(
    system: System, stage: Stage, job: TrainingJob, tokens: TokenSource, folder: RunFolder
) -> None:
    """Train one stage; `tokens` are the backbone's."""
    system.begin(stage.number)
    own_tokens = stage_tokens(system, job, tokens)
    callbacks = (job.callback, TensorBoard(folder.path / "tensorboard"))
    trainer = StageTrainer(system, stage, job, own_tokens, folder, callbacks)
    try:
        trainer.train()
    finally:
        for each in callbacks:
            each.close()


def stage_tokens(system: System, job: TrainingJob, tokens: TokenSource) -> TokenSource:
    """The tokens that the stage which has begun trains on."""
    encoder = system.training_encoder()
    if encoder is system.backbone:
        return tokens
    system.eval()
    return tokens_of(job.data, encoder, job.cache, job.distributed, job.callback)[0]


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
