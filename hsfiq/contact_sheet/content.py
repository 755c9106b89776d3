"""The content of a sheet, from a dataset's folder and runs: a query and its ranked lists."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hsfiq.errors import UnreadableInput
from hsfiq.ids import REVERSED, split_query_id
from hsfiq.images.folder import usual_folder
from hsfiq.importing.datasets import CIRCO_DATASETS
from hsfiq.readers.circo import canonical
from hsfiq.readers.dataset_folder import dataset_of, read_folder
from hsfiq.readers.runs import PlacedList
from hsfiq.readers.sources import Source
from hsfiq.readers.submissions import read_run
from hsfiq.records import Triplet
from hsfiq.text import joined


@dataclass(frozen=True, slots=True)
class SheetQuery:
    """A query; `answers` are its target, if known, and CIRCO's other ground truths.

    `reference` is None or `text` empty if the query has none.
    """

    query_id: str
    dataset: str
    text: str
    reference: str | None
    answers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SheetRow:
    """A system's list, best first; if there is none, `reason` says why."""

    system: str
    images: tuple[str, ...]
    scores: tuple[float, ...] | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class SheetContent:
    """A query, a row for each system, and the folder of the images, if known."""

    query: SheetQuery
    rows: list[SheetRow]
    image_root: Path | None


def content_from_folder(
    folder: Path, query_id: str, splits: Sequence[str], runs: Sequence[Path]
) -> SheetContent:
    """Read a query from its dataset's folder, and its lists from runs."""
    query = query_in_folder(folder, query_id, splits)
    return SheetContent(query, rows_of_runs(runs, query), usual_folder(folder) or folder)


def query_in_folder(folder: Path, query_id: str, splits: Sequence[str] = ()) -> SheetQuery:
    """Read a query, its captions in either order, from a folder of FashionIQ, CIRR or CIRCO.

    The `splits` are searched; in CIRCO, ids of different splits may be equal.

    Raises:
        UnreadableInput: it is missing, or in several splits.
    """
    dataset = dataset_of(folder)
    triplet_id, suffix = split_query_id(query_id)
    categories: Sequence[str] = ()
    if dataset == "fashioniq":
        category, split = category_and_split(triplet_id, folder)
        categories, splits = (category,), splits or (split,)
    matches = [
        (split, triplet)
        for split in read_folder(folder, categories, splits)
        for triplet in split.triplets
        if triplet.external_id == triplet_id
    ]
    if not matches or suffix not in ("", REVERSED):
        raise UnreadableInput(str(folder), f"has no query {query_id!r}")
    if len(matches) > 1:
        names = " and ".join(split.corpus for split, _ in matches)
        raise UnreadableInput("--split", f"query {query_id} is in {names}", "name one of them")
    return query_of(dataset, *matches[0], suffix)


def category_and_split(triplet_id: str, folder: Path) -> tuple[str, str]:
    """Return the category and the split in a FashionIQ triplet's id."""
    parts = triplet_id.split(".")
    if len(parts) != 3:
        raise UnreadableInput(
            str(folder), f"has no query {triplet_id!r}", "ids are like shirt.val.0"
        )
    return parts[0], parts[1]


def query_of(dataset: str, split: Source, triplet: Triplet, suffix: str) -> SheetQuery:
    """Return a triplet's query, its captions in the order given by the suffix."""
    captions = triplet.captions if suffix == "" else triplet.captions[::-1]
    return SheetQuery(
        query_id=triplet.external_id + suffix,
        dataset=dataset,
        text=joined(captions),
        reference=triplet.reference,
        answers=split.answers(triplet),
    )


def rows_of_runs(paths: Sequence[Path], query: SheetQuery) -> list[SheetRow]:
    """Return a row for each system of each run, named in the run, else by the file."""
    rows = [(path, row) for path in paths for row in rows_of_run(path, query)]
    counts = Counter(row.system for _, row in rows)
    return [
        replace(row, system=f"{row.system} ({path})") if counts[row.system] > 1 else row
        for path, row in rows
    ]


def rows_of_run(path: Path, query: SheetQuery) -> list[SheetRow]:
    lists: dict[str, dict[str, PlacedList]] = {}
    for placed in read_run(path).lists:
        lists.setdefault(placed.ranked.system or path.stem, {})[placed.ranked.query_id] = placed
    if not lists:
        return [SheetRow(path.stem, (), reason=f"{path.name} holds no list")]
    return [row_of(system, by_query, query, path) for system, by_query in lists.items()]


def row_of(system: str, lists: dict[str, PlacedList], query: SheetQuery, path: Path) -> SheetRow:
    """Return a system's list for the query, or the reason why there is none."""
    if query.query_id not in lists:
        triplet_id, suffix = split_query_id(query.query_id)
        other = triplet_id if suffix == REVERSED else triplet_id + REVERSED
        hint = f", only for {other}" if other in lists else ""
        return SheetRow(system, (), reason=f"no list for {query.query_id} in {path.name}{hint}")
    where, ranked = lists[query.query_id]
    images = ranked.images
    if query.dataset in CIRCO_DATASETS.values():
        images = tuple(canonical(image, where) for image in images)
    return SheetRow(system, images, ranked.scores)
