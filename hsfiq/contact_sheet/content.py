"""What stands on a sheet: a query and its lists, from a dataset's folder and runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hsfiq.errors import UnreadableInput
from hsfiq.ids import REVERSED, split_query_id
from hsfiq.readers.circo import canonical
from hsfiq.readers.dataset_folder import dataset_of, read_folder
from hsfiq.readers.sources import Source
from hsfiq.readers.submissions import read_run
from hsfiq.records import RankedList, Triplet
from hsfiq.text import joined

CIRCO = "circo"


@dataclass(frozen=True, slots=True)
class SheetQuery:
    """A query; `answers` has its target first, then CIRCO's other truths, or is empty."""

    query_id: str
    dataset: str
    text: str
    reference: str
    answers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SheetRow:
    """One system's list, best first; where there is none, `reason` says why."""

    system: str
    images: tuple[str, ...]
    scores: tuple[float, ...] | None = None
    reason: str = ""


def query_in_folder(folder: Path, query_id: str, splits: Sequence[str] = ()) -> SheetQuery:
    """Find a query in the folder of its dataset.

    Args:
        folder: of FashionIQ, CIRR or CIRCO.
        query_id: the outside id; a text that is neither order of the captions is not known here.
        splits: where to look; CIRCO counts each of its splits from 0.

    Raises:
        UnreadableInput: it is not there, or in several splits.
    """
    dataset = dataset_of(folder)
    triplet_id, suffix = split_query_id(query_id)
    categories: Sequence[str] = ()
    if dataset == "fashioniq":
        category, split = category_and_split(triplet_id, folder)
        categories, splits = (category,), splits or (split,)
    found = [
        (split, triplet)
        for split in read_folder(folder, categories, splits)
        for triplet in split.triplets
        if triplet.external_id == triplet_id
    ]
    if not found or suffix not in ("", REVERSED):
        raise UnreadableInput(str(folder), f"there is no query {query_id!r} here")
    if len(found) > 1:
        names = " and ".join(split.corpus for split, _ in found)
        raise UnreadableInput("--split", f"query {query_id} is in {names}", "name one of them")
    return query_of(dataset, *found[0], suffix)


def category_and_split(triplet_id: str, folder: Path) -> tuple[str, str]:
    """The parts of a FashionIQ triplet's id, which say in what file it stands."""
    parts = triplet_id.split(".")
    if len(parts) != 3:
        raise UnreadableInput(
            str(folder), f"there is no query {triplet_id!r} here", "ids are like shirt.val.0"
        )
    return parts[0], parts[1]


def query_of(dataset: str, split: Source, triplet: Triplet, suffix: str) -> SheetQuery:
    """A triplet's query, its captions in the order that the suffix says."""
    captions = triplet.captions if suffix == "" else triplet.captions[::-1]
    return SheetQuery(
        query_id=triplet.external_id + suffix,
        dataset=dataset,
        text=joined(captions),
        reference=triplet.reference,
        answers=split.answers(triplet),
    )


def rows_of_runs(paths: Sequence[Path], query: SheetQuery) -> list[SheetRow]:
    """The lists that runs hold for a query: a row for each system of each file, in that order.

    A system goes by the name in its run, else by the file's.

    Raises:
        UnreadableInput: with file and place.
    """
    rows = [(path, row) for path in paths for row in rows_of_run(path, query)]
    seen = Counter(row.system for _, row in rows)
    return [
        replace(row, system=f"{row.system} ({path})") if seen[row.system] > 1 else row
        for path, row in rows
    ]


def rows_of_run(path: Path, query: SheetQuery) -> list[SheetRow]:
    """The same of one run."""
    lists: dict[str, dict[str, tuple[str, RankedList]]] = {}
    for where, ranked in read_run(path).lists:
        lists.setdefault(ranked.system or path.stem, {})[ranked.query_id] = (where, ranked)
    if not lists:
        return [SheetRow(path.stem, (), reason=f"{path.name} holds no list")]
    return [row_of(system, found, query, path) for system, found in lists.items()]


def row_of(
    system: str, lists: dict[str, tuple[str, RankedList]], query: SheetQuery, path: Path
) -> SheetRow:
    """One system's list for the query, or the reason why there is none."""
    if query.query_id not in lists:
        triplet_id, suffix = split_query_id(query.query_id)
        other = triplet_id if suffix == REVERSED else triplet_id + REVERSED
        hint = f", only for {other}" if other in lists else ""
        return SheetRow(system, (), reason=f"no list for {query.query_id} in {path.name}{hint}")
    where, ranked = lists[query.query_id]
    images = ranked.images
    if query.dataset == CIRCO:
        images = tuple(canonical(image, where) for image in images)
    return SheetRow(system, images, ranked.scores)
