"""The pairs that a next study could ask: two systems' sets of a query that no study has shown.

Triplets that a release holds out are excluded, so that a scorer trained on the next answers can
still be tested on them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path

from sqlalchemy import select
from sqlalchemy.orm import Session, joinedload

from hsfiq.db.change_tables import StudyCreation
from hsfiq.db.tables import Image, Pair, Query, RetrievedImage, System, Triplet
from hsfiq.errors import UnreadableInput
from hsfiq.releases.reader import read_preferences, read_queries
from hsfiq.releases.splits import split_by, verify_no_leak
from hsfiq.study.drawing.material import ranked_lists

Shown = tuple[int, frozenset[tuple[str, ...]]]
"""A query's database key and the images of its two sets (one, if the sets are equal)."""


@dataclass(frozen=True, slots=True)
class PossibleSet:
    """The k images that a system would show for a query, by id, with reference and text."""

    reference: str | None
    text: str
    images: tuple[str, ...]

    @property
    def scorer_query(self) -> tuple[str, str]:
        """Reference and text; `UnreadableInput` if the query has no reference or no text."""
        if self.reference is None or not self.text:
            raise UnreadableInput(
                "--scorer",
                "a query has no reference image or no text, and a scorer needs both",
                "use --strategy random without --scorer",
            )
        return self.reference, self.text


@dataclass(frozen=True, slots=True)
class Candidate:
    """A pair that could be asked; ids and systems are database keys, the smaller system first.

    `sets` are the indices of its sets in `Candidates.sets`.
    """

    query_id: int
    triplet_id: int
    category: str
    systems: tuple[int, int]
    sets: tuple[int, int]

    def shown(self, sets: Sequence[PossibleSet]) -> Shown:
        """What this pair would show; `sets` is the list that its indices refer to."""
        return self.query_id, frozenset(sets[place].images for place in self.sets)

    def with_sets(self, first: int, second: int) -> Candidate:
        return replace(self, sets=(first, second))


@dataclass(frozen=True, slots=True)
class Candidates:
    """All pairs that could be asked.

    Attributes:
        sets: each set once.
        pairs: of these sets.
        systems: the systems' names by database key.
        n_asked: pairs excluded because a study has shown their two sets.
        n_held_out: triplets excluded because a release holds them out.
    """

    sets: tuple[PossibleSet, ...]
    pairs: tuple[Candidate, ...]
    systems: Mapping[int, str]
    n_asked: int
    n_held_out: int


@dataclass(frozen=True, slots=True)
class HeldOut:
    """The triplets that a release holds out, and its datasets.

    A triplet is identified by `triplet_identity`.
    """

    datasets: frozenset[str]
    triplets: frozenset[tuple[str, ...]]


NOTHING = HeldOut(frozenset(), frozenset())


def candidates(
    session: Session,
    query_ids: Sequence[int],
    *,
    k: int,
    systems: Sequence[str],
    held_out: HeldOut = NOTHING,
) -> Candidates:
    """The pairs that could be asked about these queries (database keys), at k images a set.

    `systems` are names, all if empty. `ConfigError` if a query has too few lists of k images.
    """
    lists = ranked_lists(session, query_ids, k, systems)
    asked = pairs_asked(session)
    queries = possible_queries(session, lists)
    names = image_names(session)
    sets: list[PossibleSet] = []
    pairs: list[Candidate] = []
    n_asked, excluded = 0, set[int]()
    for query_id, by_system in lists.items():
        query, triplet = queries[query_id], queries[query_id].triplet
        reference = names.get(triplet.reference_id or 0)
        target = names.get(triplet.target_id or 0)
        identity = triplet_identity(triplet.dataset.name, triplet.external_id, reference, target)
        if identity in held_out.triplets:
            excluded.add(triplet.id)
            continue
        places = {system: len(sets) + i for i, system in enumerate(sorted(by_system))}
        sets += [
            PossibleSet(reference, query.text, tuple(names[image] for image in by_system[system]))
            for system in places
        ]
        for first, second in combinations(places, 2):
            pair = Candidate(
                query_id=query_id,
                triplet_id=triplet.id,
                category=triplet.category,
                systems=(first, second),
                sets=(places[first], places[second]),
            )
            if pair.shown(sets) in asked:
                n_asked += 1
            else:
                pairs.append(pair)
    known = dict(session.execute(select(System.id, System.name)).all())
    return Candidates(tuple(sets), tuple(pairs), known, n_asked, len(excluded))


def pairs_asked(session: Session) -> set[Shown]:
    """What the pairs of all studies have shown, whichever systems the sets are from."""
    images: dict[int, list[str]] = defaultdict(list)
    rows = select(RetrievedImage.set_id, Image.name).join(RetrievedImage.image)
    for set_id, name in session.execute(rows.order_by(RetrievedImage.rank)):
        images[set_id].append(name)
    return {
        (query, frozenset((tuple(images[first]), tuple(images[second]))))
        for query, first, second in session.execute(
            select(Pair.query_id, Pair.first_id, Pair.second_id).where(
                Pair.study_id.not_in(select(StudyCreation.study_id))
            )
        )
        if first is not None and second is not None
    }


def possible_queries(session: Session, wanted: Collection[int]) -> dict[int, Query]:
    rows = select(Query).options(joinedload(Query.triplet).joinedload(Triplet.dataset))
    return {query.id: query for query in session.scalars(rows) if query.id in wanted}


def image_names(session: Session) -> dict[int, str]:
    return dict(session.execute(select(Image.id, Image.name)).all())


def held_out_of(release: Path) -> HeldOut:
    """The triplets that a release holds out: those that no question to train on is about.

    `UnreadableInput` if its split is missing, leaks, or holds out participants instead.
    """
    parts = verify_no_leak(release)
    if split_by(release) == "participant":
        raise UnreadableInput(
            str(release), "holds out participants and no triplets", "leave --release out"
        )
    queries = read_queries(release)
    identities = {
        query_id: triplet_identity(query.dataset, query.triplet_id, query.reference, query.target)
        for query_id, query in queries.items()
    }
    trained_on = {
        identities[answer.query_id]
        for answer in read_preferences(release)
        if parts[answer.question_id] == "train"
    }
    return HeldOut(
        datasets=frozenset(query.dataset for query in queries.values()),
        triplets=frozenset(identities.values()) - trained_on,
    )


def triplet_identity(
    dataset: str, triplet_id: str, reference: str | None, target: str | None
) -> tuple[str, ...]:
    """What a triplet has in common with the same one of another database.

    Its images, because a published study's triplets have ids of their own; without both, its id.
    """
    if reference is None or target is None:
        return dataset, triplet_id
    return dataset, reference, target
