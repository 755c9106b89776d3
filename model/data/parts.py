"""Restricting triplets to the images that exist, and recording what is left out."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from pathlib import Path

from hsfiq.errors import UnreadableInput
from hsfiq.images.folder import ImageFolder
from hsfiq.model.data.triplets import Example, Incomplete, Part, TrainingData, distinct
from hsfiq.model.recipes.values import PoolRule
from hsfiq.readers.sources import Source

SPLITS = ("train", "val")


def part_of(name: str, train: Source, val: Source, rule: PoolRule) -> Part:
    examples = examples_of(train, name)
    pool = train.images if rule == "corpus" else tuple(example.target for example in examples)
    return Part(name, examples, examples_of(val, name), distinct(pool), distinct(val.images))


def examples_of(source: Source, pool: str) -> tuple[Example, ...]:
    """The triplets of one captions file; UnreadableInput if one has no target."""
    examples = []
    for triplet in source.triplets:
        if triplet.target is None:
            raise UnreadableInput(
                str(source.path),
                f"triplet {triplet.external_id} has no target",
                "training and validation need a target for each triplet",
            )
        members = source.image_sets.get(triplet.external_id, ())
        examples.append(
            Example(
                triplet.external_id,
                triplet.reference,
                triplet.target,
                triplet.captions,
                pool,
                subset=tuple(image for image in members if image != triplet.reference),
            )
        )
    return tuple(examples)


def with_images(name: str, parts: Sequence[Part], folder: Path) -> TrainingData:
    """Restrict the parts to the images in a folder, and record what is left out.

    Raises UnreadableInput if a split has no triplet left, or a pool or corpus under two images.
    """
    files = ImageFolder(folder)
    wanted = distinct(image for part in parts for image in part.images())
    images = {image: path for image in wanted if (path := files.find(image)) is not None}
    return with_files(name, parts, images, str(folder))


def without(data: TrainingData, images: Container[str]) -> TrainingData:
    """The same data without some of its images; raises as `with_images`."""
    left = {image: path for image, path in data.images.items() if image not in images}
    return with_files(data.name, data.parts, left, data.name)


def first_of(data: TrainingData, n: int) -> TrainingData:
    """The first triplets of each part, about n for training, and the candidates that they name."""
    n_each = -(-n // len(data.parts))
    parts = [
        Part(
            part.name,
            part.train[:n_each],
            part.val[:n_each],
            among(part.pool, named_by(part.train[:n_each])),
            among(part.corpus, named_by(part.val[:n_each])),
        )
        for part in data.parts
    ]
    return with_files(data.name, parts, data.images, data.name)


def named_by(examples: Sequence[Example]) -> set[str]:
    return {image for example in examples for image in (example.reference, example.target)}


def among(candidates: Sequence[str], images: Container[str]) -> tuple[str, ...]:
    return tuple(image for image in candidates if image in images)


def with_files(
    name: str, parts: Sequence[Part], images: dict[str, Path], where: str
) -> TrainingData:
    """Restrict the parts to these image files, by image id; `where` is for messages."""
    wanted = distinct(image for part in parts for image in part.images())
    kept = [available_part(part, images) for part in parts]
    train = tuple(example for part in kept for example in part.train)
    val = tuple(example for part in kept for example in part.val)
    for split, left in zip(SPLITS, (train, val), strict=True):
        if not left:
            raise UnreadableInput(
                where,
                f"no triplet of split {split!r} has both its images here "
                f"({len(images):,} of {len(wanted):,} images found)",
                "name the images' folder with --images",
            )
    remaining = {*train, *val}
    return TrainingData(
        name=name,
        train=train,
        val=val,
        # A category without any triplet needs no candidates.
        pools={part.name: part.pool for part in kept if part.train},
        corpora={part.name: part.corpus for part in kept if part.val},
        images=images,
        missing=tuple(sorted(set(wanted) - set(images))),
        dropped=tuple(
            example.triplet_id
            for part in parts
            for example in (*part.train, *part.val)
            if example not in remaining
        ),
        incomplete=tuple(incomplete_of(parts, kept)),
        parts=tuple(parts),
    )


def available_part(part: Part, images: Container[str]) -> Part:
    """The part without missing images and the triplets that name them."""
    train, val = (
        tuple(
            example
            for example in examples
            if example.reference in images and example.target in images
        )
        for examples in (part.train, part.val)
    )
    return Part(part.name, train, val, among(part.pool, images), among(part.corpus, images))


def incomplete_of(parts: Sequence[Part], kept: Sequence[Part]) -> Iterator[Incomplete]:
    for part, left in zip(parts, kept, strict=True):
        if len(left.pool) < len(part.pool):
            yield Incomplete("pool", part.name, len(left.pool), len(part.pool))
        if len(left.corpus) < len(part.corpus):
            yield Incomplete("corpus", part.name, len(left.corpus), len(part.corpus))
