"""Scores of images and retrieved sets: a set's score is the mean relevance of its images."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from hsfiq.model.recipes.values import Pooling
from hsfiq.model.scorer.inference import Inference
from hsfiq.model.scorer.scorer import paired_relevance, set_score
from hsfiq.releases.reader import ReleasedSet

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SetScores:
    """A scorer's scores for a release, not divided by the temperature."""

    images: list[tuple[str, str, float]]  # (set_id, image_id, score) of every available image
    sets: list[tuple[str, float]]  # (set_id, score) of the sets all of whose images are available
    missing: list[str]  # the images that are missing or unreadable, sorted
    unscored: list[str]  # the ids of the other sets


def score_sets(
    sets: Sequence[ReleasedSet], available: Collection[str], pooling: Pooling, inference: Inference
) -> SetScores:
    """Score the available images, which are those with tokens, of every set."""
    possible = [
        released
        for released in sets
        if released.reference in available and any(image in available for image in released.images)
    ]
    images: list[tuple[str, str, float]] = []
    means: dict[str, float] = {}
    relevances = image_relevances(possible, available, pooling, inference) if possible else ()
    for released, scores in zip(possible, relevances, strict=True):
        images += [(released.set_id, image, score) for image, score in scores.items()]
        if scores.keys() == set(released.images):
            means[released.set_id] = set_score(scores[image] for image in released.images)
    wanted = {image for released in sets for image in (released.reference, *released.images)}
    return SetScores(
        images=images,
        sets=list(means.items()),
        missing=sorted(wanted.difference(available)),
        unscored=[released.set_id for released in sets if released.set_id not in means],
    )


def image_relevances(
    sets: Sequence[ReleasedSet], available: Collection[str], pooling: Pooling, inference: Inference
) -> Iterator[dict[str, float]]:
    """The relevance of each set's available images to the set's query."""
    column = indexed(image for released in sets for image in released.images if image in available)
    row = indexed((released.reference, released.text) for released in sets)
    gallery = inference.gallery(list(column))  # [N, L, D]
    queries = inference.queries(
        [reference for reference, _ in row], [text for _, text in row]
    )  # [Q, D]
    for released in sets:
        present = [image for image in released.images if image in column]
        vectors = gallery[[column[image] for image in present]]  # [k, L, D]
        query = queries[row[released.reference, released.text]].expand(len(present), -1)  # [k, D]
        yield dict(zip(present, paired_relevance(query, vectors, pooling).tolist(), strict=True))


def indexed(names: Iterable[T]) -> dict[T, int]:
    """Each distinct name with its index, in order of first occurrence."""
    return {name: index for index, name in enumerate(dict.fromkeys(names))}
