"""Import CIR datasets: images, corpora and triplets."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from sqlalchemy import insert, select
from sqlalchemy.orm import Session

from hsfiq.db.engine import added
from hsfiq.db.tables import Corpus, Dataset, Image, Query, Triplet, corpus_images
from hsfiq.errors import UnreadableInput
from hsfiq.ids import query_suffix
from hsfiq.readers.sources import Source
from hsfiq.records import Triplet as TripletRecord

T = TypeVar("T")

CIRCO_DATASETS = {"val": "circo", "test": "circo-test"}
"""CIRCO's splits both number their queries from 0, so each is a dataset of its own."""

CHUNK = 500
"""Rows of one statement: below every database's limit of parameters."""


@dataclass(frozen=True, slots=True)
class Imported:
    """The number of rows that an import added, and of those that existed before."""

    added: int
    already: int


def dataset_named(session: Session, name: str, image_root: Path | None = None) -> Dataset:
    """The dataset of this name, created if new; `image_root` replaces its image folder."""
    dataset = session.scalars(select(Dataset).where(Dataset.name == name)).one_or_none()
    if dataset is None:
        dataset = added(session, Dataset(name=name, image_root=None))
    if image_root is not None:
        dataset.image_root = str(image_root.resolve())
    return dataset


def existing_dataset(session: Session, name: str) -> Dataset:
    datasets = {dataset.name: dataset for dataset in session.scalars(select(Dataset))}
    if name not in datasets:
        raise UnreadableInput(
            "--dataset",
            f"no dataset is called {name!r}",
            f"there are {', '.join(sorted(datasets))}" if datasets else "import its captions first",
        )
    return datasets[name]


def image_keys(session: Session, dataset: Dataset, names: Iterable[str]) -> dict[str, int]:
    """Database keys of the images with these ids; new images are added."""
    wanted = list(dict.fromkeys(names))
    keys_of: dict[str, int] = {}
    for chunk in chunks(wanted):
        rows = session.execute(
            select(Image.name, Image.id).where(
                Image.dataset_id == dataset.id, Image.name.in_(chunk)
            )
        )
        keys_of.update((name, key) for name, key in rows)
    new = [name for name in wanted if name not in keys_of]
    if new:
        keys = session.scalars(
            insert(Image).returning(Image.id, sort_by_parameter_order=True),
            [
                {"dataset_id": dataset.id, "name": name, "token": secrets.token_hex(16)}
                for name in new
            ],
        )
        keys_of.update(zip(new, keys, strict=True))
    return keys_of


def import_source(session: Session, dataset: Dataset, source: Source) -> Imported:
    """Import the triplets of one captions file and its corpus.

    A triplet that a published study created (without captions) gets its id and captions, and its
    queries get their ids. `UnreadableInput` if a triplet exists with other content.
    """
    images = image_keys(session, dataset, source.all_images())
    import_corpus(session, dataset, source, images)
    known = {
        triplet.external_id: triplet
        for triplet in session.scalars(select(Triplet).where(Triplet.dataset_id == dataset.id))
    }
    without_captions = {triplet_images(t): t for t in known.values() if not t.captions}
    added, already, completed = [], 0, 0
    for index, record in enumerate(source.triplets):
        row = triplet_row(record, dataset, images)
        existing = known.get(record.external_id)
        target = None if record.target is None else images[record.target]
        key = (record.category, images[record.reference], target)
        if existing is not None:
            require_same(existing, row, f"{source.path}: [{index}]")
            already += 1
        elif key in without_captions:
            complete_triplet(session, without_captions.pop(key), record)
            completed += 1
        else:
            added.append(row)
    if added:
        session.execute(insert(Triplet), added)
    return Imported(len(added) + completed, already)


def triplet_images(triplet: Triplet) -> tuple[str, int | None, int | None]:
    """What identifies a triplet of a published study: category, reference, target."""
    return triplet.category, triplet.reference_id, triplet.target_id


def import_corpus(
    session: Session, dataset: Dataset, source: Source, images: dict[str, int]
) -> None:
    corpus = session.scalars(
        select(Corpus).where(Corpus.dataset_id == dataset.id, Corpus.name == source.corpus)
    ).one_or_none()
    members = {images[name] for name in source.images}
    if corpus is None:
        corpus = added(session, Corpus(dataset_id=dataset.id, name=source.corpus))
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
    for column, value in row.items():
        if getattr(triplet, column) != value:
            raise UnreadableInput(
                where,
                f"triplet {triplet.external_id} was imported before with another {column}",
                "use a fresh database for another version of the dataset",
            )


def complete_triplet(session: Session, triplet: Triplet, record: TripletRecord) -> None:
    """Set the id and the captions of a triplet that a published study created."""
    triplet.external_id, triplet.split = record.external_id, record.split
    triplet.captions = list(record.captions)
    queries = session.scalars(
        select(Query).where(Query.triplet_id == triplet.id).order_by(Query.id)
    ).all()
    suffixes: list[str] = []
    for query in queries:
        suffix = query_suffix(triplet.captions, query.text, suffixes)
        suffixes.append(suffix)
        query.suffix = f"!{suffix}"  # unique until all new suffixes are known
    session.flush()
    for query, suffix in zip(queries, suffixes, strict=True):
        query.suffix = suffix
    session.flush()


def chunks(rows: Sequence[T]) -> Iterable[Sequence[T]]:
    for start in range(0, len(rows), CHUNK):
        yield rows[start : start + CHUNK]
