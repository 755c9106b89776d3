"""What a study's questions are about: queries, retrieved sets and pairs, by database key.

These are held in memory during an export: about 1 KB for each query, pair and retrieved set,
however many answers they have.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import chain
from sys import intern
from typing import Any, NamedTuple

from sqlalchemy import Executable, Select, select
from sqlalchemy.orm import Session, aliased

from hsfiq.db.source_tables import Dataset, Image, Query, System, Triplet
from hsfiq.db.tables import FurtherSet, Pair, RetrievedImage, RetrievedSet, Study
from hsfiq.releases.rows import QueryRow, RetrievedSetRow
from hsfiq.text import shown

ROWS_AT_ONCE = 10_000
"""How many rows the driver hands over at a time; on PostgreSQL the cursor is on the server."""
REFERENCE, TARGET = aliased(Image), aliased(Image)


class PairRow(NamedTuple):  # a frozen dataclass takes three times as long to make
    """A pair: its outside id, and its sets in the pair's own order."""

    pair_id: str
    query: QueryRow
    sets: tuple[RetrievedSetRow, ...]


def read_pairs(session: Session, study: Study) -> dict[int, PairRow]:
    """Read the study's pairs; an outside id is the query's and the number among its pairs."""
    queries = read_queries(session, study)
    sets = read_sets(session, study)
    further = read_further_sets(session, study)
    numbers: dict[int, int] = defaultdict(int)
    pairs = {}
    rows = fetched(
        session,
        select(Pair.id, Pair.query_id, Pair.first_id, Pair.second_id)
        .where(Pair.study_id == study.id)
        .order_by(Pair.id),
    )
    for pair, query, first, second in rows:
        keys = [key for key in (first, second) if key is not None] + further.get(pair, [])
        pairs[pair] = PairRow(
            f"{queries[query].query_id}/{numbers[query]}",
            queries[query],
            tuple(sets[key] for key in keys),
        )
        numbers[query] += 1
    return pairs


def read_further_sets(session: Session, study: Study) -> dict[int, list[int]]:
    """Read the sets of questions about more than two, from the third on, by the pair's key."""
    keys: dict[int, list[int]] = defaultdict(list)
    rows = fetched(
        session,
        select(FurtherSet.pair_id, FurtherSet.set_id)
        .join(Pair, FurtherSet.pair_id == Pair.id)
        .where(Pair.study_id == study.id)
        .order_by(FurtherSet.pair_id, FurtherSet.place),
    )
    for pair, retrieved in rows:
        keys[pair].append(retrieved)
    return keys


def read_queries(session: Session, study: Study) -> dict[int, QueryRow]:
    """Read the queries of the study's pairs, by database key."""
    rows = fetched(
        session,
        select(
            Query.id, Query.suffix, Query.text, Triplet.external_id, Triplet.category,
            Triplet.split, Triplet.captions, Dataset.name, REFERENCE.name, TARGET.name,
        )
        .join(Triplet, Query.triplet_id == Triplet.id)
        .join(Dataset, Triplet.dataset_id == Dataset.id)
        .outerjoin(REFERENCE, Triplet.reference_id == REFERENCE.id)
        .outerjoin(TARGET, Triplet.target_id == TARGET.id)
        .where(Query.id.in_(queries_of(study))),
    )  # fmt: skip
    return {
        key: QueryRow(
            key=key,
            query_id=triplet + suffix,
            triplet_id=triplet,
            dataset=intern(dataset),
            category=intern(category),
            split=split,
            reference_id=reference_id,
            target_id=target_id,
            text=text,
            text_shown=shown(text),
            captions=captions,
        )
        for (
            key, suffix, text, triplet, category, split, captions, dataset, reference_id, target_id,
        ) in rows
    }  # fmt: skip


def read_sets(session: Session, study: Study) -> dict[int, RetrievedSetRow]:
    """Read the retrieved sets of the study's queries, by database key."""
    images = read_images_of_sets(session, study)
    systems = fetched(
        session,
        select(RetrievedSet.id, System.name)
        .outerjoin(System, RetrievedSet.system_id == System.id)
        .where(RetrievedSet.query_id.in_(queries_of(study))),
    )
    return {
        key: RetrievedSetRow(None if system is None else intern(system), images.get(key, []))
        for key, system in systems
    }


def read_images_of_sets(session: Session, study: Study) -> dict[int, list[str]]:
    """Read the images of each retrieved set, best first; each name is in memory once."""
    images: dict[int, list[str]] = defaultdict(list)
    rows = fetched(
        session,
        select(RetrievedImage.set_id, Image.name)
        .join(Image, RetrievedImage.image_id == Image.id)
        .join(RetrievedSet, RetrievedImage.set_id == RetrievedSet.id)
        .where(RetrievedSet.query_id.in_(queries_of(study)))
        .order_by(RetrievedImage.set_id, RetrievedImage.rank),
    )
    names: dict[str, str] = {}
    for key, name in rows:
        images[key].append(names.setdefault(name, name))
    return images


def fetched(session: Session, statement: Executable) -> Iterator[Any]:
    """The rows of a statement; those of a session take half as long again."""
    connection = session.connection()
    rows = connection.execute(statement, execution_options={"yield_per": ROWS_AT_ONCE})
    return chain.from_iterable(rows.partitions())


def queries_of(study: Study) -> Select[int]:
    """Select the database keys of the queries of the study's pairs."""
    return select(Pair.query_id).where(Pair.study_id == study.id)


def shown_sets(
    pair: PairRow, *, swapped: bool, set_order: Sequence[int] | None
) -> tuple[RetrievedSetRow, ...]:
    """The pair's sets as a question shows them."""
    if set_order is not None:
        return tuple(pair.sets[place] for place in set_order)
    return pair.sets[:2][::-1] if swapped else pair.sets[:2]
