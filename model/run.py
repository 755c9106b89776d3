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
from model import checkpoints, encoders
from model.cache import FeatureCache
from model.checkpoints import Checkpoint
from model.encoders.protocol import Encoder
from model.recipes import Recipe
from model.run_folder import RunFolder
from model.scorer import Scorer, put, trained_parameters
from model.seeds import generator
from model.tokens import EncodedTokens, TokenSource
from model.train import Trainer
from model.training_data import MISSING_FILE, TrainingData, missing_text
from model.training_parts import without
from model.watchers import TensorBoard, Watcher, Watchers
from model.world import World

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
    recipe: Recipe, data: TrainingData, where: Where, world: World, watcher: Watcher
) -> Checkpoint:
    """Train, or go on with the run in the folder; nothing is done where it has ended.

    Args:
        recipe: every number.
        data: triplets, candidates and images.
        where: the folders.
        world: the processes that train together.
        watcher: is told of the progress, in the first process.

    Returns:
        The best checkpoint.

    Raises:
        UnreadableInput: missing weights or images, another run's folder, a broken checkpoint.
        Diverged: the loss is no number.
    """
    scorer, parent = starting_scorer(recipe, where, world.device)
    tokens, data = tokens_of(data, scorer.encoder, where, world, watcher)
    folder = RunFolder(where.out, identity(recipe, data, scorer.encoder, parent), ABOUT)
    if world.is_first:
        folder.last()  # is refused, where it is, before anything is written
        where.out.mkdir(parents=True, exist_ok=True)
        checkpoints.write_whole(where.out / MISSING_FILE, missing_text(data))
        watcher = Watchers(watcher, TensorBoard(where.out / "tensorboard"))
    else:
        watcher = Watcher()
    try:
        Trainer(scorer, data, recipe, tokens, folder, world, watcher).train()
    finally:
        watcher.close()
    return checkpoints.read(where.out)


def starting_scorer(
    recipe: Recipe, where: Where, device: torch.device
) -> tuple[Scorer, str | None]:
    """The scorer as training finds it, and the sha256 of the checkpoint that it starts from.

    Raises:
        UnreadableInput: missing or broken weights, or a checkpoint of another encoder.
    """
    encoder = encoders.build(
        recipe.encoder,
        size=recipe.size,
        pad_ratio=recipe.pad_ratio,
        folder=where.weights,
        generator=generator(recipe.seed, "weights"),
    )
    scorer = Scorer(encoder, recipe.pooling)
    parent = None
    if where.init is not None:
        checkpoint = checkpoints.read(where.init)
        put(checkpoint.tensors("scorer"), trained_parameters(scorer), str(checkpoint.path))
        parent = checkpoint.sha256
    return scorer.to(device), parent


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
    return cache, without(data, report.unreadable) if report.unreadable else data


def identity(
    recipe: Recipe, data: TrainingData, encoder: Encoder, parent: str | None
) -> dict[str, Any]:
    """What makes this run the one that it is, as its checkpoints say it."""
    content = json.dumps([[asdict(it) for it in data.train + data.val], data.pools, data.corpora])
    return {
        "recipe": recipe.to_json(),
        "data": {
            "name": data.name,
            "n_train": len(data.train),
            "n_val": len(data.val),
            "n_images": len(data.images),
            "sha256": sha256(content.encode()).hexdigest(),
        },
        "encoder": {
            "name": encoder.name,
            "frozen_sha256": encoder.frozen_id(),
            "tokens": list(encoder.tokens_shape),
        },
        "preprocessing": jsonable(asdict(encoder.preprocessing)),
        "init_sha256": parent,
    }


def jsonable(values: dict[str, Any]) -> dict[str, Any]:
    """The values as JSON gives them back: tuples as lists."""
    found: dict[str, Any] = json.loads(json.dumps(values))
    return found
