"""Training a retrieval system from end to end: backbone, tokens, stages, checkpoints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from hsfiq.drawn import garment_of
from hsfiq.drawn.triplets import target_split
from hsfiq.errors import UnreadableInput
from hsfiq.model import checkpoints
from hsfiq.model.checkpoints import Checkpoint
from hsfiq.model.data import TrainingData, training_texts
from hsfiq.model.image_tokens import TokenSource
from hsfiq.model.retrieval.loading import new_system, with_frozen_weights
from hsfiq.model.retrieval.system import Batch, Losses, System
from hsfiq.model.retrieval.system_card import write_system_card
from hsfiq.model.retrieval.tiny import TinyQFormer, TinyTowers, load_pretrained
from hsfiq.model.runtime import Distributed, Diverged, generator, seed_for, staged
from hsfiq.model.scorer.inference import autocast, precision
from hsfiq.model.scorer.job import Callback, RunFolder, TrainingJob
from hsfiq.model.scorer.loop import Loop
from hsfiq.model.scorer.run import ABOUT, identity, tokens_of, write_missing
from hsfiq.model.system_recipes import Stage, SystemRecipe

# One stage of a training, in which a batch's targets are its negatives.


class StageTrainer(Loop[Batch]):
    recipe: SystemRecipe
    stage: Stage

    def __init__(
        self,
        system: System,
        stage: Stage,
        job: TrainingJob,
        tokens: TokenSource,
        folder: RunFolder,
    ) -> None:
        """Start the stage that the system has begun, or resume the one in `folder`.

        UnreadableInput if the folder holds another run, or a broken checkpoint.
        """
        system.before_training()
        recipe, own_lr = system.recipe, system.own_lr()
        super().__init__(system, system, recipe, stage, job, tokens, folder, own_lr)
        self.system = system
        # The last batch is left out if it is not full.
        self.n_steps = max(len(self.data.train) // stage.batch, 1)
        self.restore()
        system.keep_texts(self.training_texts())

    def place(self) -> str:
        return f"stage {self.stage.number}, {super().place()}"

    def seed(self, epoch: int, step: int) -> int:
        return seed_for(self.recipe.seed, "step", self.stage.number, epoch, step)

    def batches(self, epoch: int, first: int) -> Iterator[Batch]:
        """The batches of an epoch, from step `first` on."""
        n, seed = len(self.data.train), self.recipe.seed
        place = (self.stage.number, epoch)
        order = torch.randperm(n, generator=generator(seed, "order", *place))  # [Q]
        captions = torch.rand(n, 2, generator=generator(seed, "captions", *place))  # [Q, 2]
        for step in range(first, self.n_steps):
            rows = order[step * self.stage.batch : (step + 1) * self.stage.batch]  # [B]
            yield self.read(rows, captions[rows])

    def read(self, rows: Tensor, captions: Tensor) -> Batch:
        """Read the training triplets `rows` [B]; uniform `captions` [B, 2] choose their texts."""
        triplets = [self.data.train[row] for row in rows.tolist()]
        images = [example.reference for example in triplets]
        images += [example.target for example in triplets]
        tokens = staged(self.tokens.tokens(images), self.distributed.device)
        references, targets = tokens.chunk(2)  # [B, P, W] each
        return Batch(
            triplet_ids=[example.triplet_id for example in triplets],
            texts=self.texts(triplets, captions[:, 0].tolist()),
            reversed_texts=self.texts(triplets, captions[:, 1].tolist()),
            references=references,
            targets=targets,
        )

    def training_texts(self) -> list[str]:
        """Every text of the epochs' batches, in any order."""
        rule = self.recipe.captions
        return [
            self.system.clean_text(text)
            for example in self.data.train
            for text in training_texts(example.captions, rule)
        ]

    def gradients(self, batch: Batch) -> Tensor:
        with autocast(self.distributed.device, self.dtype):
            losses: Losses = self.system.losses(batch.to(self.distributed.device))
        loss = torch.stack([term.float() for term in losses.terms.values()]).sum()  # []
        if not loss.isfinite():
            wrong = [name for name, term in losses.terms.items() if not term.isfinite()]
            raise Diverged(f"the loss is not finite, first in {', '.join(wrong)}")
        self.optimizer.backward(loss)
        own = torch.arange(len(losses.logits), device=losses.logits.device)  # [B]
        accuracy = (losses.logits.argmax(dim=1) == own).float().mean()  # []
        return torch.stack([loss.detach(), accuracy])

    def temperature(self) -> float:
        return self.system.loss_temperature() or self.recipe.temperature

    def weights(self) -> Mapping[str, Tensor]:
        return self.system.stored_weights()

    def load(self, checkpoint: Checkpoint) -> None:
        self.system.load(checkpoint)


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
    StageTrainer(system, stage, job, stage_tokens(system, job, tokens), folder).train()


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
