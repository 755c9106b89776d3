"""The content of a sheet, read from the database."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sqlalchemy import select
from sqlalchemy.orm import Session

from hsfiq.contact_sheet.content import SheetContent, SheetQuery, SheetRow, rows_of_runs
from hsfiq.db import tables
from hsfiq.db.tables import Dataset, Query, RankedList, System
from hsfiq.errors import UnreadableInput
from hsfiq.ids import REVERSED, split_query_id
from hsfiq.importing.datasets import chunks
from hsfiq.text import joined


def content_from_database(session: Session, query_id: str, runs: Sequence[Path]) -> SheetContent:
    """Read a query from the database, and its lists from runs; without runs, from the database."""
    query = stored_query(session, query_id)
    rows = rows_of_runs(runs, query) if runs else stored_rows(session, query)
    return SheetContent(query, rows, stored_image_root(session, query))


def stored_query(session: Session, query_id: str) -> SheetQuery:
    """Return the query with this outside id; `UnreadableInput` unless just one dataset has it."""
    triplets, suffix = triplets_with_id(session, query_id), ""
    if not triplets:
        triplet_id, suffix = split_query_id(query_id)
        triplets = triplets_with_id(session, triplet_id)
    if len(triplets) > 1:
        names = " and ".join(triplet.dataset.name for triplet in triplets)
        raise UnreadableInput(
            f"query {query_id}", f"is in {names}", "name one dataset's folder with --data"
        )
    text = text_of(session, triplets[0], suffix) if triplets else None
    if text is None:
        raise UnreadableInput(
            f"query {query_id!r}",
            "is not in the database",
            "name its dataset's folder with --data, or import it",
        )
    reference, target = triplets[0].reference, triplets[0].target
    return SheetQuery(
        query_id=query_id,
        dataset=triplets[0].dataset.name,
        text=text,
        reference=None if reference is None else reference.name,
        answers=() if target is None else (target.name,),
    )


def triplets_with_id(session: Session, triplet_id: str) -> Sequence[tables.Triplet]:
    return session.scalars(
        select(tables.Triplet).where(tables.Triplet.external_id == triplet_id)
    ).all()


def text_of(session: Session, triplet: tables.Triplet, suffix: str) -> str | None:
    """Return the text of a triplet's query; None if it is unknown."""
    query = session.scalars(
        select(Query).where(Query.triplet_id == triplet.id, Query.suffix == suffix)
    ).one_or_none()
    if query is not None:
        return query.text
    if suffix not in ("", REVERSED) or not triplet.captions:
        return None
    return joined(triplet.captions if suffix == "" else triplet.captions[::-1])


def stored_rows(session: Session, query: SheetQuery) -> list[SheetRow]:
    """Return the ranked lists of every system for a stored query, by the systems' names."""
    lists = session.execute(
        select(System.name, RankedList.image_ids, RankedList.scores)
        .join(System, RankedList.system_id == System.id)
        .join(Query, RankedList.query_id == Query.id)
        .join(tables.Triplet, Query.triplet_id == tables.Triplet.id)
        .join(Dataset, tables.Triplet.dataset_id == Dataset.id)
        .where(
            tables.Triplet.external_id + Query.suffix == query.query_id,
            Dataset.name == query.dataset,
        )
        .order_by(System.name)
    ).all()
    return [
        SheetRow(
            system,
            image_names(session, image_ids),
            None if scores is None else tuple(scores),
        )
        for system, image_ids, scores in lists
    ]


def image_names(session: Session, keys: Sequence[int]) -> tuple[str, ...]:
    """Return the ids of the images with these database keys, in the same order."""
    names: dict[int, str] = {}
    for chunk in chunks(keys):
        rows = session.execute(
            select(tables.Image.id, tables.Image.name).where(tables.Image.id.in_(chunk))
        )
        names.update((key, name) for key, name in rows)
    return tuple(names[key] for key in keys)


def stored_image_root(session: Session, query: SheetQuery) -> Path | None:
    """Return the folder of the dataset's images; None if it is unknown."""
    root = session.scalars(
        select(Dataset.image_root).where(Dataset.name == query.dataset)
    ).one_or_none()
    return None if root is None else Path(root)
