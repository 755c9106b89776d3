"""A training run from end to end: encoder, tokens, trainer, folder."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch

from hsfiq import __version__
from hsfiq.atomic_files import write_whole
from hsfiq.model.checkpoints import files as checkpoints
from hsfiq.model.checkpoints.files import Checkpoint
from hsfiq.model.checkpoints.lineage import EARLIER_RELEASES, trained_on
from hsfiq.model.data.parts import without
from hsfiq.model.data.triplets import MISSING_FILE, TrainingData, missing_text
from hsfiq.model.encoders.protocol import Encoder
from hsfiq.model.features.cache import FeatureCache
from hsfiq.model.features.tokens import EncodedTokens, TokenSource
from hsfiq.model.recipes.recipe import Recipe
from hsfiq.model.runtime.distributed import World
from hsfiq.model.scorer.loading import new_scorer
from hsfiq.model.scorer.scorer import put, trained_parameters
from hsfiq.model.training.callbacks import TensorBoard, Watcher, Watchers
from hsfiq.model.training.folder import RunFolder
from hsfiq.model.training.optimizer import precision
from hsfiq.model.training.trainer import SAVE_EVERY, Trainer

TOKENS_DTYPE = torch.float16
"""In which tokens are kept: the published code's image encoder computes in it."""

ABOUT = {"hsfiq": __version__, "torch": torch.__version__}

ENCODER_BATCH = 32
"""Images encoded at once."""


@dataclass(frozen=True, slots=True)
class Where:
    """The folders of a run.

    Attributes:
        out: its own.
        cache: the feature cache's; None to run the image encoder at every step.
        weights: of BLIP-2's published files; the usual one if None.
        init: a checkpoint to start from.
    """

    out: Path
    cache: Path | None
    weights: Path | None = None
    init: Path | None = None


def run(
    recipe: Recipe,
    data: TrainingData,
    where: Where,
    world: World,
    watcher: Watcher,
    *,
    save_every: float = SAVE_EVERY,
) -> Checkpoint:
    """Train, or go on with the run in the folder; nothing is done where it has ended.

    Args:
        recipe: every number.
        data: triplets, candidates and images.
        where: the folders.
        world: the processes that train together.
        watcher: is told of the progress, in the first process.
        save_every: seconds after which a checkpoint is written within an epoch too.

    Returns:
        The best checkpoint.

    Raises:
        UnreadableInput: missing weights or images, another run's folder, a broken checkpoint.
        Diverged: the loss is no number.
    """
    precision(recipe.precision, world.device)  # is refused, where it is, before hours of caching
    scorer = new_scorer(recipe, where.weights)
    about: dict[str, Any] = dict(ABOUT)
    parent = None
    if where.init is not None:
        checkpoint = checkpoints.read(where.init)
        about |= {EARLIER_RELEASES: trained_on(checkpoint)}
        put(checkpoint.tensors("scorer"), trained_parameters(scorer), str(checkpoint.path))
        parent = checkpoint.sha256
    scorer.to(world.device)
    tokens, data = tokens_of(data, scorer.encoder, where, world, watcher)
    folder = RunFolder(where.out, identity(recipe, data, scorer.encoder, parent), about)
    watchers = (watcher, TensorBoard(where.out / "tensorboard")) if world.is_first else ()
    watcher = Watchers(*watchers)
    # A folder that is another run's is refused here, before anything is written into it.
    trainer = Trainer(scorer, data, recipe, tokens, folder, world, watcher, save_every)
    if world.is_first:
        where.out.mkdir(parents=True, exist_ok=True)
        write_whole(where.out / MISSING_FILE, missing_text(data).encode())
    try:
        trainer.train()
    finally:
        watcher.close()
    return checkpoints.read(where.out)


def tokens_of(
    data: TrainingData, encoder: Encoder, where: Where, world: World, watcher: Watcher
) -> tuple[TokenSource, TrainingData]:
    """Where tokens come from, and the data without the images that cannot be read.

    Raises:
        UnreadableInput: no room for the cache, or too little is left to train with.
    """
    if where.cache is None:
        return EncodedTokens(encoder, data.images, TOKENS_DTYPE, world.device), data
    if not world.is_first:
        world.wait()  # the first fills the cache, the others find it filled
    cache = FeatureCache.open(where.cache, encoder, TOKENS_DTYPE)
    report = cache.fill(
        data.images,
        batch=ENCODER_BATCH,
        device=world.device,
        workers=os.cpu_count() or 1,
        on_progress=watcher.caching,
    )
    if world.is_first:
        world.wait()
    if report.unreadable:
        data = without(data, report.unreadable)
        watcher.unreadable(report.unreadable, data)
    return cache, data


def identity(
    recipe: Recipe, data: TrainingData, encoder: Encoder, parent: str | None
) -> dict[str, Any]:
    """What makes this run the one that it is, as its checkpoints say it."""
    return {
        "recipe": recipe.to_json(),
        "data": {
            "name": data.name,
            "n_train": len(data.train),
            "n_val": len(data.val),
            "n_images": len(data.images),
            "sha256": content_sha256(data),
        },
        "encoder": {
            "name": encoder.name,
            "frozen_sha256": encoder.frozen_id(),
            "tokens": list(encoder.tokens_shape),
        },
        "preprocessing": jsonable(asdict(encoder.preprocessing)),
        "init_sha256": parent,
    }


def content_sha256(data: TrainingData) -> str:
    """What tells one set of triplets, pools and corpora from another."""
    content = json.dumps([[asdict(it) for it in data.train + data.val], data.pools, data.corpora])
    return sha256(content.encode()).hexdigest()


def jsonable(values: dict[str, Any]) -> dict[str, Any]:
    """The values as JSON gives them back: tuples as lists."""
    found: dict[str, Any] = json.loads(json.dumps(values))
    return found
