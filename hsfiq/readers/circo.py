"""CIRCO's annotations (github.com/miccunifi/CIRCO).

`<split>.json`, in the folder itself or in `annotations/`, lists {reference_img_id,
relative_caption, id, ...}; val adds {target_img_id, gt_img_ids, semantic_aspects}. The images are
COCO's 2017 unlabelled ones, listed in `image_info_unlabeled2017.json`. An image's id is a number:
here written in decimal without padding.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from hsfiq.errors import UnreadableInput
from hsfiq.readers.files import Place, open_place

INDEX = "image_info_unlabeled2017.json"
MAX_DECIMALS = 12
"""Of a COCO id, as in the names of its image files."""


@dataclass(frozen=True, slots=True)
class Annotation:
    """One query; `target`, `truths` (target first) and `aspects` are those of val only."""

    query_id: str
    reference: str
    caption: str
    target: str | None
    truths: tuple[str, ...]
    aspects: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Annotations:
    """A split's queries in the file's order; `images` is None if the folder has no `INDEX`."""

    path: Path
    queries: tuple[Annotation, ...]
    images: tuple[str, ...] | None


def read(folder: Path, split: str) -> Annotations:
    """Read a split's annotations, and the list of COCO's images if it is in a subfolder."""
    names = (f"{split}.json", f"annotations/{split}.json")
    path = next((folder / name for name in names if (folder / name).is_file()), None)
    if path is None:
        raise UnreadableInput(
            str(folder), f"neither {names[0]} nor {names[1]} here", "name CIRCO's folder"
        )
    queries: dict[str, Annotation] = {}
    for place in open_place(path).list():
        query = read_query(place)
        if query.query_id in queries:
            raise place.wrong(f"the id {query.query_id} occurs twice")
        queries[query.query_id] = query
    index = min(folder.rglob(INDEX), default=None)
    return Annotations(path, tuple(queries.values()), None if index is None else read_index(index))


def read_query(place: Place) -> Annotation:
    target, truths, aspects = None, [], []
    query_id = number(place.key("id"))
    if "target_img_id" in place.value:
        target = number(place.key("target_img_id"))
        answers = place.key("gt_img_ids")
        truths = [number(truth) for truth in answers.list()]
        if target not in truths or len(set(truths)) < len(truths):
            raise answers.wrong("must be the target and other images, each once")
        aspects = [aspect.name() for aspect in place.key("semantic_aspects").list()]
    return Annotation(
        query_id=query_id,
        reference=number(place.key("reference_img_id")),
        caption=place.key("relative_caption").text(),
        target=target,
        truths=tuple(sorted(truths, key=lambda truth: truth != target)),
        aspects=tuple(dict.fromkeys(aspects)),
    )


def read_index(path: Path) -> tuple[str, ...]:
    images = open_place(path).key("images").list()
    return tuple(dict.fromkeys(number(image.key("id")) for image in images))


def number(place: Place) -> str:
    return canonical(str(place.integer()), place.where.removesuffix(": "))


def canonical(image: str, where: str) -> str:
    """The id without its padding (`000000057413`); `UnreadableInput` if it is not a COCO id."""
    if not (image.isascii() and image.isdecimal() and len(image) <= MAX_DECIMALS):
        raise UnreadableInput(
            where, f"{image!r} is not a COCO image id", "it must have 1 to 12 digits"
        )
    return str(int(image))
