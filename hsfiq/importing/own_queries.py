"""Import the queries of own data: all of a file or nothing."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from sqlalchemy import insert, select
from sqlalchemy.orm import Session, joinedload

from hsfiq.db.tables import Dataset, Query, Triplet
from hsfiq.errors import UnreadableInput
from hsfiq.ids import split_query_id
from hsfiq.images.own_names import OwnImages, UnknownName
from hsfiq.importing.datasets import CIRCO_DATASETS, Imported, chunks, image_keys
from hsfiq.readers.own_queries import PlacedQuery
from hsfiq.readers.tables import ErrorList
from hsfiq.records import OwnQuery

KNOWN_DATASETS = ("fashioniq", "cirr", *CIRCO_DATASETS.values())
"""The names of published datasets, which have commands of their own."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,39}")


def require_own_name(name: str) -> str:
    """The name of an own dataset; `UnreadableInput` if it cannot be one."""
    if not _NAME.fullmatch(name):
        raise UnreadableInput(
            "--dataset",
            f"{name!r} cannot be the name of a dataset",
            "use letters, digits, '.', '_' and '-', at most 40",
        )
    if name in KNOWN_DATASETS:
        raise UnreadableInput(
            "--dataset",
            f"{name} is a published dataset",
            f"use hsfiq import {name.partition('-')[0]}, or another name",
        )
    return name


def import_queries(
    session: Session, dataset: Dataset, placed: Sequence[PlacedQuery], images: OwnImages
) -> Imported:
    """Import queries; those that were imported before, with the same content, are counted.

    `FileErrors`, one line a row: an image is unknown, or a query exists with other content.
    """
    known = stored_queries(session, dataset)
    new: list[OwnQuery] = []
    errors = ErrorList()
    for where, written in placed:
        try:
            query = with_ids(where, written, images)
            require_free_id(where, query.query_id, known)
        except UnreadableInput as error:
            errors.add(error)
            continue
        before = known.get(query.query_id)
        if before is None:
            new.append(query)
        elif before != query:
            errors.add(changed(where, before, query))
    errors.require_none()
    store(session, dataset, new)
    return Imported(len(new), len(placed) - len(new))


def with_ids(where: str, query: OwnQuery, images: OwnImages) -> OwnQuery:
    """The query with its images' ids in place of their names as written."""

    def image_id(column: str, name: str | None) -> str | None:
        if name is None:
            return None
        try:
            return images.id_of(name)
        except UnknownName as error:
            raise UnreadableInput(f"{where}: {column}", error.what, error.remedy) from error

    return replace(
        query,
        reference=image_id("reference", query.reference),
        target=image_id("target", query.target),
    )


def require_free_id(where: str, query_id: str, known: Mapping[str, OwnQuery]) -> None:
    """Refuse the id of another query's captions in the other order, or of another text of it."""
    if query_id not in known:
        return
    triplet_id, suffix = split_query_id(query_id)
    if suffix and known[query_id].query_id == triplet_id:
        raise UnreadableInput(
            where, f"query {query_id!r} is a further text of query {triplet_id!r}", "rename it"
        )


def changed(where: str, before: OwnQuery, query: OwnQuery) -> UnreadableInput:
    columns = ("reference", "target", "text", "captions", "category", "split")
    names = [name for name in columns if getattr(before, name) != getattr(query, name)]
    return UnreadableInput(
        where,
        f"query {query.query_id!r} was imported before with another {' and '.join(names)}",
        "give the changed query a new id, or import into another --dataset",
    )


def stored_queries(session: Session, dataset: Dataset) -> dict[str, OwnQuery]:
    """The dataset's queries by their ids, further texts of a query by theirs."""
    rows = (
        select(Query)
        .join(Query.triplet)
        .where(Triplet.dataset_id == dataset.id)
        .options(
            joinedload(Query.triplet).options(
                joinedload(Triplet.reference), joinedload(Triplet.target)
            )
        )
    )
    return {
        query.triplet.external_id + query.suffix: stored_query(query)
        for query in session.scalars(rows)
    }


def stored_query(query: Query) -> OwnQuery:
    triplet = query.triplet
    return OwnQuery(
        query_id=triplet.external_id,
        text=query.text,
        captions=tuple(triplet.captions),
        reference=triplet.reference.name if triplet.reference else None,
        target=triplet.target.name if triplet.target else None,
        category=triplet.category,
        split=triplet.split,
    )


def store(session: Session, dataset: Dataset, queries: Sequence[OwnQuery]) -> None:
    names = [name for query in queries for name in (query.reference, query.target) if name]
    keys = image_keys(session, dataset, names)
    for chunk in chunks(queries):
        triplets = session.scalars(
            insert(Triplet).returning(Triplet.id, sort_by_parameter_order=True),
            [
                {
                    "dataset_id": dataset.id,
                    "external_id": query.query_id,
                    "category": query.category,
                    "split": query.split,
                    "reference_id": keys[query.reference] if query.reference else None,
                    "target_id": keys[query.target] if query.target else None,
                    "captions": list(query.captions),
                }
                for query in chunk
            ],
        ).all()
        session.execute(
            insert(Query),
            [
                {"triplet_id": key, "suffix": "", "text": query.text}
                for key, query in zip(triplets, chunk, strict=True)
            ],
        )
