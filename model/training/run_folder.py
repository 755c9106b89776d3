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
    """How far a run has got: the part of its last checkpoint that is not tensors.

    Attributes:
        epoch: the current or next epoch, from 0.
        step: the next step of that epoch.
        n: triplets of the epoch so far.
        loss: the sum of their losses.
        correct: how many targets scored above their negatives.
        epochs: a line for each epoch that has ended.
        definitions: a line for each definition of the negative sets (QuRe Figure 5).
    """

    epoch: int = 0
    step: int = 0
    n: int = 0
    loss: float = 0.0
    correct: float = 0.0
    epochs: list[dict[str, Any]] = field(default_factory=list)
    definitions: list[dict[str, Any]] = field(default_factory=list)

    def count(self, n: int, loss: float, accuracy: float) -> None:
        """Count a step on n triplets with their mean loss and accuracy."""
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
    """Where a run is kept.

    Attributes:
        path: the folder.
        identity: what distinguishes this run: recipe, data, encoder, initial weights.
        about: what else its checkpoints say of the scorer.
    """

    path: Path
    identity: Mapping[str, Any]
    about: Mapping[str, Any]

    def last(self) -> Checkpoint | None:
        """The checkpoint where the run stopped; None before the first one.

        Raises:
            UnreadableInput: the folder holds another run.
        """
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
