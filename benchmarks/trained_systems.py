"""The five retrieval systems, trained in miniature on a drawn catalogue and kept in a folder.

A system is trained once for each recipe and each number of triplets; later calls find its
checkpoint. The recipe's own seed belongs to seed 0.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from time import process_time

import torch

from hsfiq.atomic_files import write_whole
from hsfiq.model.data import CATALOGUE, TrainingData, draw_dataset, draw_pictures, drawn, drawn_size
from hsfiq.model.evaluation.drawn import Catalogue
from hsfiq.model.retrieval.loading import new_system
from hsfiq.model.retrieval.tiny import TinyQFormer, TinyTowers
from hsfiq.model.retrieval.training import BACKBONES, pretrain_on, train_system
from hsfiq.model.runtime import Distributed
from hsfiq.model.scorer.job import Callback, TrainingJob
from hsfiq.model.scorer.loading import ScorerPaths
from hsfiq.model.scorer.run import tokens_of
from hsfiq.model.system_recipes import SystemName, SystemRecipe, system_on_drawn, system_recipe

SYSTEMS: tuple[SystemName, ...] = ("clip4cir", "bi-blip4cir", "covr-blip", "sprc", "mapnet")
FOLDER = Path("runs/systems")
CPU = torch.device("cpu")


def prepare_backbone(recipe: SystemRecipe, data: TrainingData, cache: Path) -> None:
    """Keep the images' features and the pre-trained small backbone in a cache, if not done yet."""
    backbone = new_system(recipe, None).backbone
    assert isinstance(backbone, TinyTowers | TinyQFormer)
    tokens, data = tokens_of(data, backbone, cache, Distributed(CPU), Callback())
    pretrain_on(data, backbone, tokens, cache / BACKBONES, recipe, Callback())


def drawn_recipe(system: SystemName, seed: int, changes: Mapping[str, str]) -> SystemRecipe:
    """The recipe of `hsfiq train SYSTEM-fashioniq --data drawn`, with another seed and changes."""
    recipe = system_on_drawn(system_recipe(f"{system}-fashioniq"))
    stages = len(recipe.epochs)
    values = {key: ",".join([value] * stages) for key, value in changes.items()}
    return recipe.with_values({"seed": str(recipe.seed + seed), **values})


@dataclass(frozen=True)
class TrainedSystems:
    """One seed's catalogue with its pictures, features, and pre-trained and trained weights.

    Attributes:
        limit: about how many training triplets the catalogue gives; None for all.
        changes: values of each stage that differ from the recipes'.
    """

    folder: Path
    seed: int
    limit: int | None
    changes: Mapping[str, str]

    @property
    def place(self) -> Path:
        return self.folder / f"seed-{self.seed}-{self.limit or 'all'}"

    @property
    def pictures(self) -> Path:
        return self.place / CATALOGUE

    @property
    def cache(self) -> Path:
        return self.place / "features"

    def recipe(self, system: SystemName) -> SystemRecipe:
        return drawn_recipe(system, self.seed, self.changes)

    @cached_property
    def catalogue(self) -> Catalogue:
        seed = self.recipe(SYSTEMS[0]).seed
        return Catalogue(*draw_dataset(seed, *drawn_size(self.limit)))

    @cached_property
    def data(self) -> TrainingData:
        recipe = self.recipe(SYSTEMS[0])
        draw_pictures(self.catalogue.garments, self.pictures)
        size = drawn_size(self.limit)
        return drawn(self.pictures, recipe.seed, *size, recipe.pool)

    def trained(self, system: SystemName) -> Trained:
        """Train a system, unless the folder has it already."""
        recipe = self.recipe(system)
        digest = sha256(json.dumps(recipe.to_json(), sort_keys=True).encode()).hexdigest()[:8]
        run = self.place / f"{system}-{digest}"
        record = run / "seconds.json"
        if not record.is_file():
            print(f"training {system}, seed {self.seed} ...", file=sys.stderr)
            time = TrainingTime()
            paths = ScorerPaths(cache=self.cache)
            train_system(recipe, TrainingJob(self.data, run, paths, Distributed(CPU), time))
            write_whole(record, json.dumps(time.seconds()).encode())
        return Trained(run, **json.loads(record.read_bytes()))


@dataclass(frozen=True)
class Trained:
    """A trained system's run, and the CPU seconds of its training.

    Attributes:
        pretraining: seconds that other systems on the same backbone did not need again.
    """

    run: Path
    training: float
    pretraining: float


class TrainingTime(Callback):
    """Measures the CPU seconds of pre-training and training."""

    def __init__(self) -> None:
        self._first = self._pretrained = process_time()

    def pretraining(self, done: int, n: int) -> None:  # noqa: ARG002 (the protocol's)
        self._pretrained = process_time()

    def seconds(self) -> dict[str, float]:
        """Reading images' tokens counts as pre-training."""
        return {
            "pretraining": self._pretrained - self._first,
            "training": process_time() - self._pretrained,
        }
