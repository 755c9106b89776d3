"""Reading a folder of FashionIQ, CIRR or CIRCO, recognised by its files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hsfiq.errors import UnreadableInput
from hsfiq.readers import circo, cirr, fashioniq
from hsfiq.readers.sources import Source
from hsfiq.records import Triplet

_CIRCO_SPLITS = ("val", "test")


def read_folder(
    folder: Path, categories: Sequence[str] = (), splits: Sequence[str] = ()
) -> list[Source]:
    """Read the splits of a folder of FashionIQ, CIRR or CIRCO; all, if none are named."""
    dataset = dataset_of(folder)
    if categories and dataset != "fashioniq":
        raise UnreadableInput("--category", f"{dataset} has no categories", "leave it out")
    if dataset == "circo":
        return [read_circo(folder, name) for name in splits or circo_splits(folder)]
    if dataset == "cirr":
        return cirr.read(folder, splits)
    return fashioniq.read(folder, categories, splits)


def dataset_of(folder: Path) -> str:
    places = (folder / "captions", folder / "cirr" / "captions")
    if any(any(place.glob("cap.rc2.*.json")) for place in places):
        return "cirr"
    if fashioniq.captions_files(folder):
        return "fashioniq"
    if circo_splits(folder):
        return "circo"
    raise UnreadableInput(
        str(folder),
        "is not a folder of FashionIQ, CIRR or CIRCO",
        "name the one that holds captions/ and image_splits/, or CIRCO's annotations/",
    )


def circo_splits(folder: Path) -> list[str]:
    places = (folder, folder / "annotations")
    return [name for name in _CIRCO_SPLITS if any((p / f"{name}.json").is_file() for p in places)]


def read_circo(folder: Path, split: str) -> Source:
    """Read a CIRCO split; its corpus is empty if COCO's index is not in the folder."""
    annotations = circo.read(folder, split)
    triplets = tuple(
        Triplet(query.query_id, query.reference, query.target, (query.caption,), split=split)
        for query in annotations.queries
    )
    truths = {query.query_id: query.truths for query in annotations.queries if query.truths}
    return Source(annotations.path, split, annotations.images or (), triplets, truths=truths)
