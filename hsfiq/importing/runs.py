"""Import systems' ranked lists."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from pathlib import Path

from sqlalchemy import insert, select
from sqlalchemy.orm import Session

from hsfiq.db.engine import added
from hsfiq.db.tables import Corpus, Dataset, Image, RankedList, System, corpus_images
from hsfiq.errors import InvalidRecord, UnreadableInput
from hsfiq.images.own_names import OwnImages, UnknownName
from hsfiq.importing.datasets import CIRCO_DATASETS, Imported, chunks, image_keys
from hsfiq.importing.own_queries import KNOWN_DATASETS
from hsfiq.importing.queries import QueryFinder
from hsfiq.readers.circo import canonical
from hsfiq.records import RankedList as RankedListRecord

PlacedLists = Sequence[tuple[str, RankedListRecord]]
"""Ranked lists with their places in a file."""


def import_runs(session: Session, dataset: Dataset, lists: PlacedLists) -> Imported:
    """Import systems' ranked lists, given as (place, list) pairs; ids must be known.

    The images of own data are the files of its folder; those that a list names are added. So are
    CIRCO's, if the list of COCO's images was not imported.
    """
    systems = system_keys(session, {ranked.system for _, ranked in lists})
    queries = QueryFinder(session, dataset)
    known_images = dict(
        session.execute(select(Image.name, Image.id).where(Image.dataset_id == dataset.id)).all()
    )
    if dataset.name in CIRCO_DATASETS.values():
        lists = with_coco_ids(lists)
        if not has_corpus(session, dataset):
            known_images |= image_keys(session, dataset, names_in(lists) - known_images.keys())
    if dataset.name not in KNOWN_DATASETS and dataset.image_root:
        lists = with_own_ids(lists, known_images, OwnImages(Path(dataset.image_root)))
        known_images |= image_keys(session, dataset, names_in(lists) - known_images.keys())
    before = {
        (system, query): image_ids
        for system, query, image_ids in session.execute(
            select(RankedList.system_id, RankedList.query_id, RankedList.image_ids).where(
                RankedList.system_id.in_(systems.values())
            )
        )
    }
    rows, already = [], 0
    for where, ranked in lists:
        query = queries.by_id(ranked.query_id, where)
        unknown = next((name for name in ranked.images if name not in known_images), None)
        if unknown is not None:
            raise UnreadableInput(
                where,
                f"image {unknown!r} is not in dataset {dataset.name}",
                "import the split that names it first",
            )
        image_ids = [known_images[name] for name in ranked.images]
        key = (systems[ranked.system], query)
        if key in before:
            if before[key] != image_ids:
                raise UnreadableInput(
                    where,
                    f"system {ranked.system} has another list for query {ranked.query_id}",
                    "import it under another name with --system",
                )
            already += 1
            continue
        scores = None if ranked.scores is None else list(ranked.scores)
        rows.append(
            {"system_id": key[0], "query_id": key[1], "image_ids": image_ids, "scores": scores}
        )
    for chunk in chunks(rows):
        session.execute(insert(RankedList), chunk)
    return Imported(len(rows), already)


def names_in(lists: PlacedLists) -> AbstractSet[str]:
    return {name for _, ranked in lists for name in ranked.images}


def has_corpus(session: Session, dataset: Dataset) -> bool:
    member = (
        select(corpus_images.c.image_id)
        .join(Corpus, corpus_images.c.corpus_id == Corpus.id)
        .where(Corpus.dataset_id == dataset.id)
        .limit(1)
    )
    return session.scalar(member) is not None


def with_coco_ids(lists: PlacedLists) -> PlacedLists:
    """The lists with COCO's ids without padding."""
    return [
        (where, renamed(where, ranked, [canonical(image, where) for image in ranked.images]))
        for where, ranked in lists
    ]


def renamed(where: str, ranked: RankedListRecord, images: Sequence[str]) -> RankedListRecord:
    try:
        return replace(ranked, images=tuple(images))
    except InvalidRecord as error:
        raise UnreadableInput(where, str(error)) from error


def with_own_ids(
    lists: PlacedLists, known: Collection[str], files: OwnImages
) -> list[tuple[str, RankedListRecord]]:
    """The lists with ids in place of the images' names as written; known ids stay."""
    resolved = []
    for where, ranked in lists:
        try:
            names = [n if n in known else files.id_of(n) for n in ranked.images]
        except UnknownName as error:
            raise UnreadableInput(where, error.what, error.remedy) from error
        resolved.append((where, renamed(where, ranked, names)))
    return resolved


def system_keys(session: Session, names: Iterable[str]) -> dict[str, int]:
    keys = {}
    for name in sorted(names):
        system = session.scalars(select(System).where(System.name == name)).one_or_none()
        if system is None:
            system = added(session, System(name=name))
        keys[name] = system.id
    return keys
