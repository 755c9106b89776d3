"""The training loop of the scorers and of the retrieval systems.

`train` takes the epochs, and `train_epoch` the steps of one. What differs between trainings are the
methods at the end: the batches, the gradients of a batch's loss, and what a checkpoint holds.

Every random draw follows from the seed and its place in the run (`hsfiq.model.runtime`), and a
checkpoint holds everything else that the next step depends on. So a resumed run continues exactly
as an uninterrupted one, also in the middle of an epoch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from time import monotonic
from typing import Generic, Protocol, TypeVar

import torch
from torch import Tensor, nn

from hsfiq.model.checkpoints import Checkpoint
from hsfiq.model.data import Example, training_text
from hsfiq.model.encoders.encoder import Retriever
from hsfiq.model.image_tokens import TokenSource
from hsfiq.model.recipes import Recipe
from hsfiq.model.runtime import Diverged, prefetched, require_finite
from hsfiq.model.scorer import job
from hsfiq.model.scorer.inference import Inference, precision, validate
from hsfiq.model.scorer.scorer import trained_parameters
from hsfiq.model.system_recipes import Stage, SystemRecipe


class StepBatch(Protocol):
    @property
    def n(self) -> int:
        """Triplets of the step, all processes together."""


B = TypeVar("B", bound=StepBatch)


class Loop(ABC, Generic[B]):
    n_steps: int
    """Of an epoch."""

    def __init__(
        self,
        model: nn.Module,
        retriever: Retriever,
        recipe: Recipe | SystemRecipe,
        stage: Recipe | Stage,
        training: job.TrainingJob,
        tokens: TokenSource,
        folder: job.RunFolder,
        own_lr: Mapping[str, float] | None = None,
    ) -> None:
        """Prepare to train what requires gradients in `model`, on the device of `training`.

        Args:
            retriever: the part of the model that ranks images, for validation.
            stage: has the number of epochs, their learning rates and the weight decay.
            own_lr: as for `Optimizer`.
        """
        self.model, self.retriever, self.recipe, self.stage = model, retriever, recipe, stage
        self.data, self.tokens, self.folder = training.data, tokens, folder
        self.distributed, self.save_every = training.distributed, training.save_every
        self.callbacks: Sequence[job.Callback] = ()
        if self.distributed.is_first:
            self.callbacks = (training.callback, job.TensorBoard(folder.path / "tensorboard"))
        self.parameters = trained_parameters(model)
        device = self.distributed.device
        self.dtype = precision(recipe.precision, device)
        self.optimizer = job.Optimizer(
            self.parameters, recipe, stage.weight_decay, device, self.dtype, own_lr
        )
        self.inference = Inference(retriever, tokens, self.distributed)
        self.progress = job.Progress()
        self.saved_at = monotonic()

    def train(self) -> None:
        """Train to the last epoch; Diverged leaves the last checkpoint sound."""
        try:
            if self.progress.epoch < self.stage.epochs:
                for callback in self.callbacks:
                    callback.started(self.progress, self.n_steps, self.stage.epochs)
                with self.divergence_explained():
                    while self.progress.epoch < self.stage.epochs:
                        self.train_epoch()
                self.distributed.wait()  # until the first process has written the last checkpoint
        finally:
            for callback in self.callbacks:
                callback.close()

    def train_epoch(self) -> None:
        """Train on every triplet once, from the next step on, and validate."""
        epoch = self.progress.epoch
        batches = self.batches(epoch, self.progress.step)
        self.model.train()
        with closing(prefetched(batches)) as ahead:
            for batch in ahead:
                step = self.progress.step
                torch.manual_seed(self.seed(epoch, step))  # for dropout
                self.optimizer.set_lr(self.stage.lr_at(epoch, step, self.n_steps))
                figures = self.gradients(batch)  # [2]
                self.optimizer.step()
                loss, accuracy = figures.tolist()
                for callback in self.callbacks:
                    callback.stepped(job.Step(epoch, step, self.n_steps, batch.n, loss, accuracy))
                self.progress.count(batch.n, loss, accuracy)
                is_due = monotonic() - self.saved_at > self.save_every
                if is_due and self.progress.step < self.n_steps:
                    self.save()
        require_finite(self.parameters)
        self.progress.end_epoch(
            lr=self.stage.lr_at(epoch, self.n_steps - 1, self.n_steps),
            temperature=self.temperature(),
            val=validate(self.data, self.recipe, self.inference),
        )
        for callback in self.callbacks:
            callback.ended(self.progress.epochs[-1])
        self.save()

    def save(self) -> None:
        """Write a checkpoint, in the first process; Diverged if a weight is not finite.

        The processes' clocks may disagree on whether one is due; the others wait for the first one
        at their next exchange.
        """
        if self.distributed.is_first:
            require_finite(self.parameters)
            for callback in self.callbacks:
                callback.saving()
            state = {**self.optimizer.tensors(), **self.state()}
            self.folder.save(self.progress, self.weights(), state)
        self.saved_at = monotonic()

    def restore(self) -> None:
        """Continue the run in the folder, if there is one.

        UnreadableInput if it is another run, or its checkpoint is broken.
        """
        checkpoint = self.folder.last()
        if checkpoint is None:
            return
        self.progress = job.Progress(**checkpoint.about["progress"])
        self.load(checkpoint)
        state = checkpoint.tensors("state")
        self.optimizer.load(state)
        self.load_state(state)

    @contextmanager
    def divergence_explained(self) -> Iterator[None]:
        """Add to a divergence the epoch and step, which checkpoint is kept, and what may help."""
        try:
            yield
        except Diverged as error:
            kept = "no checkpoint was written"
            if self.folder.last() is not None:
                kept = "the last checkpoint is intact"
            advice = "try a lower lr, clip_norm=1, or precision=fp32"
            raise Diverged(f"{self.place()}: {error}; {kept}; {advice}") from error

    def texts(self, triplets: Sequence[Example], draws: Sequence[float]) -> list[str]:
        """A text for each triplet, which a number drawn from [0, 1) makes of its captions."""
        return [
            self.retriever.clean_text(training_text(triplet.captions, self.recipe.captions, u))
            for triplet, u in zip(triplets, draws, strict=True)
        ]

    def place(self) -> str:
        return f"epoch {self.progress.epoch}, step {self.progress.step}"

    @abstractmethod
    def seed(self, epoch: int, step: int) -> int:
        """The seed of a step's random draws in this process; epochs and steps count from 0."""

    @abstractmethod
    def batches(self, epoch: int, first: int) -> Iterator[B]:
        """This process's share of each batch of an epoch, from step `first` on.

        The batches are made in another thread, each while the one before it is trained on.
        """

    @abstractmethod
    def gradients(self, batch: B) -> Tensor:
        """Add the gradients of the batch's loss to the parameters; Diverged if it is not finite.

        The result is [2] float32, over the batches of all processes: the mean loss, and the share
        of targets that scored above their negatives.
        """

    @abstractmethod
    def temperature(self) -> float:
        """The temperature of the loss as it is now."""

    @abstractmethod
    def weights(self) -> Mapping[str, Tensor]:
        """The weights that a checkpoint holds."""

    @abstractmethod
    def load(self, checkpoint: Checkpoint) -> None:
        """Take the weights of a checkpoint."""

    def state(self) -> Mapping[str, Tensor]:
        """What a checkpoint also holds to resume the run, besides the optimiser's state."""
        return {}

    def load_state(self, tensors: Mapping[str, Tensor]) -> None:
        """Take what `state` gave."""
