"""What every training run is given besides its recipe."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from hsfiq.model.data.triplets import TrainingData
from hsfiq.model.runtime.distributed import Distributed
from hsfiq.model.scorer.paths import ScorerPaths
from hsfiq.model.training.callbacks import Callback

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
