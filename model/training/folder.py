"""The folder of a training run: `last.json`, `best.json`, their tensors, and TensorBoard's log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from hsfiq.errors import UnreadableInput
from hsfiq.model.checkpoints import files as checkpoints
from hsfiq.model.checkpoints.files import BEST, LAST, Checkpoint


@dataclass
class Progress:
    """How far a run has got: what its last checkpoint says besides tensors.

    Attributes:
        epoch: that is under way, or comes next.
        step: of that epoch, that comes next.
        n: triplets of the epoch so far.
        loss: their losses' sum.
        correct: how many targets were scored above their negatives.
        epochs: a line for each epoch that has ended.
        definitions: a line for each time that negative sets were defined (QuRe Figure 5).
    """

    epoch: int = 0
    step: int = 0
    n: int = 0
    loss: float = 0.0
    correct: float = 0.0
    epochs: list[dict[str, Any]] = field(default_factory=list)
    definitions: list[dict[str, Any]] = field(default_factory=list)

    def count(self, n: int, loss: float, accuracy: float) -> None:
        """A step was taken on n triplets, with their mean loss and accuracy."""
        self.step += 1
        self.n += n
        self.loss += n * loss
        self.correct += n * accuracy

    def end_epoch(self, **more: Any) -> None:
        """The epoch is over; `more` goes into its line."""
        line = {
            "epoch": self.epoch,
            "loss": self.loss / self.n,
            "accuracy": self.correct / self.n,
            **more,
        }
        self.epochs.append(line)
        self.epoch += 1
        self.step, self.n, self.loss, self.correct = 0, 0, 0.0, 0.0

    @property
    def best(self) -> bool:
        """Whether the epoch that ended last is the first with the highest mean recall."""
        values = [epoch["val"]["mean"] for epoch in self.epochs]
        return values.index(max(values)) == len(values) - 1


@dataclass(frozen=True, slots=True)
class RunFolder:
    """Where a run is kept.

    Attributes:
        path: the folder.
        identity: what makes it this run and no other: recipe, data, encoder, initial weights.
        about: what else a checkpoint says of the scorer.
    """

    path: Path
    identity: Mapping[str, Any]
    about: Mapping[str, Any]

    def last(self) -> Checkpoint | None:
        """Where the run stopped; None where it has not begun.

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
                "name another --out, or give what that run was given to go on with it",
            )
        return checkpoint

    def save(
        self, progress: Progress, scorer: Mapping[str, Tensor], state: Mapping[str, Tensor]
    ) -> None:
        """Write `last`, and first `best` where the epoch that just ended is the best so far."""
        about = {**self.identity, **self.about, "progress": asdict(progress)}
        if progress.epochs and progress.step == 0 and progress.best:
            checkpoints.save(self.path, BEST, about, {"scorer": scorer})
        checkpoints.save(self.path, LAST, about, {"scorer": scorer, "state": state})
