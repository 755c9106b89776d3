"""The inputs, log and progress of any training run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from time import sleep, time
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.utils.tensorboard import SummaryWriter

from hsfiq.errors import UnreadableInput
from hsfiq.model import checkpoints
from hsfiq.model.checkpoints import BEST, LAST, Checkpoint
from hsfiq.model.data import TrainingData
from hsfiq.model.runtime import Distributed
from hsfiq.model.scorer.loading import ScorerPaths
from hsfiq.model.scorer.negatives import Definition

# AdamW over the trained parameters, in mixed precision, and its state as tensors.

_MOMENTS = ("step", "exp_avg", "exp_avg_sq")
_SCALE = "scaler"


def new_scaler(device: torch.device, *, enabled: bool) -> torch.amp.GradScaler:
    if hasattr(torch.amp, "GradScaler"):
        return torch.amp.GradScaler(device.type, enabled=enabled)
    return torch.cuda.amp.GradScaler(enabled=enabled)


def select(parameters: Mapping[str, nn.Parameter], prefix: str) -> list[nn.Parameter]:
    return [parameter for name, parameter in parameters.items() if name.startswith(prefix)]


class Settings(Protocol):
    """The optimiser's values, as recipes hold them."""

    @property
    def betas(self) -> tuple[float, float]: ...

    @property
    def eps(self) -> float: ...

    @property
    def clip_norm(self) -> float | None: ...


class Optimizer:
    """AdamW (Loshchilov and Hutter, arXiv 1711.05101) as the recipe sets it."""

    def __init__(
        self,
        parameters: Mapping[str, nn.Parameter],
        settings: Settings,
        weight_decay: float,
        device: torch.device,
        dtype: torch.dtype,
        own_lr: Mapping[str, float] | None = None,
    ) -> None:
        """Optimize parameters by name; `own_lr` has constant learning rates by a name's prefix."""
        self._parameters = parameters
        self._clip_norm = settings.clip_norm
        own_lr = own_lr or {}
        others = [
            parameter
            for name, parameter in parameters.items()
            if not name.startswith(tuple(own_lr))
        ]
        groups: list[dict[str, Any]] = [{"params": others}]
        for prefix, lr in own_lr.items():
            groups.append({"params": select(parameters, prefix), "lr": lr})
        self._adamw = torch.optim.AdamW(
            groups, betas=settings.betas, eps=settings.eps, weight_decay=weight_decay
        )
        # fp16 cannot represent the smallest gradients: the loss is scaled up, as in QuRe's code.
        self._scaler = new_scaler(device, enabled=dtype == torch.float16)

    def set_lr(self, lr: float) -> None:
        """Set the learning rate of all parameters that have none of their own."""
        self._adamw.param_groups[0]["lr"] = lr

    def backward(self, loss: Tensor) -> None:
        self._scaler.scale(loss).backward()  # type: ignore[no-untyped-call]

    def step(self) -> None:
        """Update the parameters; fp16 gradients that overflowed only lower the scale."""
        self._scaler.unscale_(self._adamw)
        if self._clip_norm is not None:
            nn.utils.clip_grad_norm_(list(self._parameters.values()), self._clip_norm)
        self._scaler.step(self._adamw)
        self._scaler.update()
        self._adamw.zero_grad()

    def tensors(self) -> dict[str, Tensor]:
        moments = {
            f"{key}.{name}": self._adamw.state[parameter][key]
            for name, parameter in self._parameters.items()
            if parameter in self._adamw.state
            for key in _MOMENTS
        }
        if not self._scaler.is_enabled():
            return moments
        state = self._scaler.state_dict()
        scale = torch.tensor([state["scale"], state["_growth_tracker"]], dtype=torch.float64)
        return {**moments, _SCALE: scale}

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        for name, parameter in self._parameters.items():
            if f"step.{name}" in tensors:
                # AdamW counts its steps on the CPU, whatever device the parameter is on.
                self._adamw.state[parameter] = {
                    key: tensors[f"{key}.{name}"].to("cpu" if key == "step" else parameter.device)
                    for key in _MOMENTS
                }
        if self._scaler.is_enabled() and _SCALE in tensors:
            scale, growth = tensors[_SCALE].tolist()
            state = self._scaler.state_dict()
            self._scaler.load_state_dict({**state, "scale": scale, "_growth_tracker": int(growth)})


