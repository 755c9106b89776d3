"""Import systems' ranked lists."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlalchemy import insert, select
from sqlalchemy.orm import Session

from hsfiq.db.engine import added
from hsfiq.db.tables import Dataset, Image, RankedList, System
from hsfiq.errors import UnreadableInput
from hsfiq.importing.datasets import Imported, chunks
from hsfiq.importing.queries import QueryFinder
from hsfiq.records import RankedList as RankedListRecord


def import_runs(
    session: Session, dataset: Dataset, lists: Sequence[tuple[str, RankedListRecord]]
) -> Imported:
    """Import systems' ranked lists, given as (place, list) pairs; ids must be known."""
    systems = system_keys(session, {ranked.system for _, ranked in lists})
    queries = QueryFinder(session, dataset)
    known_images = dict(
        session.execute(select(Image.name, Image.id).where(Image.dataset_id == dataset.id)).all()
    )
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


def system_keys(session: Session, names: Iterable[str]) -> dict[str, int]:
    keys = {}
    for name in sorted(names):
        system = session.scalars(select(System).where(System.name == name)).one_or_none()
        if system is None:
            system = added(session, System(name=name))
        keys[name] = system.id
    return keys
