"""The pairs that a next study could ask: of each query two systems' sets that nobody has compared.

Whatever study of the database has shown two sets for a query, they are not shown again. Triplets
that a release holds out are left alone: what is learned from the next answers can still be tested
on them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path

from sqlalchemy import select
from sqlalchemy.orm import Session, joinedload

from hsfiq.db.tables import Image, Pair, Query, RetrievedImage, System, Triplet
from hsfiq.errors import UnreadableInput
from hsfiq.releases.reader import read_preferences, read_queries
from hsfiq.releases.splits import split_by, verify_no_leak
from hsfiq.study.design import ranked_lists

Shown = tuple[int, frozenset[tuple[str, ...]]]
"""A query's database key and the images of the two sets, in their order; one, if they are alike."""


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

    def shown(self, sets: Sequence[PossibleSet]) -> Shown:
        """What asking it would show; `sets` are those that the places are of."""
        return self.query_id, frozenset(sets[place].images for place in self.sets)

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
        n_asked: pairs that are no candidates since a study has shown their two sets.
        n_held_out: triplets that are none since a release holds them out.
    """

    sets: tuple[PossibleSet, ...]
    pairs: tuple[Candidate, ...]
    systems: Mapping[int, str]
    n_asked: int
    n_held_out: int


@dataclass(frozen=True, slots=True)
class HeldOut:
    """What a release holds out.

    Attributes:
        datasets: whose triplets it asks about.
        triplets: (dataset, reference, target) of those held out.
    """

    datasets: frozenset[str]
    triplets: frozenset[tuple[str, str, str | None]]


NOTHING = HeldOut(frozenset(), frozenset())


def candidates(
    session: Session,
    query_ids: Sequence[int],
    *,
    k: int,
    systems: Sequence[str],
    held_out: HeldOut = NOTHING,
) -> Candidates:
    """Find the pairs that could be asked about some queries.

    Args:
        session: of a transaction.
        query_ids: the queries' database keys.
        k: images in a set.
        systems: names of those to compare; all if there is none.
        held_out: the triplets to leave alone.

    Raises:
        ConfigError: a query has fewer than two systems' lists of at least k images.
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
        images = (names[triplet.reference_id], names.get(triplet.target_id or 0))
        if (triplet.dataset.name, *images) in held_out.triplets:
            left_alone.add(triplet.id)
            continue
        places = {system: len(sets) + i for i, system in enumerate(sorted(by_system))}
        sets += [
            PossibleSet(
                images[0],
                query.text,
                tuple(names[it] for it in by_system[system]),
            )
            for system in places
        ]
        for one, other in combinations(places, 2):
            it = Candidate(
                query_id, triplet.id, triplet.category, (one, other), (places[one], places[other])
            )
            if it.shown(sets) in asked:
                n_asked += 1
            else:
                pairs.append(it)
    known = dict(session.execute(select(System.id, System.name)).all())
    return Candidates(tuple(sets), tuple(pairs), known, n_asked, len(left_alone))


def pairs_asked(session: Session) -> set[Shown]:
    """What every pair of any study has shown, whichever systems its sets came from."""
    images: dict[int, list[str]] = defaultdict(list)
    rows = select(RetrievedImage.set_id, Image.name).join(RetrievedImage.image)
    for set_id, name in session.execute(rows.order_by(RetrievedImage.rank)):
        images[set_id].append(name)
    return {
        (query, frozenset((tuple(images[first]), tuple(images[second]))))
        for query, first, second in session.execute(
            select(Pair.query_id, Pair.first_id, Pair.second_id)
        )
    }


def possible_queries(session: Session, wanted: Collection[int]) -> dict[int, Query]:
    """The queries by their keys, with their triplets."""
    rows = select(Query).options(joinedload(Query.triplet).joinedload(Triplet.dataset))
    return {query.id: query for query in session.scalars(rows) if query.id in wanted}


def image_names(session: Session) -> dict[int, str]:
    """The images' ids by their database keys."""
    return dict(session.execute(select(Image.id, Image.name)).all())


def held_out_of(release: Path) -> HeldOut:
    """The triplets that a release holds out: of its questions, none to train on is about them.

    Raises:
        UnreadableInput: the folder is no release, it has no split, it holds out people and no
            triplets, or its split leaks.
    """
    parts = verify_no_leak(release)
    if split_by(release) == "participant":
        raise UnreadableInput(
            str(release), "holds out participants and no triplets", "leave --release out"
        )
    queries = read_queries(release)
    images = {
        query_id: (query.dataset, query.reference, query.target)
        for query_id, query in queries.items()
    }
    trained_on = {
        images[answer.query_id]
        for answer in read_preferences(release)
        if parts[answer.question_id] == "train"
    }
    return HeldOut(
        datasets=frozenset(query.dataset for query in queries.values()),
        triplets=frozenset(images.values()) - trained_on,
    )