# The folder of a training run: `last.json`, `best.json` and their tensors.


@dataclass
class Progress:
    """The progress of a run: the part of its last checkpoint that is not tensors."""

    epoch: int = 0
    """The current or next epoch, from 0."""
    step: int = 0
    """The next step of that epoch."""
    n: int = 0
    """Triplets of the epoch so far; the next two are sums over them."""
    loss: float = 0.0
    correct: float = 0.0
    epochs: list[dict[str, Any]] = field(default_factory=list)
    """A line for each epoch that has ended."""
    definitions: list[dict[str, Any]] = field(default_factory=list)
    """A line for each definition of the negative sets (QuRe Figure 5)."""

    def count(self, n: int, loss: float, accuracy: float) -> None:
        self.step += 1
        self.n += n
        self.loss += n * loss
        self.correct += n * accuracy

    def end_epoch(self, **figures: Any) -> None:
        """Append the epoch's line, with further figures, and start the next epoch."""
        means = {"loss": self.loss / self.n, "accuracy": self.correct / self.n}
        self.epochs.append({"epoch": self.epoch, **means, **figures})
        self.epoch += 1
        self.step, self.n, self.loss, self.correct = 0, 0, 0.0, 0.0

    @property
    def last_is_best(self) -> bool:
        """Whether the last epoch is the first with the highest mean recall."""
        values = [epoch["val"]["mean"] for epoch in self.epochs]
        return values.index(max(values)) == len(values) - 1


@dataclass(frozen=True, slots=True)
class RunFolder:
    """The folder of a run and what its checkpoints record besides progress and tensors."""

    path: Path
    identity: Mapping[str, Any]
    """The identity of this run: recipe, data, encoder, initial weights."""
    about: Mapping[str, Any]

    def last(self) -> Checkpoint | None:
        """The last checkpoint, if there is one; UnreadableInput if it is of another run."""
        path = self.path / f"{LAST}.json"
        if not path.is_file():
            return None
        checkpoint = checkpoints.read(path)
        differing = [
            key for key, value in self.identity.items() if checkpoint.about.get(key) != value
        ]
        if differing:
            raise UnreadableInput(
                str(self.path),
                f"holds a run with other {', '.join(differing)}",
                "name another --out, or use that run's options to resume it",
            )
        return checkpoint

    def save(
        self, progress: Progress, scorer: Mapping[str, Tensor], state: Mapping[str, Tensor]
    ) -> None:
        """Write `last`, and before it `best` if the epoch that just ended is the best so far."""
        about = {**self.identity, **self.about, "progress": asdict(progress)}
        if progress.epochs and progress.step == 0 and progress.last_is_best:
            checkpoints.save(self.path, BEST, about, {"scorer": scorer})
        checkpoints.save(self.path, LAST, about, {"scorer": scorer, "state": state})


# What a training run calls as it progresses: the terminal, TensorBoard, a test.


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

    def retraining(self, done: int, n: int) -> None:
        """`done` of n epochs are over; each fold has as many as the retraining itself."""

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


# What every training run is given besides its recipe.

SAVE_EVERY = 600.0
"""Seconds after which a checkpoint is written within an epoch too."""


@dataclass(frozen=True, slots=True)
class TrainingJob:
    """The training of a scorer or a retrieval system.

    Attributes:
        out: the run's folder; the same job resumes the run in it, and leaves an ended one alone.
        paths: of a checkpoint to start from, published weights and the feature cache.
        callback: called in the first process only, except for `caching` and `unreadable`.
        cached: use the feature cache; else the frozen image encoder runs at every step.
        save_every: seconds after which a checkpoint is written within an epoch too.
    """

    data: TrainingData
    out: Path
    paths: ScorerPaths
    distributed: Distributed
    callback: Callback
    cached: bool = True
    save_every: float = SAVE_EVERY

    @property
    def cache(self) -> Path | None:
        return self.paths.cache if self.cached else None
