"""The records that packages exchange: readers return them, `collect` and `importing` store them.

Each record validates itself; answers are in `hsfiq.answer_rules`. Ids are outside ids (see
`hsfiq.ids`), never database keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from hsfiq.errors import InvalidRecord

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hsfiq.answer_rules import Answer


@dataclass(frozen=True, slots=True)
class Triplet:
    """A reference and a target image with the captions that describe the difference.

    `target` is None if the dataset withholds it (test splits).
    """

    external_id: str
    reference: str
    target: str | None
    captions: tuple[str, ...]
    category: str = ""
    split: str | None = None


@dataclass(frozen=True, slots=True)
class OwnQuery:
    """A query of own data; it has a reference, a text, or both.

    `text` is what annotators read, empty if there is none; `captions` are what it consists of.
    """

    query_id: str
    text: str
    captions: tuple[str, ...]
    reference: str | None = None
    target: str | None = None
    category: str = ""
    split: str | None = None

    def __post_init__(self) -> None:
        if self.reference is None and not self.text:
            raise InvalidRecord("has neither a text nor a reference image")


@dataclass(frozen=True, slots=True)
class RankedList:
    """What one system returned for one query, best first; `scores` if the run has them."""

    query_id: str
    system: str
    images: tuple[str, ...]
    scores: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        if not self.images:
            raise InvalidRecord(f"the list of query {self.query_id} is empty")
        if len(set(self.images)) < len(self.images):
            twice = next(name for name in self.images if self.images.count(name) > 1)
            raise InvalidRecord(f"the list of query {self.query_id} contains image {twice} twice")
        if self.scores is not None and len(self.scores) != len(self.images):
            raise InvalidRecord(
                f"the list of query {self.query_id} has {len(self.images)} images "
                f"but {len(self.scores)} scores"
            )


@dataclass(frozen=True, slots=True)
class JudgedPair:
    """One question of a published study with its answer: the two sets as shown, side by side."""

    reference: str
    target: str
    text: str
    sets: tuple[tuple[str, ...], tuple[str, ...]]
    answer: Answer


@dataclass(frozen=True, slots=True)
class PublishedForm:
    participant: str
    name: str
    category: str
    questions: Sequence[JudgedPair]


# What the readers of CIR datasets return: triplets with the corpus that they are searched in.


@dataclass(frozen=True, slots=True)
class Source:
    """The triplets of one captions file and its corpus, each in the file's order.

    Attributes:
        path: the captions file.
        corpus: the name of the split.
        images: the ids of the corpus; empty if the dataset's folder does not list it.
        image_sets: CIRR's image set of each triplet, by outside id.
        truths: CIRCO's ground truths of each triplet, the target first, by outside id.
    """

    path: Path
    corpus: str
    images: tuple[str, ...]
    triplets: tuple[Triplet, ...]
    image_sets: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    truths: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def answers(self, triplet: Triplet) -> tuple[str, ...]:
        """All correct images of a triplet, the target first; none if the dataset withholds them."""
        target = () if triplet.target is None else (triplet.target,)
        return self.truths.get(triplet.external_id, target)

    def all_images(self) -> tuple[str, ...]:
        """Every image that the corpus, a triplet or a ground truth names, each once."""
        named = [*self.images, *(triplet.reference for triplet in self.triplets)]
        named += [triplet.target for triplet in self.triplets if triplet.target is not None]
        named += [truth for answers in self.truths.values() for truth in answers]
        return tuple(dict.fromkeys(named))
