"""Arenas are drawn with exact balance: of pairs of systems, of sides, and of what people meet."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable
from dataclasses import replace
from itertools import combinations
from random import Random

import pytest
from sqlalchemy import select

from hsfiq.db.engine import Database
from hsfiq.db.tables import Form, Pair, Question
from hsfiq.study.searches import draw_sides
from tests.arenas import ARENA, draw_arena, systems_met


def spread(values: Iterable[Hashable], possible: Iterable[Hashable]) -> int:
    """The difference between the numbers of the commonest and of the rarest value."""
    counts = Counter(dict.fromkeys(possible, 0))
    counts.update(values)
    return max(counts.values()) - min(counts.values())


@pytest.mark.parametrize("n_systems", [2, 3, 4, 5, 7])
@pytest.mark.parametrize(("n_queries", "copies", "size"), [(20, 3, 6), (31, 4, 5), (9, 1, 4)])
def test_every_pair_and_every_side_comes_equally_often(
    n_systems: int, n_queries: int, copies: int, size: int
) -> None:
    rng = Random(n_systems)
    asked = [query for _ in range(copies) for query in rng.sample(range(n_queries), n_queries)]
    batches = [asked[start : start + size] for start in range(0, len(asked), size)]
    systems = [10 * system for system in range(n_systems)]
    drawn = draw_sides(batches, systems, Random(1))
    assert drawn == draw_sides(batches, systems, Random(1)) != draw_sides(batches, systems, rng)
    assert [len(batch) for batch in drawn] == [len(batch) for batch in batches]

    pairs = [frozenset(pair) for pair in combinations(systems, 2)]
    met = [frozenset(sides) for batch in drawn for sides in batch]
    assert spread(met, pairs) <= 1
    by_query = defaultdict(list)
    for query, pair in zip((query for batch in batches for query in batch), met, strict=True):
        by_query[query].append(pair)
    for of_query in by_query.values():
        assert spread(of_query, pairs) <= 1  # with few copies: nobody meets another's pair
    for batch in drawn:
        own = [frozenset(sides) for sides in batch]
        for start in range(0, len(own), len(pairs)):
            part = own[start : start + len(pairs)]
            assert len(set(part)) == len(part)
    for pair in pairs:
        first = [sides[0] for batch in drawn for sides in batch if set(sides) == pair]
        assert spread(first, pair) <= 1
    sides_1 = Counter(sides[0] for batch in drawn for sides in batch)
    sides_2 = Counter(sides[1] for batch in drawn for sides in batch)
    assert all(abs(sides_1[system] - sides_2[system]) < n_systems for system in systems)


def test_an_arena_is_stored_as_drawn(database: Database) -> None:
    study = draw_arena(database, design=replace(ARENA, annotators_per_query=3), n_queries=7)
    met = systems_met(database, study)
    assert len(met) == 21
    assert set(Counter(frozenset(sides) for sides in met.values()).values()) == {7}
    rows = (
        select(Question.id, Form.batch, Pair.query_id)
        .join(Form, Question.form_id == Form.id)
        .join(Pair, Question.pair_id == Pair.id)
        .where(Form.study_id == study)
    )
    by_person, by_query = defaultdict(list), defaultdict(list)
    with database.reading() as session:
        for question, batch, query in session.execute(rows):
            by_person[batch].append(frozenset(met[question]))
            by_query[query].append(frozenset(met[question]))
    for groups in (by_person, by_query):
        assert {len(group) for group in groups.values()} == {3}
        assert all(len(set(group)) == 3 for group in groups.values())
