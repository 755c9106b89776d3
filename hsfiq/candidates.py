"""The pairs that a next study could ask: of each query two systems' sets that nobody has compared.

Whatever study of the database has asked a pair, it is not asked again. Triplets that a release
holds out are left alone: what is learned from the next answers can still be tested on them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path

import pyarrow.parquet as pq
from sqlalchemy import select
from sqlalchemy.orm import Session, aliased, joinedload

from hsfiq.design import ranked_lists
from hsfiq.releases.splits import split_by, verify_no_leak
from hsfiq.tables import Image, Pair, Query, RetrievedSet, System


@dataclass(frozen=True, slots=True)
class PossibleSet:
    """What a system would show for a query: its k images, by their ids, with reference and text."""

    reference: str
    text: str
    images: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A pair that could be asked.

    Attributes:
        query_id: the query's database key.
        triplet_id: its triplet's.
        category: its triplet's.
        systems: the two systems' keys, the smaller first.
        sets: the places of their sets in `Candidates.sets`.
    """

    query_id: int
    triplet_id: int
    category: str
    systems: tuple[int, int]
    sets: tuple[int, int]

    def with_sets(self, one: int, other: int) -> Candidate:
        """The same pair where the places of the sets are others."""
        return replace(self, sets=(one, other))


@dataclass(frozen=True, slots=True)
class Candidates:
    """All that could be asked.

    Attributes:
        sets: each set once.
        pairs: of these.
        systems: the systems' names by their keys.
        n_asked: pairs that are no candidates since a study has asked them.
        n_held_out: triplets that are none since a release holds them out.
    """

    sets: tuple[PossibleSet, ...]
    pairs: tuple[Candidate, ...]
    systems: Mapping[int, str]
    n_asked: int
    n_held_out: int


def candidates(
    session: Session,
    query_ids: Sequence[int],
    *,
    k: int,
    systems: Sequence[str],
    held_out: Collection[str],
) -> Candidates:
    """Find the pairs that could be asked about some queries.

    Args:
        session: of a transaction.
        query_ids: the queries' database keys.
        k: images in a set.
        systems: names of those to compare; all if there is none.
        held_out: outside ids of the triplets to leave alone.

    Raises:
        Mistake: a query has fewer than two systems' lists of at least k images.
    """
    lists = ranked_lists(session, query_ids, k, systems)
    asked = pairs_asked(session)
    queries = possible_queries(session, lists)
    names = image_names(session)
    sets: list[PossibleSet] = []
    pairs: list[Candidate] = []
    n_asked, left_alone = 0, set[int]()
    for query_id, by_system in lists.items():
        query, triplet = queries[query_id], queries[query_id].triplet
        if triplet.external_id in held_out:
            left_alone.add(triplet.id)
            continue
        places = {system: len(sets) + i for i, system in enumerate(sorted(by_system))}
        sets += [
            PossibleSet(
                names[triplet.reference_id],
                query.text,
                tuple(names[it] for it in by_system[system]),
            )
            for system in places
        ]
        for one, other in combinations(places, 2):
            if (query_id, one, other) in asked:
                n_asked += 1
                continue
            asked_with, sets_of = (one, other), (places[one], places[other])
            pairs.append(Candidate(query_id, triplet.id, triplet.category, asked_with, sets_of))
    known = dict(session.execute(select(System.id, System.name)).all())
    return Candidates(tuple(sets), tuple(pairs), known, n_asked, len(left_alone))


def pairs_asked(session: Session) -> set[tuple[int, int, int]]:
    """(query, system, system) of every pair of any study, the smaller system's key first."""
    first, second = aliased(RetrievedSet), aliased(RetrievedSet)
    rows = (
        select(Pair.query_id, first.system_id, second.system_id)
        .join(first, Pair.first_id == first.id)
        .join(second, Pair.second_id == second.id)
    )
    return {
        (query, min(one, other), max(one, other))
        for query, one, other in session.execute(rows)
        if one is not None and other is not None
    }


def possible_queries(session: Session, wanted: Collection[int]) -> dict[int, Query]:
    """The queries by their keys, with their triplets."""
    rows = select(Query).options(joinedload(Query.triplet))
    return {query.id: query for query in session.scalars(rows) if query.id in wanted}


def image_names(session: Session) -> dict[int, str]:
    """The images' ids by their database keys."""
    return dict(session.execute(select(Image.id, Image.name)).all())


def held_out_triplets(release: Path) -> set[str]:
    """Outside ids of the triplets that a release holds out; none where it holds out people alone.

    Raises:
        UnreadableInput: the folder is no release, it has no split, or its split leaks.
    """
    parts = verify_no_leak(release)
    if split_by(release) == "participant":
        return set()
    answered = pq.read_table(release / "preferences.parquet", columns=["question_id", "query_id"])
    tested = {it["query_id"] for it in answered.to_pylist() if parts[it["question_id"]] == "test"}
    queries = pq.read_table(release / "queries.parquet", columns=["query_id", "triplet_id"])
    return {it["triplet_id"] for it in queries.to_pylist() if it["query_id"] in tested}
