"""The training loop of the retrieval systems: one stage, in which targets are in-batch negatives.

Every epoch trains on each triplet once. Random draws follow from the seed and their place in the
run, so a resumed run continues exactly as an uninterrupted one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from time import monotonic

import torch
from torch import Tensor

from hsfiq.model.data.texts import training_text, training_texts
from hsfiq.model.data.triplets import Example
from hsfiq.model.features.tokens import TokenSource
from hsfiq.model.recipes.system_recipe import Stage
from hsfiq.model.retrieval.systems.batch import Batch, Losses
from hsfiq.model.retrieval.systems.system import System
from hsfiq.model.runtime.diagnosis import Diverged, require_finite
from hsfiq.model.runtime.distributed import Distributed
from hsfiq.model.runtime.prefetch import prefetched
from hsfiq.model.runtime.seeds import generator, seed_for
from hsfiq.model.runtime.transfer import staged
from hsfiq.model.scorer.inference import Inference, autocast, precision
from hsfiq.model.training.callbacks import Callback, Step
from hsfiq.model.training.job import TrainingJob
from hsfiq.model.training.optimizer import Optimizer
from hsfiq.model.training.run_folder import Progress, RunFolder
from hsfiq.model.training.validation import validate


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
