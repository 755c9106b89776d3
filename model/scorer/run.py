"""A training run from end to end: scorer, tokens, trainer, checkpoints."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import torch

from hsfiq import __version__
from hsfiq.atomic_files import write_whole
from hsfiq.model import checkpoints
from hsfiq.model.checkpoints import EARLIER_RELEASES, Checkpoint, trained_on, write_card
from hsfiq.model.data import MISSING_FILE, TrainingData, missing_text, without
from hsfiq.model.encoders.encoder import FrozenEncoder
from hsfiq.model.image_tokens import TOKENS_DTYPE, EncodedTokens, FeatureCache, TokenSource
from hsfiq.model.recipes import Recipe, RecipeBase, recipe, shown
from hsfiq.model.runtime import Distributed
from hsfiq.model.scorer.inference import precision
from hsfiq.model.scorer.job import Callback, RunFolder, TrainingJob
from hsfiq.model.scorer.loading import load_parameters, new_scorer
from hsfiq.model.scorer.training import Trainer
from hsfiq.model.system_recipes import SystemRecipe

# README.md beside a scorer's checkpoint; the parts that every trained checkpoint's card has.

DATA: Final = {"fashioniq": "FashionIQ", "cirr": "CIRR", "drawn": "the drawn catalogue"}

DRAWN = (
    "Its images are drawn garments and its texts are written from their attributes. The figures "
    "say nothing about photographs, about the published system, or about what people prefer."
)
SCORES = "It scores how relevant an image is to a reference image and a text."
NO_JUDGEMENTS = "It was trained only on triplets, without human or simulated judgements."
SELECTED = (
    "Those of the epoch with the best mean recall on these validation triplets, so they are a "
    "little too good. They have no intervals; `hsfiq evaluate --intervals` gives some."
)
SOURCES: Final = {"cirqrs": "CIRQRS trains its scorer", "qure": "QuRe trains its retriever"}
"""By the first part of a recipe's name."""


def write_scorer_card(checkpoint: Checkpoint) -> None:
    """Write README.md into the folder of a scorer that was trained on triplets."""
    about = checkpoint.about
    trained = Recipe.from_json(about["recipe"], str(checkpoint.path))
    source = SOURCES[trained.name.split("-")[0]]
    what = f"{SCORES} Encoder `{trained.encoder}`, trained as {source}."
    write_card(
        checkpoint.path.parent,
        f"A scorer trained on {DATA[trained.dataset]} by `{trained.name}`",
        [what, *([DRAWN] if trained.dataset == "drawn" else []), *judgements(checkpoint)],
        {
            **data_and_figures(
                about, about["data"]["n_train"], "training targets scored above their negative"
            ),
            "Recipe": recipe_lines(recipe(trained.name), trained, ("strategy", "n_def", "n_neg")),
            "Provenance": provenance_lines(checkpoint),
            "Use": ["```bash", "hsfiq score RELEASE --checkpoint FOLDER", "```"],
        },
        tags=("relevance-score", trained.dataset),
    )


def judgements(checkpoint: Checkpoint) -> Iterator[str]:
    """Whose judgements the scorer may have learned from, also before this training."""
    earlier = [f"{release['name']} {release['version']}" for release in trained_on(checkpoint)]
    if not earlier:
        yield NO_JUDGEMENTS
        return
    yield (
        "It was trained on triplets alone, but started from a scorer that was trained on the "
        f"answers of {', '.join(earlier)}."
    )


def data_and_figures(
    about: Mapping[str, Any], n_used: int, accuracy: str
) -> dict[str, Iterable[str]]:
    """The data, the number of triplets used, and the best epoch's figures.

    `accuracy` says what the training's accuracy counts.
    """
    data, best = about["data"], about["progress"]["epochs"][-1]
    figures = {key: value for key, value in best["val"].items() if key != "mean"}
    figures["training loss"] = best["loss"]
    figures[accuracy] = best["accuracy"]
    return {
        "Data": [
            f"- {DATA[data['name']]}: {n_used:,} of {data['n_train']:,} training triplets",
            f"- validated on {data['n_val']:,} triplets",
            f"- content: sha256 `{data['sha256']}`",
        ],
        "Figures": [
            SELECTED,
            "",
            f"| epoch {best['epoch']}, counted from 0 | value |",
            "|---|---|",
            *(f"| {name} | {value:.4f} |" for name, value in figures.items()),
        ],
    }


def recipe_lines(
    published: RecipeBase, trained: RecipeBase, variants: Iterable[str]
) -> Iterator[str]:
    """The values of the variants, and what else differs from the published recipe."""
    yield f"`{trained.name}`; PAPERS.md of hsfiq says where each value comes from."
    yield ""
    for key in variants:
        yield f"- variant `{key}`: {shown(getattr(trained, key))}"
    for key, (stated, here) in published.changes(trained).items():
        if key not in variants:
            yield f"- `{key}`: {here} instead of {stated}"


def provenance_lines(checkpoint: Checkpoint) -> Iterator[str]:
    about = checkpoint.about
    yield f"- weights: sha256 `{checkpoint.sha256}`"
    yield f"- frozen image encoder: sha256 `{about['encoder']['frozen_sha256']}`"
    if about.get("init_sha256"):
        yield f"- started from: sha256 `{about['init_sha256']}`"


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
    # This refuses another run's folder, before anything is written into it.
    trainer = Trainer(scorer, recipe, replace(job, data=data), tokens, folder)
    if distributed.is_first:
        write_missing(data, out)
    trainer.train()
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
    """The identity of this run, as recorded in its checkpoints."""
    return {
        "recipe": recipe.to_json(),
        "data": {
            "name": data.name,
            "n_train": len(data.train),
            "n_val": len(data.val),
            "n_images": len(data.images),
            "sha256": content_sha256(data),
        },
        **encoder_of(encoder),
        "init_sha256": init_sha256,
    }


def encoder_of(encoder: FrozenEncoder) -> dict[str, Any]:
    """The record of the image encoder in a checkpoint."""
    return {
        "encoder": {
            "name": encoder.name,
            "frozen_sha256": encoder.frozen_id(),
            "tokens": list(encoder.tokens_shape),
        },
        "preprocessing": jsonable(asdict(encoder.preprocessing)),
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
