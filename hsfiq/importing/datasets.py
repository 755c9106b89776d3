"""CIR datasets into the database: images, corpora and triplets."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from sqlalchemy import insert, select
from sqlalchemy.orm import Session

from hsfiq.db.tables import Corpus, Dataset, Image, Query, Triplet, corpus_images
from hsfiq.errors import UnreadableInput
from hsfiq.ids import query_suffix
from hsfiq.readers.sources import Source
from hsfiq.records import Triplet as TripletRecord

T = TypeVar("T")

CHUNK = 500
"""Rows asked for by key at once: below every database's limit of parameters."""


@dataclass(frozen=True, slots=True)
class Imported:
    """How many rows an import added, and how many of its rows were there before."""

    added: int
    already: int


def dataset_named(session: Session, name: str, image_root: Path | None = None) -> Dataset:
    """The dataset of this name, made if need be; `image_root` says where its images lie now."""
    dataset = session.scalars(select(Dataset).where(Dataset.name == name)).one_or_none()
    if dataset is None:
        dataset = Dataset(name=name, image_root=None)
        session.add(dataset)
        session.flush()
    if image_root is not None:
        dataset.image_root = str(image_root.resolve())
    return dataset


def existing_dataset(session: Session, name: str) -> Dataset:
    """The dataset of this name.

    Raises:
        UnreadableInput: there is none.
    """
    found = {dataset.name: dataset for dataset in session.scalars(select(Dataset))}
    if name not in found:
        raise UnreadableInput(
            "--dataset",
            f"no dataset is called {name!r}",
            f"there are {', '.join(sorted(found))}" if found else "import its captions first",
        )
    return found[name]


def image_keys(session: Session, dataset: Dataset, names: Iterable[str]) -> dict[str, int]:
    """Database keys of the images with these ids, made where they are new."""
    wanted = list(dict.fromkeys(names))
    found: dict[str, int] = {}
    for chunk in chunks(wanted):
        rows = session.execute(
            select(Image.name, Image.id).where(
                Image.dataset_id == dataset.id, Image.name.in_(chunk)
            )
        )
        found.update((name, key) for name, key in rows)
    new = [name for name in wanted if name not in found]
    if new:
        keys = session.scalars(
            insert(Image).returning(Image.id, sort_by_parameter_order=True),
            [
                {"dataset_id": dataset.id, "name": name, "token": secrets.token_hex(16)}
                for name in new
            ],
        )
        found.update(zip(new, keys, strict=True))
    return found


def import_source(session: Session, dataset: Dataset, source: Source) -> Imported:
    """Import the triplets of one captions file and its corpus.

    A triplet that a published study has brought before (it knows no captions) is taken over: it
    gets its own id and captions, and its queries their own ids.

    Raises:
        UnreadableInput: a triplet is there under the same id with other content.
    """
    names = [*source.images, *(t.reference for t in source.triplets)]
    names += [t.target for t in source.triplets if t.target is not None]
    images = image_keys(session, dataset, names)
    import_corpus(session, dataset, source, images)
    known = {
        triplet.external_id: triplet
        for triplet in session.scalars(select(Triplet).where(Triplet.dataset_id == dataset.id))
    }
    orphans = {triplet_images(t): t for t in known.values() if not t.captions}
    added, already, taken_over = [], 0, 0
    for index, record in enumerate(source.triplets):
        row = triplet_row(record, dataset, images)
        twin = known.get(record.external_id)
        target = None if record.target is None else images[record.target]
        key = (record.category, images[record.reference], target)
        if twin is not None:
            require_same(twin, row, f"{source.path}: [{index}]")
            already += 1
        elif key in orphans:
            take_over(session, orphans.pop(key), record)
            taken_over += 1
        else:
            added.append(row)
    if added:
        session.execute(insert(Triplet), added)
    return Imported(len(added) + taken_over, already)


def triplet_images(triplet: Triplet) -> tuple[str, int, int | None]:
    """What a published study knows a triplet by."""
    return triplet.category, triplet.reference_id, triplet.target_id


def import_corpus(
    session: Session, dataset: Dataset, source: Source, images: dict[str, int]
) -> None:
    """Keep which images the split file names.

    Raises:
        UnreadableInput: the corpus is there with other images.
    """
    corpus = session.scalars(
        select(Corpus).where(Corpus.dataset_id == dataset.id, Corpus.name == source.corpus)
    ).one_or_none()
    members = {images[name] for name in source.images}
    if corpus is None:
        corpus = Corpus(dataset_id=dataset.id, name=source.corpus)
        session.add(corpus)
        session.flush()
        if members:
            session.execute(
                insert(corpus_images),
                [{"corpus_id": corpus.id, "image_id": key} for key in sorted(members)],
            )
        return
    before = set(
        session.scalars(
            select(corpus_images.c.image_id).where(corpus_images.c.corpus_id == corpus.id)
        )
    )
    if before != members:
        raise UnreadableInput(
            str(source.path),
            f"the split {source.corpus} was imported before with other images "
            f"({len(before):,} then, {len(members):,} now)",
            "use a fresh database for another version of the dataset",
        )


def triplet_row(
    record: TripletRecord, dataset: Dataset, images: dict[str, int]
) -> dict[str, object]:
    """The record as column values."""
    return {
        "dataset_id": dataset.id,
        "external_id": record.external_id,
        "category": record.category,
        "split": record.split,
        "reference_id": images[record.reference],
        "target_id": None if record.target is None else images[record.target],
        "captions": list(record.captions),
    }


def require_same(triplet: Triplet, row: dict[str, object], where: str) -> None:
    """Refuse another triplet under an id that is taken."""
    for column, value in row.items():
        if getattr(triplet, column) != value:
            raise UnreadableInput(
                where,
                f"triplet {triplet.external_id} was imported before with another {column}",
                "use a fresh database for another version of the dataset",
            )


def take_over(session: Session, triplet: Triplet, record: TripletRecord) -> None:
    """Give a triplet that a published study brought its own id and captions."""
    triplet.external_id, triplet.split = record.external_id, record.split
    triplet.captions = list(record.captions)
    queries = session.scalars(
        select(Query).where(Query.triplet_id == triplet.id).order_by(Query.id)
    ).all()
    suffixes: list[str] = []
    for query in queries:
        suffix = query_suffix(triplet.captions, query.text, suffixes)
        suffixes.append(suffix)
        query.suffix = f"!{suffix}"  # out of the way of the others until all are known
    session.flush()
    for query, suffix in zip(queries, suffixes, strict=True):
        query.suffix = suffix
    session.flush()


def chunks(rows: Sequence[T]) -> Iterable[Sequence[T]]:
    """The rows in pieces that every database takes at once."""
    for start in range(0, len(rows), CHUNK):
        yield rows[start : start + CHUNK]
