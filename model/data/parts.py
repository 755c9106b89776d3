"""Where triplets meet the image files: what is there is kept, what is not is named."""

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
    """Take the two splits of one category together.

    Raises:
        UnreadableInput: a triplet has no target.
    """
    trained = examples_of(train, name)
    pool = train.images if rule == "corpus" else tuple(it.target for it in trained)
    return Part(name, trained, examples_of(val, name), distinct(pool), distinct(val.images))


def examples_of(source: Source, pool: str) -> tuple[Example, ...]:
    """The triplets of one captions file, each with its target.

    Raises:
        UnreadableInput: one has none.
    """
    examples = []
    for it in source.triplets:
        if it.target is None:
            raise UnreadableInput(
                str(source.path),
                f"triplet {it.external_id} has no target",
                "training and validation need one for each",
            )
        examples.append(Example(it.external_id, it.reference, it.target, it.captions, pool))
    return tuple(examples)


def with_images(name: str, parts: Sequence[Part], folder: Path) -> TrainingData:
    """Keep what the images in `folder` allow, and name the rest.

    Raises:
        UnreadableInput: no triplet of one split is left, or a pool or corpus has one image only.
    """
    files = ImageFolder(folder)
    wanted = distinct(image for part in parts for image in part.images())
    found = {image: path for image in wanted if (path := files.find(image)) is not None}
    return with_files(name, parts, found, str(folder))


def without(data: TrainingData, images: Container[str]) -> TrainingData:
    """The same data, less some of its images.

    Raises:
        UnreadableInput: as `with_images`.
    """
    left = {image: path for image, path in data.images.items() if image not in images}
    return with_files(data.name, data.whole, left, data.name)


def first_of(data: TrainingData, n: int) -> TrainingData:
    """The first triplets of each part, about n to train with, and the candidates they name."""
    each = -(-n // len(data.whole))
    parts = [first_of_part(part, each) for part in data.whole]
    return with_files(data.name, parts, data.images, data.name)


def first_of_part(part: Part, n: int) -> Part:
    """The first n triplets of each split, with the candidates that they name."""
    train, val = part.train[:n], part.val[:n]
    pool, corpus = (
        tuple(image for image in candidates if image in named)
        for candidates, named in ((part.pool, named_by(train)), (part.corpus, named_by(val)))
    )
    return Part(part.name, train, val, pool, corpus)


def named_by(examples: Sequence[Example]) -> set[str]:
    """References and targets."""
    return {image for it in examples for image in (it.reference, it.target)}


def with_files(
    name: str, parts: Sequence[Part], images: dict[str, Path], where: str
) -> TrainingData:
    """Keep what these image files, by image id, allow; `where` is for messages."""
    wanted = distinct(image for part in parts for image in part.images())
    kept = [what_is_there(part, images) for part in parts]
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
    left_over = {*train, *val}
    return TrainingData(
        name=name,
        train=train,
        val=val,
        # Nobody asks for the candidates of a category of which no triplet is left.
        pools={part.name: part.pool for part in kept if part.train},
        corpora={part.name: part.corpus for part in kept if part.val},
        images=images,
        missing=tuple(sorted(set(wanted) - set(images))),
        dropped=tuple(
            example.triplet_id
            for part in parts
            for example in (*part.train, *part.val)
            if example not in left_over
        ),
        incomplete=tuple(incomplete_of(parts, kept)),
        whole=tuple(parts),
    )


def what_is_there(part: Part, images: Container[str]) -> Part:
    """The part without the images that are missing and the triplets that name them."""
    train, val = (
        tuple(it for it in examples if it.reference in images and it.target in images)
        for examples in (part.train, part.val)
    )
    pool, corpus = (
        tuple(image for image in candidates if image in images)
        for candidates in (part.pool, part.corpus)
    )
    return Part(part.name, train, val, pool, corpus)


def incomplete_of(parts: Sequence[Part], kept: Sequence[Part]) -> Iterator[Incomplete]:
    """The pools and corpora of which images are missing."""
    for whole, left in zip(parts, kept, strict=True):
        if len(left.pool) < len(whole.pool):
            yield Incomplete("pool", whole.name, len(left.pool), len(whole.pool))
        if len(left.corpus) < len(whole.corpus):
            yield Incomplete("corpus", whole.name, len(left.corpus), len(whole.corpus))
