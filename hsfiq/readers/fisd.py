"""FISD ("A Sanity Check on Composed Image Retrieval", section 3.1): triplets in six aspects.

Its files are not published, so this layout is our own: `<aspect>.json`, a list, or
`<aspect>.jsonl`, a line for each triplet: {id, reference, target, hard_negative, caption}, with
image ids, one or a list of them as `hard_negative`; other keys are ignored. Every aspect has its
own corpus: the images of its triplets, in the order of the file. An image belongs to one triplet of
an aspect.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from hsfiq.errors import UnreadableInput
from hsfiq.readers.files import Place, numbered_lines, open_place, parse_json, read_text

Aspect = Literal["cardinality", "addition", "negation", "change", "background", "complex"]
ASPECTS: tuple[Aspect, ...] = get_args(Aspect)
"""In the order of the paper's Table 1."""

ABOUT_DRAWN = "drawn.json"
"""In a folder of drawn aspects, with their seed and sizes."""


@dataclass(frozen=True, slots=True)
class FisdTriplet:
    triplet_id: str
    reference: str
    target: str
    hard_negatives: tuple[str, ...]
    caption: str

    @property
    def images(self) -> tuple[str, ...]:
        return (self.reference, self.target, *self.hard_negatives)


def read(folder: Path) -> dict[Aspect, tuple[FisdTriplet, ...]]:
    """Read all six aspects.

    Raises:
        UnreadableInput: a file is missing or empty, an id occurs twice, or an image does.
    """
    return {aspect: read_aspect(folder, aspect) for aspect in ASPECTS}


def read_aspect(folder: Path, aspect: Aspect) -> tuple[FisdTriplet, ...]:
    triplets: dict[str, FisdTriplet] = {}
    seen: dict[str, str] = {}
    path = aspect_file(folder, aspect)
    for place in places_in(path):
        triplet = read_triplet(place)
        if triplet.triplet_id in triplets:
            raise place.wrong(f"the id {triplet.triplet_id!r} occurs twice")
        for image in triplet.images:
            if image in seen:
                raise place.wrong(
                    f"the image {image!r} is also in triplet {seen[image]!r}",
                    "an image belongs to one triplet of an aspect, in one role",
                )
            seen[image] = triplet.triplet_id
        triplets[triplet.triplet_id] = triplet
    if not triplets:
        raise UnreadableInput(str(path), "holds no triplet")
    return tuple(triplets.values())


def aspect_file(folder: Path, aspect: Aspect) -> Path:
    paths = [folder / f"{aspect}.{extension}" for extension in ("json", "jsonl")]
    path = next((path for path in paths if path.is_file()), None)
    if path is None:
        raise UnreadableInput(
            str(folder),
            f"neither {paths[0].name} nor {paths[1].name} here",
            f"a file for each of {', '.join(ASPECTS)}; docs/fisd.md has the layout",
        )
    return path


def places_in(path: Path) -> Iterator[Place]:
    if path.suffix == ".json":
        yield from open_place(path).list()
        return
    for number, line in numbered_lines(read_text(path)):
        yield Place(parse_json(line, str(path), number), f"{path}: line {number}: ")


def read_triplet(place: Place) -> FisdTriplet:
    negative = place.key("hard_negative")
    several = negative.list() if isinstance(negative.value, list) else [negative]
    if not several:
        raise negative.wrong("a triplet has one hard negative or more")
    return FisdTriplet(
        triplet_id=place.key("id").name(),
        reference=place.key("reference").name(),
        target=place.key("target").name(),
        hard_negatives=tuple(each.name() for each in several),
        caption=place.key("caption").text(),
    )
