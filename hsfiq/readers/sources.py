"""What the readers of CIR datasets return: triplets with the corpus that they are searched in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hsfiq.records import Triplet


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
