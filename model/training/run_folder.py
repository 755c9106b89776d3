"""The folder of a training run: `last.json`, `best.json` and their tensors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from hsfiq.errors import UnreadableInput
from hsfiq.model.checkpoints import checkpoint as checkpoints
from hsfiq.model.checkpoints.checkpoint import BEST, LAST, Checkpoint


@dataclass
class Progress:
    """How far a run has got: the part of its last checkpoint that is not tensors."""

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
    """What distinguishes this run: recipe, data, encoder, initial weights."""
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
                "name another --out, or repeat that run's options to resume it",
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
