"""Scoring image sets that are no release: JSON lines in, JSON lines out."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from hsfiq.atomic_files import require_new, write_whole
from hsfiq.errors import UnreadableInput
from hsfiq.images.folder import usual_folder
from hsfiq.model.checkpoints.checkpoint import sha256_of
from hsfiq.model.release_scores.encoded_images import encode_images, find_images
from hsfiq.model.release_scores.provenance import scorer_provenance
from hsfiq.model.release_scores.set_scores import SetScores, score_sets
from hsfiq.model.retrieval.loading import load_retriever
from hsfiq.model.scorer.paths import ScorerPaths
from hsfiq.model.training.callbacks import Callback
from hsfiq.model.training.run import jsonable
from hsfiq.readers.files import Place, numbered_lines, parse_json, read_text
from hsfiq.releases.reader import ReleasedSet

LONGEST_IMAGE = 400
"""Characters of an image's name."""


@dataclass(frozen=True, slots=True)
class PlainScores:
    """Where the scores are, and what they were computed with."""

    out: Path
    n_sets: int
    n_scored: int
    missing_images: list[str]
    provenance: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        return {
            "out": str(self.out),
            "n_sets": self.n_sets,
            "n_scored": self.n_scored,
            "missing_images": self.missing_images,
            **self.provenance,
        }


def score_file(
    path: Path, out: Path, paths: ScorerPaths, device: torch.device, callback: Callback
) -> PlainScores:
    """Score the sets of a file and write a line for each into the new file `out`.

    A line has `reference`, `text`, `images` and, if given, `id`, which is otherwise the line's
    number. Its result has `id`, `score` (null if an image is missing) and `images`, the score of
    each available image.

    Raises:
        UnreadableInput: a line is not such a set, no set has all its images, or `out` exists.
    """
    require_new(out)
    sets = read_plain_sets(path)
    loaded = load_retriever(paths.required("checkpoint"), paths.weights, device)
    wanted = {image for each in sets for image in (each.reference, *each.images)}
    folder = paths.images or usual_folder(Path())
    with find_images(folder, wanted, (str(path), "names images whose folder is unknown")) as files:
        inference, available = encode_images(loaded, files, paths.cache, device, callback)
    scores = score_sets(sets, available, loaded.recipe.pooling, inference)
    if not scores.sets:
        raise UnreadableInput(
            str(path),
            f"no set has all its images: {scores.missing[0]} is missing or unreadable",
            "name the folder of the images with --images",
        )
    write_whole(out, as_lines(sets, scores))
    provenance = jsonable({"sets_sha256": sha256_of(path), **scorer_provenance(loaded)})
    return PlainScores(out, len(sets), len(scores.sets), scores.missing, provenance)


def read_plain_sets(path: Path) -> list[ReleasedSet]:
    sets: dict[str, ReleasedSet] = {}
    for number, line in numbered_lines(read_text(path)):
        place = Place(parse_json(line, str(path), number), f"{path}: line {number}: ")
        place.only("id", "reference", "text", "images")
        set_id = place.key("id").name() if "id" in place.value else str(number)
        text = place.key("text")
        if not text.text().strip():
            raise text.wrong("is empty", "a scorer reads the reference and a text")
        images = tuple(image.name(LONGEST_IMAGE) for image in place.key("images").list())
        if not images:
            raise place.key("images").wrong("names no image")
        if set_id in sets:
            raise place.wrong(f"the id {set_id!r} occurs twice", "number the sets or leave ids out")
        reference = place.key("reference").name(LONGEST_IMAGE)
        sets[set_id] = ReleasedSet(set_id, set_id, reference, text.text(), images)
    if not sets:
        raise UnreadableInput(str(path), "has no line", "write one JSON object a line")
    return list(sets.values())


def as_lines(sets: list[ReleasedSet], scores: SetScores) -> bytes:
    by_image: dict[str, dict[str, float]] = {each.set_id: {} for each in sets}
    for set_id, image, score in scores.images:
        by_image[set_id][image] = score
    means = dict(scores.sets)
    lines = [
        {"id": each.set_id, "score": means.get(each.set_id), "images": by_image[each.set_id]}
        for each in sets
    ]
    return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines).encode()
