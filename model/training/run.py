"""A training run from end to end: scorer, tokens, trainer, checkpoints."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch

from hsfiq import __version__
from hsfiq.atomic_files import write_whole
from hsfiq.model.checkpoints import checkpoint as checkpoints
from hsfiq.model.checkpoints.checkpoint import Checkpoint
from hsfiq.model.checkpoints.lineage import EARLIER_RELEASES, trained_on
from hsfiq.model.data.parts import without
from hsfiq.model.data.triplets import MISSING_FILE, TrainingData, missing_text
from hsfiq.model.encoders.protocol import FrozenEncoder
from hsfiq.model.features.cache import TOKENS_DTYPE, FeatureCache
from hsfiq.model.features.tokens import EncodedTokens, TokenSource
from hsfiq.model.recipes.recipe import Recipe
from hsfiq.model.recipes.system_recipe import SystemRecipe
from hsfiq.model.runtime.distributed import Distributed
from hsfiq.model.scorer.inference import precision
from hsfiq.model.scorer.loading import load_parameters, new_scorer
from hsfiq.model.training.callbacks import Callback, TensorBoard
from hsfiq.model.training.job import TrainingJob
from hsfiq.model.training.model_card import write_scorer_card
from hsfiq.model.training.run_folder import RunFolder
from hsfiq.model.training.trainer import Trainer

ABOUT = {"hsfiq": __version__, "torch": torch.__version__}


def run(recipe: Recipe, job: TrainingJob) -> Checkpoint:
    """Train a scorer, or resume its run; return the best checkpoint.

    UnreadableInput if the folder holds another run; Diverged if the loss is not finite.
    """
    out, paths, distributed = job.out, job.paths, job.distributed
    precision(recipe.precision, distributed.device)  # refuse it before hours of caching
    scorer = new_scorer(recipe, paths.weights)
    about: dict[str, Any] = dict(ABOUT)
    init_sha256 = None
    if paths.checkpoint is not None:
        checkpoint = checkpoints.read(paths.checkpoint)
        about |= {EARLIER_RELEASES: trained_on(checkpoint)}
        load_parameters(checkpoint, scorer)
        init_sha256 = checkpoint.sha256
    scorer.to(distributed.device)
    tokens, data = tokens_of(job.data, scorer.encoder, job.cache, distributed, job.callback)
    folder = RunFolder(out, identity(recipe, data, scorer.encoder, init_sha256), about)
    callbacks: Sequence[Callback] = ()
    if distributed.is_first:
        callbacks = (job.callback, TensorBoard(out / "tensorboard"))
    # This refuses another run's folder, before anything is written into it.
    trainer = Trainer(scorer, data, recipe, tokens, folder, distributed, callbacks, job.save_every)
    if distributed.is_first:
        write_missing(data, out)
    try:
        trainer.train()
    finally:
        for each in callbacks:
            each.close()
    best = checkpoints.read(out)
    if distributed.is_first:
        write_scorer_card(best)
    return best


def write_missing(data: TrainingData, out: Path) -> None:
    """Write which images and triplets are missing into the run's folder, which is made."""
    out.mkdir(parents=True, exist_ok=True)
    write_whole(out / MISSING_FILE, missing_text(data).encode())


def tokens_of(
    data: TrainingData,
    encoder: FrozenEncoder,
    cache_folder: Path | None,
    distributed: Distributed,
    callback: Callback,
) -> tuple[TokenSource, TrainingData]:
    """The source of tokens, and the data without the images that cannot be read."""
    if cache_folder is None:
        return EncodedTokens(encoder, data.images, TOKENS_DTYPE, distributed.device), data
    cache = FeatureCache.open(cache_folder, encoder)
    report = cache.fill(
        data.images,
        device=distributed.device,
        on_progress=callback.caching,
        rank=distributed.rank,
        processes=distributed.size,
    )
    if report.unreadable:
        data = without(data, report.unreadable)
        callback.unreadable(report.unreadable, data)
    return cache, data


def identity(
    recipe: Recipe | SystemRecipe,
    data: TrainingData,
    encoder: FrozenEncoder,
    init_sha256: str | None,
) -> dict[str, Any]:
    """What distinguishes this run from others, as its checkpoints record it."""
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
        "init_sha256": init_sha256,
    }


def content_sha256(data: TrainingData) -> str:
    triplets = [asdict(triplet) for triplet in data.train + data.val]
    for triplet in triplets:
        if not triplet["subset"]:  # as before there were subsets, so that runs can be resumed
            del triplet["subset"]
    content = json.dumps([triplets, data.pools, data.corpora])
    return sha256(content.encode()).hexdigest()


def jsonable(values: dict[str, Any]) -> dict[str, Any]:
    """The values as JSON gives them back: tuples as lists."""
    copied: dict[str, Any] = json.loads(json.dumps(values))
    return copied
