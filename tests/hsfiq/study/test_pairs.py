"""The pairs of a study: balanced over systems and sides."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import combinations
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import select

from hsfiq.db.engine import Database
from hsfiq.db.source_tables import RankedList
from hsfiq.db.tables import Pair
from hsfiq.study.design import draw_systems
from tests.hsfiq.samples import on_sqlite
from tests.hsfiq.study.drawn_studies import drawn, systems_of
from tests.studies import SMALL, SYSTEMS, draw, make_queries

# -------------------------------------------------------------------------------------------- pairs


@given(
    seed=st.integers(),
    n_queries=st.integers(0, 40),
    systems=st.sets(st.integers(0, 20), min_size=2, max_size=6),
)
def test_pairs_of_systems_are_balanced(seed: int, n_queries: int, systems: set[int]) -> None:
    lists = {query: {system: [1] for system in systems} for query in range(n_queries)}
    pairs = draw_systems(Random(seed), lists, 2)
    assert [query for query, _, _ in pairs] == list(range(n_queries))
    counts = Counter((first, second) for _, first, second in pairs)
    assert all(
        first in systems and second in systems and first != second for first, second in counts
    )
    shares = [counts[choice] for choice in combinations(sorted(systems), 2)]
    assert max(shares) - min(shares) <= 1


@given(
    seed=st.integers(),
    have=st.lists(st.sets(st.sampled_from("abcd"), min_size=2), min_size=1, max_size=30),
)
def test_each_query_gets_two_of_its_systems(seed: int, have: list[set[str]]) -> None:
    codes = {name: number for number, name in enumerate("abcd")}
    lists = {query: {codes[name]: [1] for name in systems} for query, systems in enumerate(have)}
    for query, first, second in draw_systems(Random(seed), lists, 2):
        assert first != second
        assert {first, second} <= set(lists[query])


def test_a_study_compares_all_systems_equally(database: Database) -> None:
    study = draw(database, make_queries(database, {"shirt": 12}))
    pairs = systems_of(database, study)
    assert Counter(tuple(sorted(pair)) for pair in pairs) == dict.fromkeys(
        combinations(SYSTEMS, 2), 4
    )


def test_sets_are_the_first_images_of_the_lists(database: Database) -> None:
    study = draw(database, make_queries(database))
    with database.reading() as session:
        lists = {
            (row.query_id, row.system_id): row.image_ids
            for row in session.scalars(select(RankedList))
        }
        for pair in session.scalars(select(Pair).where(Pair.study_id == study)):
            for retrieved_set in (pair.first, pair.second):
                assert retrieved_set.system_id is not None
                members = [(member.rank, member.image_id) for member in retrieved_set.images]
                ranked = lists[pair.query_id, retrieved_set.system_id]
                assert len(ranked) == 3
                assert members == list(enumerate(ranked[:2]))


# -------------------------------------------------------------------------------------------- sides


@on_sqlite
@pytest.mark.parametrize("size", [1, 2, 3, 5, 6])
def test_sides_are_balanced_within_each_form(database: Database, size: int) -> None:
    queries = make_queries(database, {"shirt": 60})
    design = replace(SMALL, questions_per_form=size, forms_per_participant=1)
    rows = drawn(database, draw(database, queries, design))
    for number in {row[0] for row in rows}:
        swapped = sum(row[4] for row in rows if row[0] == number)
        assert swapped in {size // 2, (size + 1) // 2}


def test_the_order_of_sides_is_drawn(database: Database) -> None:
    """With an odd number of questions one side has one more; that side is drawn, too."""
    queries = make_queries(database, {"shirt": 120}, systems=("alpha", "beta"))
    one_each = replace(SMALL, questions_per_form=1, forms_per_participant=1)
    rows = drawn(database, draw(database, queries, one_each))
    assert 40 < sum(row[4] for row in rows) < 80
    six_each = replace(SMALL, questions_per_form=6)
    rows = drawn(database, draw(database, queries[:60], six_each, "six"))
    orders = {
        tuple(row[4] for row in rows if row[0] == number) for number in {row[0] for row in rows}
    }
    assert len(orders) > 4
