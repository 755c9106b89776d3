"""`hsfiq score`: a trained scorer's scores as a column of a release.

The files on this path, in order: `hsfiq/cli/score.py` parses the options, this module decides
whether to score, `model/scorer/loading.py` loads the scorer, `encoded_images.py` computes the
images' tokens, `set_scores.py` scores images and sets with `model/scorer/scorer.py`, and
`score_files.py` writes RELEASE.scores/.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from hsfiq.errors import UnreadableInput
from hsfiq.model.checkpoints.checkpoint import sha256_of
from hsfiq.model.release_scores.encoded_images import encode_images, images_of_release
from hsfiq.model.release_scores.provenance import (
    LATER_KEYS,
    TRAINED_ON,
    VERSIONS,
    scorer_provenance,
)
from hsfiq.model.release_scores.score_files import (
    are_complete,
    earlier_scores,
    scores_folder,
    write_scores,
)
from hsfiq.model.release_scores.set_scores import score_sets
from hsfiq.model.retrieval.loading import LoadedRetriever, load_retriever
from hsfiq.model.scorer.paths import ScorerPaths
from hsfiq.model.training.callbacks import Callback
from hsfiq.model.training.run import jsonable
from hsfiq.releases.manifest import read_manifest
from hsfiq.releases.reader import QUERIES, SETS, SPLITS, TURNS, is_of_searches, read_sets
from hsfiq.text import first_few


def score_release(
    release: Path,
    name: str,
    paths: ScorerPaths,
    device: torch.device,
    callback: Callback,
    *,
    force: bool = False,
) -> dict[str, Any]:
    """Score a release, unless the same scorer has done so; return the JSON file's content.

    `force` scores in any case, and replaces any scores of this name; without it, other scores of
    this name are UnreadableInput.
    """
    sets = read_sets(release)
    folder = scores_folder(release)
    loaded = load_retriever(paths.required("checkpoint"), paths.weights, device)
    provenance = provenance_of(name, release, loaded)
    if not force and (before := earlier_scores(folder, name)):
        if not is_same(provenance, before):
            raise UnreadableInput(
                str(folder / f"{name}.json"),
                "holds the scores of another scorer, or of another release",
                "choose another --name, or --force",
            )
        # What was scored by an earlier version is scored again.
        is_recorded = all(before.get(key) == provenance.get(key) for key in LATER_KEYS)
        if is_recorded and not before.get("missing_images") and are_complete(folder, before):
            return before
    with images_of_release(sets, release, paths.images) as files:
        inference, available = encode_images(loaded, files, paths.cache, device, callback)
    scores = score_sets(sets, available, loaded.recipe.pooling, inference)
    if not scores.sets:
        raise UnreadableInput(
            str(release),
            f"no set has all its images: {first_few(scores.missing)} are missing or unreadable",
            "name the folder of the images with --images",
        )
    return write_scores(folder, name, scores, provenance)


def provenance_of(name: str, release: Path, loaded: LoadedRetriever) -> dict[str, Any]:
    """What determines the scores, apart from which images are available."""
    return jsonable(
        {
            "metric": name,
            "release": {
                "name": release.resolve().name,
                "sha256": {file: sha256_of(release / file) for file in scored_files(release)},
            },
            **scorer_provenance(loaded),
        }
    )


def scored_files(release: Path) -> tuple[str, ...]:
    """The tables that hold what is scored."""
    return (TURNS,) if is_of_searches(release) else (QUERIES, SETS)


def is_same(provenance: Mapping[str, Any], before: Mapping[str, Any]) -> bool:
    """Whether scorer and release are the same; the versions of programs may differ."""
    unrecorded = [key for key in LATER_KEYS if key not in before]
    ignored = (*VERSIONS, *unrecorded)
    return all(before.get(key) == value for key, value in provenance.items() if key not in ignored)


def has_held_out_part(release: Path, about: Mapping[str, Any]) -> bool:
    """Whether the scorer was trained on this release, which holds out a part."""
    manifest = read_manifest(release)
    return (
        manifest is not None
        and (release / SPLITS).is_file()
        and any(
            source["content_sha256"] == manifest["content_sha256"]
            for source in about.get(TRAINED_ON, ())
        )
    )
