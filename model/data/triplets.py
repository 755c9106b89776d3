"""What a training run reads: triplets, their candidates, and image files.

Images may be missing, as in most copies of FashionIQ. `TrainingData` records everything that is
left out for them, and `missing_lines` and `missing_text` report it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from hsfiq.errors import UnreadableInput

MISSING_FILE = "missing_images.txt"


@dataclass(frozen=True, slots=True)
class Example:
    """A triplet with a known target; `pool` names its candidates in training or validation."""

    triplet_id: str
    reference: str
    target: str
    captions: tuple[str, ...]
    pool: str
    subset: tuple[str, ...] = ()  # CIRR: the other five images of its image set


@dataclass(frozen=True, slots=True)
class Incomplete:
    """A training pool or a validation corpus of which some images are missing."""

    kind: Literal["pool", "corpus"]
    name: str
    n_available: int
    n_images: int


@dataclass(frozen=True, slots=True)
class Part:
    """The triplets that share one pool and one corpus, whether or not their images exist."""

    name: str
    train: tuple[Example, ...]
    val: tuple[Example, ...]
    pool: tuple[str, ...]
    corpus: tuple[str, ...]

    def images(self) -> Iterable[str]:
        """Every image, some more than once."""
        for example in (*self.train, *self.val):
            yield from (example.reference, example.target)
        yield from self.pool
        yield from self.corpus


@dataclass(frozen=True, slots=True)
class TrainingData:
    """The triplets for training and those that select the best epoch.

    Attributes:
        pools: the candidates of training negatives by name (FashionIQ: its categories), each image
            once, in the order of its file.
        corpora: the candidates of validation, by the same names.
        images: the files of all these images, by id.
        missing: the images without a file.
        dropped: the triplets left out for them.
        parts: everything, before images were left out.

    Raises:
        UnreadableInput: a target is not among its candidates, or these are fewer than two.
    """

    name: str
    train: tuple[Example, ...]
    val: tuple[Example, ...]
    pools: dict[str, tuple[str, ...]]
    corpora: dict[str, tuple[str, ...]]
    images: dict[str, Path]
    missing: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    incomplete: tuple[Incomplete, ...] = ()
    parts: tuple[Part, ...] = ()

    def __post_init__(self) -> None:
        self._check("pool", self.train, self.pools)
        self._check("corpus", self.val, self.corpora)

    def _check(
        self, kind: str, examples: Iterable[Example], candidates: dict[str, tuple[str, ...]]
    ) -> None:
        members = {name: set(images) for name, images in candidates.items()}
        for name, images in members.items():
            if len(images) < 2:
                raise UnreadableInput(
                    f"{self.name}: {kind} {name!r}",
                    f"has {len(images)} images, but a target needs at least one other",
                    "put the missing images in place",
                )
        for example in examples:
            if example.target not in members.get(example.pool, ()):
                raise UnreadableInput(
                    f"{self.name}: triplet {example.triplet_id}",
                    f"its target {example.target!r} is not in the {kind} {example.pool!r}",
                )


def missing_lines(data: TrainingData) -> tuple[str, ...]:
    """The report on missing images for the terminal; empty if none is missing."""
    if not data.missing:
        return ()
    n_images = len(data.images) + len(data.missing)
    n_triplets = len(data.train) + len(data.val) + len(data.dropped)
    lines = [
        (
            f"{len(data.missing):,} of {n_images:,} images are missing, {len(data.dropped):,} of "
            f"{n_triplets:,} triplets are left out for them ({MISSING_FILE} names both)"
        )
    ]
    for part in data.incomplete:
        line = f"{part.kind} {part.name}: {part.n_available:,} of {part.n_images:,} images"
        if part.kind == "corpus":
            line += "; recall on it is not comparable with published figures"
        lines.append(line)
    return tuple(lines)


def missing_text(data: TrainingData) -> str:
    """The content of `missing_images.txt`: one id per line, images before triplets."""
    lines = [f"# images without a file: {len(data.missing)}", *data.missing]
    lines += [f"# triplets left out for them: {len(data.dropped)}", *data.dropped]
    return "\n".join(lines) + "\n"


def rows_by_pool(examples: Sequence[Example]) -> dict[str, list[int]]:
    rows: dict[str, list[int]] = {}
    for row, example in enumerate(examples):
        rows.setdefault(example.pool, []).append(row)
    return rows


def distinct(names: Iterable[str]) -> tuple[str, ...]:
    """Each name once, at its first place."""
    return tuple(dict.fromkeys(names))
