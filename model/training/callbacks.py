"""What a training run calls as it progresses: the terminal, TensorBoard, a test."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from time import sleep, time
from typing import Any

from torch.utils.tensorboard import SummaryWriter

from hsfiq.model.data.triplets import TrainingData
from hsfiq.model.negatives.redefinition import Definition
from hsfiq.model.training.run_folder import Progress


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the optimiser; epochs and steps are counted from 0."""

    epoch: int
    index: int
    n_steps: int
    """Of the epoch."""
    n: int
    """Triplets in the batch, all processes together."""
    loss: float
    accuracy: float
    """The share of triplets whose target scored above its negative, or all its negatives."""


class Callback:
    """Follows a run; each method does nothing unless it is overridden."""

    def caching(self, done: int, n: int) -> None:
        """The features of `done` images of n have been computed."""

    def pretraining(self, done: int, n: int) -> None:
        """`done` of n epochs of a small backbone's pre-training have ended."""

    def stage(self, number: int, n: int) -> None:
        """Stage `number` of n, counted from 1, is about to begin."""

    def ranking(self, done: int, n: int) -> None:
        """The lists of `done` of n corpora are ranked."""

    def unreadable(self, reasons: Mapping[str, str], left: TrainingData) -> None:
        """Images that cannot be read, with the reason for each, and the data without them."""

    def started(self, progress: Progress, n_steps: int, n_epochs: int) -> None:
        """Training begins or resumes at `progress`; each of the epochs has `n_steps` steps."""

    def defined(self, definition: Definition) -> None:
        """The negative sets were defined or redefined."""

    def stepped(self, step: Step) -> None:
        """A step was taken."""

    def ended(self, epoch: dict[str, Any]) -> None:
        """An epoch ended; `epoch` is its line of the history."""

    def saving(self) -> None:
        """A checkpoint is about to be written; a resumed run does not repeat earlier calls."""

    def close(self) -> None:
        """The run ended, normally or with an error."""


class TensorBoard(Callback):
    """Writes what `tensorboard --logdir OUT` shows.

    Values are logged under the number of steps taken so far; negative sets, which are defined
    between two steps, under the first step that draws from them. So everything that a checkpoint
    covers has its number of steps or a lower one, and everything after it a higher one.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._step = 0
        self._writer: SummaryWriter | None = None  # opened when the first step is known

    def started(self, progress: Progress, n_steps: int, n_epochs: int) -> None:  # noqa: ARG002
        """Drop what an interrupted run logged after its last checkpoint."""
        self._step = progress.epoch * n_steps + progress.step
        wait_for_new_second(self._folder)
        self._writer = SummaryWriter(str(self._folder), purge_step=self._step + 1)

    def defined(self, definition: Definition) -> None:
        line = definition.to_json()
        for key in ("mean_size", "median_size", "n_fell_back"):
            self._add(f"negatives/{key}", line[key], self._step + 1)
        for key, value in (line["hardness"] or {}).items():
            self._add(f"negatives/{key}", value, self._step + 1)

    def stepped(self, step: Step) -> None:
        self._step += 1
        self._add("train/loss", step.loss, self._step)
        self._add("train/accuracy", step.accuracy, self._step)

    def ended(self, epoch: dict[str, Any]) -> None:
        self._add("train/lr", epoch["lr"], self._step)
        self._add("train/temperature", epoch["temperature"], self._step)
        for name, value in epoch["val"].items():
            self._add(f"val/{name}", value, self._step)

    def saving(self) -> None:
        """Write what the checkpoint covers: the process may be killed after it."""
        if self._writer is not None:
            self._writer.flush()

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()

    def _add(self, name: str, value: float, step: int) -> None:
        if self._writer is not None:
            self._writer.add_scalar(name, value, step)


def wait_for_new_second(folder: Path) -> None:
    """Wait, a second at most, until a new event file sorts after the existing ones.

    TensorBoard reads them in the order of their names, `events.out.tfevents.SECOND.HOST.PROCESS.N`:
    within one second, the file of a process with a lower number would come before the file of the
    run that it resumes.
    """
    seconds = {int(path.name.split(".")[3]) for path in folder.glob("events.out.tfevents.*")}
    now = time()
    if int(now) in seconds:
        sleep(int(now) + 1 - now)
