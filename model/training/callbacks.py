"""Who follows a training run: the terminal, TensorBoard, a test."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from time import sleep, time
from typing import Any

from torch.utils.tensorboard import SummaryWriter

from hsfiq.model.data.triplets import TrainingData
from hsfiq.model.negatives.redefinition import Definition
from hsfiq.model.training.folder import Progress


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the optimiser: what it was computed from and what came out."""

    epoch: int
    index: int
    """In its epoch, from 0."""
    n_steps: int
    """Of the epoch."""
    n: int
    """Triplets in the batch, all processes together."""
    loss: float
    accuracy: float
    """Share of the batch's targets scored above their negatives."""


class Watcher:
    """Hears of a run's progress; each method does nothing unless it is overridden."""

    def caching(self, done: int, n: int) -> None:
        """So many images of n have their tokens."""

    def unreadable(self, reasons: Mapping[str, str], left: TrainingData) -> None:
        """Images that cannot be read, with the reason for each, and the data without them."""

    def started(self, progress: Progress, n_steps: int) -> None:
        """Training begins, or goes on, from there; each epoch has so many steps."""

    def defined(self, definition: Definition) -> None:
        """The negative sets were defined anew."""

    def stepped(self, step: Step) -> None:
        """A step was taken."""

    def ended(self, epoch: dict[str, Any]) -> None:
        """An epoch ended; this is its line of the history."""

    def saving(self) -> None:
        """A checkpoint is about to be written: nobody will be told again of what was before."""

    def close(self) -> None:
        """The run ended, whether well or not."""


class TensorBoard(Watcher):
    """Writes what `tensorboard --logdir OUT` shows.

    Everything is logged under the number of steps taken so far; negative sets, which are defined
    between two steps, under that of the first that draws from them. So what a checkpoint knows of
    has its number or a lower one, and what came after it a higher one.
    """

    def __init__(self, folder: Path) -> None:
        """Log to a folder."""
        self._folder = folder
        self._step = 0
        self._writer: SummaryWriter | None = None  # opened when it is known where the log goes on

    def started(self, progress: Progress, n_steps: int) -> None:
        """Drop what an earlier try logged beyond the checkpoint."""
        self._step = progress.epoch * n_steps + progress.step
        wait_for_the_next_name(self._folder)
        self._writer = SummaryWriter(str(self._folder), purge_step=self._step + 1)

    def defined(self, definition: Definition) -> None:
        """QuRe Figure 5: how large the sets are."""
        about = definition.to_json()
        for key in ("mean_size", "median_size", "n_fell_back"):
            self._add(f"negatives/{key}", about[key], self._step + 1)

    def stepped(self, step: Step) -> None:
        """Loss and accuracy of every step."""
        self._step += 1
        self._add("train/loss", step.loss, self._step)
        self._add("train/accuracy", step.accuracy, self._step)

    def ended(self, epoch: dict[str, Any]) -> None:
        """The epoch's own figures."""
        self._add("train/lr", epoch["lr"], self._step)
        self._add("train/temperature", epoch["temperature"], self._step)
        for name, value in epoch["val"].items():
            self._add(f"val/{name}", value, self._step)

    def saving(self) -> None:
        """What the checkpoint knows of must not be lost with this process."""
        if self._writer is not None:
            self._writer.flush()

    def _add(self, name: str, value: float, step: int) -> None:
        if self._writer is not None:
            self._writer.add_scalar(name, value, step)

    def close(self) -> None:
        """Write what is still in memory."""
        if self._writer is not None:
            self._writer.close()


def wait_for_the_next_name(folder: Path) -> None:
    """Wait, a second at most, until a new file of events is read after those that are there.

    They are read in the order of their names, `events.out.tfevents.SECOND.HOST.PROCESS.NUMBER`:
    within one second a process of a lower number would come before the one that it goes on for.
    """
    seconds = {int(path.name.split(".")[3]) for path in folder.glob("events.out.tfevents.*")}
    now = time()
    if int(now) in seconds:
        sleep(int(now) + 1 - now)


class Watchers(Watcher):
    """Several at once."""

    def __init__(self, *watchers: Watcher) -> None:
        self._watchers = watchers

    def caching(self, done: int, n: int) -> None:
        """Pass it on."""
        for one in self._watchers:
            one.caching(done, n)

    def unreadable(self, reasons: Mapping[str, str], left: TrainingData) -> None:
        """Pass it on."""
        for one in self._watchers:
            one.unreadable(reasons, left)

    def started(self, progress: Progress, n_steps: int) -> None:
        """Pass it on."""
        for one in self._watchers:
            one.started(progress, n_steps)

    def defined(self, definition: Definition) -> None:
        """Pass it on."""
        for one in self._watchers:
            one.defined(definition)

    def stepped(self, step: Step) -> None:
        """Pass it on."""
        for one in self._watchers:
            one.stepped(step)

    def ended(self, epoch: dict[str, Any]) -> None:
        """Pass it on."""
        for one in self._watchers:
            one.ended(epoch)

    def saving(self) -> None:
        """Pass it on."""
        for one in self._watchers:
            one.saving()

    def close(self) -> None:
        """Pass it on."""
        for one in self._watchers:
            one.close()
