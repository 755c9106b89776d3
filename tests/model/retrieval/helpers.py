"""Small training runs of retrieval systems."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from hsfiq.model.checkpoints import Checkpoint
from hsfiq.model.retrieval.training import train_system
from hsfiq.model.scorer.job import Callback, Step, TrainingJob
from hsfiq.model.scorer.loading import ScorerPaths
from hsfiq.model.system_recipes import SystemRecipe, system_on_drawn, system_recipe
from tests.model.scorer.helpers import ONE_PROCESS, Drawn, Recorder

SMALL = replace(
    system_on_drawn(system_recipe("clip4cir-fashioniq")),
    epochs=(2, 1),
    batch=(16, 16),
    projection=16,
    hidden=32,
    seed=7,
    val_recall=(1, 5),
)
"""CLIP4CIR with few epochs, a narrow Combiner, and batches that 60 triplets fill three times.

The seed is that of the fixture `drawn`."""


class Stopped(Exception):
    """Raised instead of a kill."""


class StopAt(Recorder):
    """Stops the run at its nth step, all stages together."""

    def __init__(self, nth: int) -> None:
        super().__init__()
        self.nth = nth

    def stepped(self, step: Step) -> None:
        super().stepped(step)
        if len(self.steps) == self.nth:
            raise Stopped


def train(
    drawn: Drawn,
    out: Path,
    recipe: SystemRecipe = SMALL,
    callback: Callback | None = None,
    *,
    init: Path | None = None,
    cached: bool = True,
    save_every: float = 600,
) -> Checkpoint:
    """Run a recipe to its end in this process."""
    paths = ScorerPaths(init, cache=drawn.cache)
    job = TrainingJob(
        drawn.data, out, paths, ONE_PROCESS, callback or Callback(), cached, save_every
    )
    return train_system(recipe, job)
