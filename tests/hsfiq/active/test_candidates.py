"""The pairs that a next study may ask about, and a balanced choice of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import select

from hsfiq.actors import OWNER
from hsfiq.db.engine import Database
from hsfiq.db.tables import Pair, RetrievedSet
from hsfiq.errors import UnreadableInput
from hsfiq.next_study import (
    NOTHING,
    Candidate,
    HeldOut,
    Wanted,
    balanced,
    candidates,
    pairs_asked,
    store_study,
)
from tests.hsfiq.active.chosen_pairs import pairs_of
from tests.studies import SMALL, SYSTEMS, config, draw, make_queries

pytestmark = pytest.mark.usefixtures("database")


def test_all_pairs_except_those_shown_and_those_held_out(database: Database) -> None:
    queries = make_queries(database, {"shirt": 4})
    draw(database, queries)
    shown_pairs = {(name, frozenset(systems)) for name, systems in pairs_of(database, "small")}
    with database.reading() as session:
        available = candidates(
            session, queries, k=2, systems=(), held_out=held_out_triplet("shirt", 2)
        )
        names = {key: f"shirt.val.{place}" for place, key in enumerate(queries)}
        possible = {
            (
                names[candidate.query_id],
                frozenset(available.systems[system] for system in candidate.systems),
            )
            for candidate in available.pairs
        }
    all_pairs = {
        (f"shirt.val.{number}", frozenset(systems))
        for number in range(4)
        for systems in combinations(SYSTEMS, 2)
        if number != 2
    }
    assert possible == all_pairs - shown_pairs
    assert (available.n_asked, available.n_held_out) == (3, 1)


def test_a_study_of_the_candidates_shows_their_sets(database: Database) -> None:
    queries = make_queries(database, {"shirt": 2})
    next_study = Wanted(config(), "collected")
    with database.reading() as session:
        available = candidates(session, queries, k=2, systems=SYSTEMS[:2], held_out=NOTHING)
    store_study(
        database, next_study, available.pairs, available.sets, {}, actor=OWNER, status="open"
    )
    with database.reading() as session:
        sets_of_study = [
            (pair.query.triplet.reference.name, tuple(row.image.name for row in side.images))
            for pair in session.scalars(select(Pair).order_by(Pair.id))
            for side in (pair.first, pair.second)
        ]
    possible = [available.sets[place] for candidate in available.pairs for place in candidate.sets]
    assert sets_of_study == [
        (candidate_set.reference, candidate_set.images) for candidate_set in possible
    ]


def held_out_triplet(category: str, number: int) -> HeldOut:
    """A triplet that a release holds out."""
    images = (f"image-{number % 8}", f"image-{(number + 1) % 8}")
    return HeldOut(frozenset({"small"}), frozenset({("small", *images)}))


def test_pairs_shown_in_any_study_are_excluded(database: Database) -> None:
    queries = make_queries(database, {"shirt": 3})
    draw(database, queries)
    draw(database, queries, name="other", design=replace(SMALL, seed=9))
    with database.reading() as session:
        pairs = pairs_asked(session)
        expected = {
            (
                pair.query_id,
                frozenset(
                    tuple(member.image.name for member in side.images)
                    for side in (pair.first, pair.second)
                ),
            )
            for pair in session.scalars(select(Pair))
        }
    assert pairs == expected


def test_sets_without_a_system_count_as_shown(database: Database) -> None:
    """The published answers do not say which systems they compare."""
    queries = make_queries(database, {"shirt": 4})
    draw(database, queries)
    with database.writing() as session:
        for retrieved_set in session.scalars(select(RetrievedSet)):
            retrieved_set.system_id = None
    with database.reading() as session:
        available = candidates(session, queries, k=2, systems=())
    assert (len(available.pairs), available.n_asked) == (8, 4)


# ----------------------------------------------------------------------------------------- balance


def made_pairs(shape: Sequence[tuple[int, int]]) -> list[Candidate]:
    """Candidate pairs of triplets; `shape` has the category and number of systems of each."""
    return [
        Candidate(triplet, triplet, f"category-{category}", pair, (0, 0))
        for triplet, (category, systems) in enumerate(shape)
        for pair in combinations(range(systems), 2)
    ]


@given(
    shape=st.lists(st.tuples(st.integers(0, 2), st.integers(2, 4)), min_size=1, max_size=30),
    share=st.floats(0.1, 1),
    seed=st.integers(0, 99),
)
def test_each_triplet_is_chosen_at_most_once(
    shape: list[tuple[int, int]], share: float, seed: int
) -> None:
    pairs, n = made_pairs(shape), max(1, int(share * len(shape)))
    rng = Random(seed)
    places = balanced(pairs, n, rng.choice, rng)
    triplets = [pairs[place].triplet_id for place in places]
    assert len(triplets) == len(set(triplets)) == n


@pytest.mark.parametrize("seed", range(5))
def test_the_choice_is_balanced_over_categories_and_systems(seed: int) -> None:
    pairs = made_pairs([(category, 4) for category in range(3) for _ in range(40)])
    favourite = lambda places: max(places, key=lambda place: pairs[place].systems == (0, 1))  # noqa: E731
    rng = Random(seed)
    for pick in (favourite, rng.choice, min):
        chosen = [pairs[place] for place in balanced(pairs, 36, pick, Random(seed))]
        cells = Counter((pair.category, pair.systems) for pair in chosen)
        assert list(cells.values()) == [2] * 18
        assert set(Counter(pair.category for pair in chosen).values()) == {12}
        assert set(Counter(pair.systems for pair in chosen).values()) == {6}


def test_few_pairs_are_balanced_over_systems_within_category() -> None:
    pairs = made_pairs([(category, 4) for category in range(3) for _ in range(40)])
    for seed in range(5):
        rng = Random(seed)
        chosen = [pairs[place] for place in balanced(pairs, 12, rng.choice, rng)]
        assert set(Counter(pair.category for pair in chosen).values()) == {4}
        assert set(Counter((pair.category, pair.systems) for pair in chosen).values()) == {1}
        of_systems = Counter(pair.systems for pair in chosen).values()
        assert (len(of_systems), max(of_systems) - min(of_systems) <= 2) == (6, True)


def test_too_few_triplets() -> None:
    pairs = made_pairs([(0, 4), (0, 4)])
    with pytest.raises(UnreadableInput, match="3 pairs are requested, but only 2 triplets"):
        balanced(pairs, 3, min, Random(0))
