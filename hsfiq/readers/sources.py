"""What the readers of CIR datasets give: triplets with the corpus they are searched in."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from hsfiq.records import Triplet


@dataclass(frozen=True, slots=True)
class Source:
    """The triplets of one captions file and the images of its corpus, each in the file's order.

    `image_sets` are CIRR's: the members of a triplet's image set, by the triplet's outside id.
    """

    path: Path
    corpus: str
    images: tuple[str, ...]
    triplets: tuple[Triplet, ...]
    image_sets: dict[str, tuple[str, ...]] = field(default_factory=dict)
