"""What a person sees of a training run: a live bar on a terminal, a line an epoch elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)

from hsfiq.model.data.triplets import TrainingData, missing_lines
from hsfiq.model.negatives.redefinition import Definition
from hsfiq.model.training.callbacks import Step, Watcher
from hsfiq.model.training.folder import Progress as RunProgress

RECENT = 0.9
"""Of the running means' weight on what was before the last step."""

NAMED = 5
"""Unreadable images that are named on the terminal."""


class TrainingBar(Watcher):
    """Loss, accuracy of pairs, size of the negative sets and time left."""

    def __init__(self, epochs: int, say: Callable[[str], None], *, speaks: bool = True) -> None:
        """Follow a run of so many epochs.

        Args:
            epochs: of the whole run.
            say: writes a line that stays.
            speaks: whether this process is the one that does.
        """
        console = Console(stderr=True)
        self._live = speaks and sys.stderr.isatty()
        # What is in brackets in a file's name is no markup.
        aloud = partial(console.print, markup=False, highlight=False, soft_wrap=True)
        self._say: Callable[[str], None] = aloud if self._live else say
        self._epochs = epochs
        self._negatives = 0.0
        self._means: tuple[float, float] | None = None
        self._task: TaskID | None = None
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=console,
            disable=not self._live,
            transient=True,
        )

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def caching(self, done: int, n: int) -> None:
        """Images whose features were computed."""
        self._show(f"features of {n:,} images", done, n)

    def unreadable(self, reasons: Mapping[str, str], left: TrainingData) -> None:
        """The first reasons, and what is left out."""
        for reason in list(reasons.values())[:NAMED]:
            self._say(reason)
        if len(reasons) > NAMED:
            self._say(f"and {len(reasons) - NAMED:,} images more that cannot be read")
        for line in missing_lines(left):
            self._say(line)

    def started(self, progress: RunProgress, n_steps: int) -> None:
        """Steps of the whole run."""
        if progress.epoch or progress.step:
            self._say(f"going on at epoch {progress.epoch}, step {progress.step}")
        done = progress.epoch * n_steps + progress.step
        self._show("training", done, self._epochs * n_steps)

    def defined(self, definition: Definition) -> None:
        """How large the negative sets are now."""
        about = definition.to_json()
        self._negatives = about["mean_size"]
        fell_back = f", {about['n_fell_back']:,} fell back" if about["n_fell_back"] else ""
        self._say(
            f"epoch {about['epoch']}: negatives are {about['rule']}; "
            f"{about['mean_size']:.1f} a query on average{fell_back}"
        )

    def stepped(self, step: Step) -> None:
        """Running means, and where the run is."""
        if self._means is None:
            self._means = (step.loss, step.accuracy)
        loss, accuracy = (
            RECENT * mean + (1 - RECENT) * new
            for mean, new in zip(self._means, (step.loss, step.accuracy), strict=True)
        )
        self._means = (loss, accuracy)
        what = (
            f"epoch {step.epoch} loss {loss:.4f} accuracy {accuracy:.3f} "
            f"negatives {self._negatives:.0f}"
        )
        self._show(what, step.epoch * step.n_steps + step.index + 1, self._epochs * step.n_steps)

    def ended(self, epoch: dict[str, Any]) -> None:
        """The epoch's line."""
        recalls = ", ".join(f"{k} {v:.4f}" for k, v in epoch["val"].items() if k != "mean")
        self._say(
            f"epoch {epoch['epoch']}: loss {epoch['loss']:.4f}, accuracy of pairs "
            f"{epoch['accuracy']:.4f}, {recalls}"
        )

    def _show(self, what: str, done: int, n: int) -> None:
        if self._task is None or self._bar.tasks[0].total != n:
            for task in self._bar.task_ids:
                self._bar.remove_task(task)
            self._task = self._bar.add_task(what, total=n)
        self._bar.update(self._task, description=what, completed=done)
