"""The progress of a training run: a live bar on a terminal, elsewhere one line per epoch."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
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

from hsfiq.cli import QUIET
from hsfiq.cli.common import job_progress, note
from hsfiq.model.data import TrainingData, missing_lines
from hsfiq.model.scorer.job import Callback, Step
from hsfiq.model.scorer.job import Progress as RunProgress
from hsfiq.model.scorer.negatives import Definition
from hsfiq.text import without_controls

RECENT = 0.9
"""The weight of the earlier steps in the running means."""

NAMED = 5
"""The most unreadable images that are named on the terminal."""


class TrainingBar(Callback):
    """Shows the loss, the training accuracy, the negative sets' sizes and the remaining time."""

    def __init__(self, *, is_visible: bool = True) -> None:
        console = Console(stderr=True)
        self._live = is_visible and sys.stderr.isatty() and not QUIET.get()

        def above_bar(text: str) -> None:  # brackets in a file's name are not markup
            text = without_controls(text)
            console.print(text, markup=False, highlight=False, soft_wrap=True)

        line = note if is_visible else lambda _: None
        self._echo: Callable[[str], None] = above_bar if self._live else line
        self._epochs = 0
        self._negatives: float | None = None
        self._means: tuple[float, float] | None = None
        self._task: TaskID | None = None
        self._job = job_progress() if is_visible else None
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
        self._show(f"features of {n:,} images", done, n)

    def pretraining(self, done: int, n: int) -> None:
        self._show("pre-training the small backbone", done, n)

    def stage(self, number: int, n: int) -> None:
        self._means = None
        if n > 1:
            self._echo(f"stage {number} of {n}")

    def ranking(self, done: int, n: int) -> None:
        self._show("ranking", done, n)

    def retraining(self, done: int, n: int) -> None:
        self._show("retraining", done, n)

    def judging(self, done: int, n: int) -> None:
        self._show("answers of the judge", done, n)

    def unreadable(self, reasons: Mapping[str, str], left: TrainingData) -> None:
        for reason in list(reasons.values())[:NAMED]:
            self._echo(reason)
        if len(reasons) > NAMED:
            self._echo(f"and {len(reasons) - NAMED:,} more unreadable images")
        for line in missing_lines(left):
            self._echo(line)

    def started(self, progress: RunProgress, n_steps: int, n_epochs: int) -> None:
        self._epochs = n_epochs
        if progress.epoch or progress.step:
            self._echo(f"resuming at epoch {progress.epoch}, step {progress.step}")
        done = progress.epoch * n_steps + progress.step
        self._show("training", done, self._epochs * n_steps)

    def defined(self, definition: Definition) -> None:
        line = definition.to_json()
        self._negatives = line["mean_size"]
        fell_back = f", {line['n_fell_back']:,} fell back" if line["n_fell_back"] else ""
        self._echo(
            f"epoch {line['epoch']}: negatives: {line['rule']}; "
            f"{line['mean_size']:.1f} per query on average{fell_back}"
        )
        hardness = definition.hardness
        if hardness is not None and hardness.is_easier_than_random:
            self._echo(
                f"warning: epoch {line['epoch']}: the negatives are easier than random images "
                f"(mean gradient weight {hardness.mean_weight:.3f}, of random images "
                f"{hardness.random_weight:.3f}); see Hardness of negatives in docs/guides/scorer.md"
            )

    def stepped(self, step: Step) -> None:
        if self._means is None:
            self._means = (step.loss, step.accuracy)
        loss, accuracy = (
            RECENT * mean + (1 - RECENT) * new
            for mean, new in zip(self._means, (step.loss, step.accuracy), strict=True)
        )
        self._means = (loss, accuracy)
        description = f"epoch {step.epoch} loss {loss:.4f} accuracy {accuracy:.3f}"
        if self._negatives is not None:  # else they are in the batch
            description += f" negatives {self._negatives:.0f}"
        self._show(
            description, step.epoch * step.n_steps + step.index + 1, self._epochs * step.n_steps
        )

    def ended(self, epoch: dict[str, Any]) -> None:
        recalls = ", ".join(f"{k} {v:.4f}" for k, v in epoch["val"].items() if k != "mean")
        self._echo(
            f"epoch {epoch['epoch']}: loss {epoch['loss']:.4f}, training accuracy "
            f"{epoch['accuracy']:.4f}, {recalls}"
        )

    def _show(self, description: str, done: int, n: int) -> None:
        if self._job is not None:
            self._job.tell(description, done, n)
        if self._task is None or self._bar.tasks[0].total != n:
            for task in self._bar.task_ids:
                self._bar.remove_task(task)
            self._task = self._bar.add_task(description, total=n)
        self._bar.update(self._task, description=description, completed=done)
