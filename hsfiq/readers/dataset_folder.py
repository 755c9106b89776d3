"""A folder of FashionIQ, CIRR or CIRCO, told by its files: its triplets and all their images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hsfiq.errors import UnreadableInput
from hsfiq.readers import circo, cirr, fashioniq
from hsfiq.readers.sources import Source
from hsfiq.records import Triplet

_CIRCO_SPLITS = ("val", "test")


@dataclass(frozen=True, slots=True)
class DatasetSplit:
    """The triplets of one captions file with every image that it or its split file names.

    `truths` are CIRCO's: all images that answer a query, the target first, by the query's id.
    """

    name: str
    images: tuple[str, ...]
    triplets: tuple[Triplet, ...]
    truths: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def answers(self, triplet: Triplet) -> tuple[str, ...]:
        """The target and whatever else counts as found; none where the dataset withholds it."""
        target = () if triplet.target is None else (triplet.target,)
        return self.truths.get(triplet.external_id, target)


@dataclass(frozen=True, slots=True)
class DatasetFolder:
    """A dataset's splits, as the files of a folder give them."""

    dataset: str
    splits: tuple[DatasetSplit, ...]


def read_folder(
    folder: Path, categories: Sequence[str] = (), splits: Sequence[str] = ()
) -> DatasetFolder:
    """Read a dataset's folder, whichever dataset it is.

    Args:
        folder: of FashionIQ, CIRR or CIRCO.
        categories: only these of FashionIQ; all that are there if none is named.
        splits: only these; likewise.

    Raises:
        UnreadableInput: it is none of them, or with file and place.
    """
    dataset = dataset_of(folder)
    if categories and dataset != "fashioniq":
        raise UnreadableInput("--category", f"{dataset} has no categories", "leave it out")
    if dataset == "circo":
        found = [circo_split(folder, name) for name in splits or circo_splits(folder)]
    elif dataset == "cirr":
        found = [split_of(source) for source in cirr.read(folder, splits)]
    else:
        found = [split_of(source) for source in fashioniq.read(folder, categories, splits)]
    return DatasetFolder(dataset, tuple(found))


def dataset_of(folder: Path) -> str:
    """Which dataset's folder this is.

    Raises:
        UnreadableInput: none that is known.
    """
    places = (folder / "captions", folder / "cirr" / "captions")
    if any(any(place.glob("cap.rc2.*.json")) for place in places):
        return "cirr"
    if fashioniq.captions_files(folder):
        return "fashioniq"
    if circo_splits(folder):
        return "circo"
    raise UnreadableInput(
        str(folder),
        "is no folder of FashionIQ, CIRR or CIRCO",
        "name the one that holds captions/ and image_splits/, or CIRCO's annotations/",
    )


def circo_splits(folder: Path) -> list[str]:
    """The splits whose annotations a folder of CIRCO's has."""
    places = (folder, folder / "annotations")
    return [name for name in _CIRCO_SPLITS if any((p / f"{name}.json").is_file() for p in places)]


def split_of(source: Source) -> DatasetSplit:
    """The split of a source."""
    return make_split(source.corpus, source.images, source.triplets, {})


def circo_split(folder: Path, split: str) -> DatasetSplit:
    """A split of CIRCO's; without COCO's index it names the images of its queries alone."""
    read = circo.read(folder, split)
    triplets = tuple(
        Triplet(query.query_id, query.reference, query.target, (query.caption,), split=split)
        for query in read.queries
    )
    truths = {query.query_id: query.truths for query in read.queries if query.truths}
    return make_split(split, read.images or (), triplets, truths)


def make_split(
    name: str,
    corpus: Sequence[str],
    triplets: tuple[Triplet, ...],
    truths: Mapping[str, tuple[str, ...]],
) -> DatasetSplit:
    """The split with every image that it names, each once."""
    named = [*corpus, *(triplet.reference for triplet in triplets)]
    named += [triplet.target for triplet in triplets if triplet.target is not None]
    named += [truth for answers in truths.values() for truth in answers]
    return DatasetSplit(name, tuple(dict.fromkeys(named)), triplets, truths)
