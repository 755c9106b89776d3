"""What a training run reads: triplets, the candidates they are held against, and image files.

Images may be absent, as they mostly are in copies of FashionIQ. Nothing that lacks them is left
out silently: the record names it, `missing_lines` and `missing_text` say it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from hsfiq.errors import UnreadableInput

MISSING_FILE = "missing_images.txt"


@dataclass(frozen=True, slots=True)
class Example:
    """A triplet with its target known; `pool` names its candidates, in training and validation."""

    triplet_id: str
    reference: str
    target: str
    captions: tuple[str, ...]
    pool: str


@dataclass(frozen=True, slots=True)
class Incomplete:
    """A training pool or a validation corpus of which some images are missing."""

    what: Literal["pool", "corpus"]
    name: str
    n_found: int
    n_whole: int


@dataclass(frozen=True, slots=True)
class Part:
    """What shares one pool and one corpus, before its images are looked for."""

    name: str
    train: tuple[Example, ...]
    val: tuple[Example, ...]
    pool: tuple[str, ...]
    corpus: tuple[str, ...]

    def images(self) -> Iterable[str]:
        """Every image that is named, some more than once."""
        for example in (*self.train, *self.val):
            yield from (example.reference, example.target)
        yield from self.pool
        yield from self.corpus


@dataclass(frozen=True, slots=True)
class TrainingData:
    """The triplets that are trained on and those that choose the best epoch.

    `pools` hold the candidates of training negatives, `corpora` those of validation, by the same
    names (FashionIQ: its categories); each image once, in the order of its file. `images` are
    the files of all images named here. `missing` are the images without a file, `dropped` the
    triplets left out for them, `whole` is all that there was before.

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
    whole: tuple[Part, ...] = ()

    def __post_init__(self) -> None:
        self._check("pool", self.train, self.pools)
        self._check("corpus", self.val, self.corpora)

    def _check(
        self, what: str, examples: Iterable[Example], candidates: dict[str, tuple[str, ...]]
    ) -> None:
        members = {name: set(images) for name, images in candidates.items()}
        for name, images in members.items():
            if len(images) < 2:
                raise UnreadableInput(
                    f"{self.name}: {what} {name!r}",
                    f"holds {len(images)}, but a target needs another image beside it",
                    "put the missing images in place",
                )
        for example in examples:
            if example.target not in members.get(example.pool, ()):
                raise UnreadableInput(
                    f"{self.name}: triplet {example.triplet_id}",
                    f"its target {example.target!r} is not in the {what} {example.pool!r}",
                )


def missing_lines(data: TrainingData) -> tuple[str, ...]:
    """What to tell a person about missing images; nothing where none is missing."""
    if not data.missing:
        return ()
    n_images = len(data.images) + len(data.missing)
    n_triplets = len(data.train) + len(data.val) + len(data.dropped)
    first = (
        f"{len(data.missing):,} of {n_images:,} images are missing, {len(data.dropped):,} of "
        f"{n_triplets:,} triplets are left out for them ({MISSING_FILE} names both)"
    )
    lines = [first]
    for part in data.incomplete:
        line = f"{part.what} {part.name}: {part.n_found:,} of {part.n_whole:,} images"
        if part.what == "corpus":
            line += "; recall on it is not comparable with published figures"
        lines.append(line)
    return tuple(lines)


def missing_text(data: TrainingData) -> str:
    """The text of `missing_images.txt`: an id a line, images before triplets."""
    return "\n".join(
        (
            f"# images without a file: {len(data.missing)}",
            *data.missing,
            f"# triplets left out for them: {len(data.dropped)}",
            *data.dropped,
            "",
        )
    )


def distinct(names: Iterable[str]) -> tuple[str, ...]:
    """Each name once, where it came first."""
    return tuple(dict.fromkeys(names))
