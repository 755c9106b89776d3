"""`hsfiq score` from end to end: checkpoint, images, tokens, scores."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from hsfiq import __version__
from hsfiq.drawn import garment_of
from hsfiq.drawn.draw import write_images
from hsfiq.errors import UnreadableInput
from hsfiq.images.folder import ImageFolder, usual_folder
from hsfiq.model.checkpoints.checkpoint import sha256_of
from hsfiq.model.checkpoints.lineage import trained_on
from hsfiq.model.features.cache import FeatureCache
from hsfiq.model.recipes.recipe import Recipe
from hsfiq.model.runtime.distributed import Distributed
from hsfiq.model.scorer.inference import Inference, precision
from hsfiq.model.scorer.loading import Loaded, load_scorer
from hsfiq.model.scorer.paths import ScorerPaths
from hsfiq.model.scoring.release_scores import (
    is_whole,
    said_before,
    score_sets,
    write_scores,
)
from hsfiq.model.training.callbacks import Callback
from hsfiq.model.training.run import jsonable
from hsfiq.records import InvalidRecord
from hsfiq.releases.reader import QUERIES, SETS, ReleasedSet, read_sets
from hsfiq.text import first_few

VERSIONS = ("hsfiq", "torch")
"""What a provenance tells of the programs."""
TRAINED_ON = "trained_on"
"""Where a provenance tells of the releases that a scorer was retrained on."""


def scores_folder(release: Path) -> Path:
    """`RELEASE.scores`, beside the release."""
    real = release.resolve()
    return real.with_name(f"{real.name}.scores")


def score(
    release: Path,
    name: str,
    paths: ScorerPaths,
    device: torch.device,
    callback: Callback,
    *,
    force: bool = False,
) -> dict[str, Any]:
    """Score a release, unless that has been done with the same scorer.

    Args:
        release: its folder; the scores go into `scores_folder(release)`.
        name: the metric's.
        paths: of the scorer's checkpoint, images, weights and cache.
        device: computes.
        callback: is told of the images encoded.
        force: score in any case, and replace whatever has the name.

    Returns:
        What the scores' JSON file says.

    Raises:
        UnreadableInput: no release, no checkpoint, no images, or other scores under the name.
    """
    sets = read_sets(release)
    scores = scores_folder(release)
    loaded = load_scorer(paths.required("checkpoint"), paths.weights, device)
    said = provenance(name, release, loaded)
    if not force and (before := said_before(scores, name)):
        if not is_same(said, before):
            raise UnreadableInput(
                str(scores / f"{name}.json"),
                "holds the scores of another scorer, or of another release",
                "choose another --name, or --force",
            )
        # Scores that do not say what their scorer was retrained on are made again, saying it.
        told = before.get(TRAINED_ON) == said.get(TRAINED_ON)
        if told and not before.get("missing_images") and is_whole(scores, before):
            return before
    with pictures(sets, release, paths.images) as files:
        inference, there = encoded(loaded, files, paths.cache, device, callback)
    scored = score_sets(sets, there, loaded.recipe.pooling, inference)
    if not scored.sets:
        raise UnreadableInput(
            str(release),
            f"no set has all its images: {first_few(scored.missing)} are missing or unreadable",
            "name the images' folder with --images",
        )
    return write_scores(scores, name, scored, said)


def encoded(
    loaded: Loaded, files: Mapping[str, Path], cache: Path, device: torch.device, callback: Callback
) -> tuple[Inference, set[str]]:
    """Compute the tokens that the cache lacks.

    Args:
        loaded: the scorer, on `device`.
        files: by image id.
        cache: the feature cache's folder.
        device: computes.
        callback: is told of the images encoded.

    Returns:
        The scorer at work on these images, and those of them that can be read.

    Raises:
        UnreadableInput: no room for the tokens.
    """
    tokens = FeatureCache.open(cache, loaded.scorer.encoder)
    report = tokens.fill(files, device=device, on_progress=callback.caching)
    inference = Inference(
        loaded.scorer, tokens, Distributed(device), arithmetic(loaded.recipe, device)
    )
    return inference, files.keys() - report.unreadable.keys()


def arithmetic(recipe: Recipe, device: torch.device) -> torch.dtype:
    """The dtype of the training's arithmetic; a CPU takes fp32 for fp16, which it lacks."""
    if recipe.precision == "fp16" and device.type == "cpu":
        return torch.float32
    return precision(recipe.precision, device)


def is_same(said: Mapping[str, Any], before: Mapping[str, Any]) -> bool:
    """Whether two provenances are of one scorer and one release.

    An upgrade is no other scorer. Nor is one that an earlier version did not say to be retrained.
    """
    told = (*VERSIONS, TRAINED_ON)
    return all(before.get(key) == it for key, it in said.items() if key not in told)


def provenance(name: str, release: Path, loaded: Loaded) -> dict[str, Any]:
    """Where the scores come from: what decides them, but for the images that are there."""
    releases = trained_on(loaded.checkpoint)
    return jsonable(
        {
            "metric": name,
            "score": "mean over the set's images of the pooled cosine (CIRQRS eq. 7)",
            "release": {
                "name": release.resolve().name,
                "sha256": {file: sha256_of(release / file) for file in (QUERIES, SETS)},
            },
            "checkpoint_sha256": loaded.checkpoint.sha256,
            "recipe": loaded.recipe.to_json(),
            "data": loaded.checkpoint.about["data"],
            **({TRAINED_ON: releases} if releases else {}),
            "encoder": loaded.checkpoint.about["encoder"],
            "preprocessing": asdict(loaded.scorer.encoder.preprocessing),
            "text": "as LAVIS' blip_caption",
            "hsfiq": __version__,
            "torch": torch.__version__,
        }
    )


@contextmanager
def pictures(
    sets: Collection[ReleasedSet], release: Path, folder: Path | None
) -> Iterator[Mapping[str, Path]]:
    """The files of the sets' and queries' images, as far as they are there.

    Raises:
        UnreadableInput: nothing says where the images are.
    """
    wanted = {image for it in sets for image in (it.reference, *it.images)}
    folder = folder or usual_folder(release) or usual_folder(Path())
    with pictures_in(folder, wanted, (str(release), "a release holds no images")) as files:
        yield files


@contextmanager
def pictures_in(
    folder: Path | None, wanted: Collection[str], otherwise: tuple[str, str]
) -> Iterator[Mapping[str, Path]]:
    """The files of some images, as far as they are there.

    Pictures of the drawn catalogue need no folder: they are drawn again.

    Args:
        folder: theirs; None where nobody knows it.
        wanted: the images' ids.
        otherwise: where and what to say if they have none.

    Raises:
        UnreadableInput: nothing says where the images are.
    """
    if folder is not None:
        yield existing(folder, wanted)
        return
    try:
        garments = [garment_of(image) for image in sorted(wanted)]
    except InvalidRecord:
        raise UnreadableInput(*otherwise, "name their folder with --images") from None
    with TemporaryDirectory() as drawn:
        write_images(garments, Path(drawn))
        yield existing(Path(drawn), wanted)


def existing(folder: Path, wanted: Collection[str]) -> dict[str, Path]:
    """The files in a folder, by image id.

    Raises:
        UnreadableInput: there is no such folder.
    """
    if not folder.is_dir():
        raise UnreadableInput(str(folder), "there is no such folder", "name another with --images")
    files = ImageFolder(folder)
    return {image: path for image in sorted(wanted) if (path := files.find(image)) is not None}
