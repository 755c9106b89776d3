"""Training a retrieval system from end to end: backbone, tokens, stages, checkpoints."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from time import monotonic

import torch
from torch import Tensor

from hsfiq.drawn import garment_of
from hsfiq.drawn.triplets import target_split
from hsfiq.errors import UnreadableInput
from hsfiq.model import checkpoints
from hsfiq.model.checkpoints import Checkpoint
from hsfiq.model.data import Example, TrainingData, training_text, training_texts
from hsfiq.model.features import TokenSource
from hsfiq.model.retrieval.loading import new_system, with_frozen_weights
from hsfiq.model.retrieval.system import Batch, Losses, System
from hsfiq.model.retrieval.system_card import write_system_card
from hsfiq.model.retrieval.tiny import TinyQFormer, TinyTowers, load_pretrained
from hsfiq.model.runtime import (
    Distributed,
    Diverged,
    generator,
    prefetched,
    require_finite,
    seed_for,
    staged,
)
from hsfiq.model.scorer.inference import Inference, autocast, precision
from hsfiq.model.scorer.job import (
    Callback,
    Optimizer,
    Progress,
    RunFolder,
    Step,
    TensorBoard,
    TrainingJob,
)
from hsfiq.model.scorer.run import ABOUT, identity, tokens_of, write_missing
from hsfiq.model.scorer.training import validate
from hsfiq.model.system_recipes import Stage, SystemRecipe

# The training loop of the retrieval systems: one stage, in which targets are in-batch negatives.
#
# Every epoch trains on each triplet once. Random draws follow from the seed and their place in the
# run, so a resumed run continues exactly as an uninterrupted one.


class StageTrainer:
    def __init__(
        self,
        system: System,
        stage: Stage,
        job: TrainingJob,
        tokens: TokenSource,
        folder: RunFolder,
        callbacks: Sequence[Callback],
    ) -> None:
        """Start the stage that the system has begun, or resume the one in `folder`.

        UnreadableInput if the folder holds another run, or a broken checkpoint.
        """
        self.system, self.stage, self.recipe = system, stage, system.recipe
        self.data, self.tokens, self.folder, self.callbacks = job.data, tokens, folder, callbacks
        self.device = device = job.distributed.device
        system.before_training()
        self.parameters = {
            name: parameter
            for name, parameter in system.named_parameters()
            if parameter.requires_grad
        }
        self.dtype = precision(self.recipe.precision, device)
        self.inference = Inference(system, tokens, Distributed(device))
        self.optimizer = Optimizer(
            self.parameters,
            self.recipe,
            stage.weight_decay,
            device,
            self.dtype,
            system.own_lr(),
        )
        self.progress = Progress()
        self.restore()
        system.keep_texts(self.training_texts())
        self.save_every, self.saved_at = job.save_every, monotonic()

    @property
    def n_steps(self) -> int:
        """Steps of an epoch: the last batch is left out if it is not full."""
        return max(len(self.data.train) // self.stage.batch, 1)

    def train(self) -> None:
        """Train to the stage's last epoch; Diverged leaves the last checkpoint sound."""
        if self.progress.epoch == self.stage.epochs:
            return
        for callback in self.callbacks:
            callback.started(self.progress, self.n_steps, self.stage.epochs)
        while self.progress.epoch < self.stage.epochs:
            self.train_epoch()

    def train_epoch(self) -> None:
        """Train on every triplet once, from the next step on, and validate."""
        epoch = self.progress.epoch
        self.system.train()
        with closing(prefetched(self.batches(epoch, self.progress.step))) as batches:
            for batch in batches:
                loss, accuracy = self.step(batch)
                n = len(batch.texts)
                step = Step(epoch, self.progress.step, self.n_steps, n, loss, accuracy)
                for callback in self.callbacks:
                    callback.stepped(step)
                self.progress.count(n, loss, accuracy)
                due = monotonic() - self.saved_at > self.save_every
                if due and self.progress.step < self.n_steps:
                    self.save()
        require_finite(self.parameters)
        self.progress.end_epoch(
            lr=self.stage.lr_at(epoch, self.n_steps - 1, self.n_steps),
            temperature=self.system.loss_temperature() or self.recipe.temperature,
            val=validate(self.data, self.recipe, self.inference),
        )
        for callback in self.callbacks:
            callback.ended(self.progress.epochs[-1])
        self.save()

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
        tokens = staged(self.tokens.tokens(images), self.device)
        references, targets = tokens.chunk(2)  # [B, P, W] each
        return Batch(
            triplet_ids=[example.triplet_id for example in triplets],
            texts=self.texts(triplets, captions[:, 0].tolist()),
            reversed_texts=self.texts(triplets, captions[:, 1].tolist()),
            references=references,
            targets=targets,
        )

    def texts(self, triplets: Sequence[Example], draws: Sequence[float]) -> list[str]:
        return [
            self.system.clean_text(training_text(example.captions, self.recipe.captions, u))
            for example, u in zip(triplets, draws, strict=True)
        ]

    def training_texts(self) -> list[str]:
        """Every text of the epochs' batches, in any order."""
        rule = self.recipe.captions
        return [
            self.system.clean_text(text)
            for example in self.data.train
            for text in training_texts(example.captions, rule)
        ]

    def step(self, batch: Batch) -> tuple[float, float]:
        """Take one step of the optimiser; Diverged if the loss is not finite.

        The result is the loss, and the share of queries whose own target is the best of the batch.
        """
        epoch, step = self.progress.epoch, self.progress.step
        torch.manual_seed(seed_for(self.recipe.seed, "step", self.stage.number, epoch, step))
        self.optimizer.set_lr(self.stage.lr_at(epoch, step, self.n_steps))
        with autocast(self.device, self.dtype):
            losses: Losses = self.system.losses(batch.to(self.device))
        loss = torch.stack([term.float() for term in losses.terms.values()]).sum()  # []
        if not loss.isfinite():
            wrong = [name for name, term in losses.terms.items() if not term.isfinite()]
            raise Diverged(
                f"stage {self.stage.number}, epoch {epoch}, step {step}: the loss is not finite, "
                f"first in {', '.join(wrong)}; try a lower lr, clip_norm=1, or precision=fp32"
            )
        self.optimizer.backward(loss)
        self.optimizer.step()
        own = torch.arange(len(losses.logits), device=losses.logits.device)  # [B]
        accuracy = (losses.logits.argmax(dim=1) == own).float().mean()
        return loss.item(), accuracy.item()

    def save(self) -> None:
        """Write a checkpoint; Diverged if a weight is not finite."""
        require_finite(self.parameters)
        for callback in self.callbacks:
            callback.saving()
        self.folder.save(self.progress, self.system.stored_weights(), self.optimizer.tensors())
        self.saved_at = monotonic()

    def restore(self) -> None:
        checkpoint = self.folder.last()
        if checkpoint is None:
            return
        self.progress = Progress(**checkpoint.about["progress"])
        self.system.load(checkpoint)
        self.optimizer.load(checkpoint.tensors("state"))


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
