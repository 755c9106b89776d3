"""Reading what a study is drawn from: its queries with their systems' ranked lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session

from hsfiq.db.source_tables import Query, RankedList, System, Triplet
from hsfiq.errors import ConfigError
from hsfiq.kinds import KINDS
from hsfiq.study.config import StudyConfig, n_sets_of
from hsfiq.study.drawing.questions import QueryFacts

Lists = Mapping[int, Mapping[int, list[int]]]
"""Top-k image keys by query key and system key."""


@dataclass(frozen=True, slots=True)
class Material:
    """What is read before a study is drawn: its queries' ranked lists and facts."""

    lists: Lists
    facts: Mapping[int, QueryFacts]


def material_for(session: Session, config: StudyConfig, query_ids: Sequence[int]) -> Material:
    """Read what drawing a study needs; `ConfigError` if lists are missing."""
    if not query_ids:
        raise ConfigError("queries", "there is no query", "import runs first")
    design, lists = config.design, {}
    if KINDS[design.kind].needs_lists:
        n_sets = n_sets_of(design)
        lists = ranked_lists(session, query_ids, design.k, config.queries.systems, n_sets)
    return Material(lists, query_facts(session, query_ids))


def query_facts(session: Session, query_ids: Sequence[int]) -> dict[int, QueryFacts]:
    wanted = set(query_ids)
    rows = session.execute(
        select(
            Query.id, Query.triplet_id, Triplet.category, Triplet.reference_id, Triplet.target_id
        ).join(Query.triplet)
    )
    return {row[0]: QueryFacts(*row) for row in rows if row[0] in wanted}


def ranked_lists(
    session: Session,
    query_ids: Sequence[int],
    k: int,
    systems: Sequence[str] = (),
    n_systems: int = 2,
) -> dict[int, dict[int, list[int]]]:
    """The keys of each system's top-k images, {query: {system: [image]}}, of so many or more."""
    lists: dict[int, dict[int, list[int]]] = {query: {} for query in query_ids}
    rows = select(RankedList.query_id, RankedList.system_id, RankedList.image_ids).order_by(
        RankedList.query_id, RankedList.system_id
    )
    if systems:
        rows = rows.join(System, RankedList.system_id == System.id).where(System.name.in_(systems))
    for query_id, system_id, image_ids in session.execute(rows):
        if query_id in lists and len(image_ids) >= k:
            lists[query_id][system_id] = image_ids[:k]
    n_lacking = sum(len(by_system) < n_systems for by_system in lists.values())
    if n_lacking:
        raise ConfigError(
            "queries",
            f"{n_lacking} queries have lists of at least {k} images from fewer than "
            f"{n_systems} systems",
            "import the runs of more systems with `hsfiq import runs`",
        )
    return lists
