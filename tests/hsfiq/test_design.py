"""Drawing a study: balanced, blind to order, fair to each participant, the same by seed."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import combinations
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import select
from studies import SMALL, SYSTEMS, Seat, draw, make_queries

from hsfiq import store
from hsfiq.database import Database
from hsfiq.design import Design, batches, draw_pairs, draw_study
from hsfiq.errors import NotOpen, UnreadableInput
from hsfiq.tables import Check, Form, Pair, Question, RankedList, Study

Drawn = list[tuple[int, str, int, int, bool]]


def drawn(database: Database, study: int) -> Drawn:
    """Each question of a study: form, category, place, query, which set comes first."""
    with database.reading() as session:
        rows = session.execute(
            select(Form.number, Form.category, Question.place, Pair.query_id, Question.swapped)
            .join(Question.form)
            .join(Question.pair)
            .where(Form.study_id == study)
            .order_by(Form.number, Question.place)
        )
        return [tuple(row) for row in rows]  # type: ignore[misc]


def systems_of(database: Database, study: int) -> list[tuple[str, str]]:
    """The two systems of each pair of a study."""
    with database.reading() as session:
        pairs = session.scalars(select(Pair).where(Pair.study_id == study)).all()
        return [
            (pair.first.system.name, pair.second.system.name)
            for pair in pairs
            if pair.first.system and pair.second.system
        ]


# ------------------------------------------------------------------------------------------ pairs


@given(
    seed=st.integers(),
    n_queries=st.integers(0, 40),
    systems=st.sets(st.integers(0, 20), min_size=2, max_size=6),
)
@settings(deadline=None)
def test_pairs_of_systems_are_balanced(seed: int, n_queries: int, systems: set[int]) -> None:
    lists = {query: {system: [1] for system in systems} for query in range(n_queries)}
    pairs = draw_pairs(Random(seed), lists)
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
@settings(deadline=None)
def test_each_query_gets_two_systems_that_it_has(seed: int, have: list[set[str]]) -> None:
    codes = {name: number for number, name in enumerate("abcd")}
    lists = {query: {codes[name]: [1] for name in systems} for query, systems in enumerate(have)}
    for query, first, second in draw_pairs(Random(seed), lists):
        assert first != second
        assert {first, second} <= set(lists[query])


def test_a_study_compares_all_systems_equally(database: Database) -> None:
    study = draw(database, make_queries(database, {"shirt": 12}))
    pairs = systems_of(database, study)
    assert Counter(tuple(sorted(pair)) for pair in pairs) == dict.fromkeys(
        combinations(SYSTEMS, 2), 4
    )


def test_sets_are_the_top_of_the_lists_in_their_order(database: Database) -> None:
    study = draw(database, make_queries(database))
    with database.reading() as session:
        lists = {
            (row.query_id, row.system_id): row.image_ids
            for row in session.scalars(select(RankedList))
        }
        for pair in session.scalars(select(Pair).where(Pair.study_id == study)):
            for shown in (pair.first, pair.second):
                assert shown.system_id is not None
                found = [(member.rank, member.image_id) for member in shown.images]
                whole = lists[pair.query_id, shown.system_id]
                assert len(whole) == 3
                assert found == list(enumerate(whole[:2]))


# ------------------------------------------------------------------------------------------ sides


@pytest.mark.parametrize("size", [1, 2, 3, 5, 6])
def test_sides_are_balanced_within_each_form(database: Database, size: int) -> None:
    queries = make_queries(database, {"shirt": 60})
    design = replace(SMALL, questions_per_form=size, forms_per_participant=1)
    rows = drawn(database, draw(database, queries, design))
    for number in {row[0] for row in rows}:
        swapped = sum(row[4] for row in rows if row[0] == number)
        assert swapped in {size // 2, (size + 1) // 2}


def test_no_system_has_a_side_of_its_own(database: Database) -> None:
    """With an odd number of questions one side has one more: which one is drawn, too."""
    queries = make_queries(database, {"shirt": 120}, systems=("alpha", "beta"))
    design = replace(SMALL, questions_per_form=1, forms_per_participant=1)
    rows = drawn(database, draw(database, queries, design))
    assert 40 < sum(row[4] for row in rows) < 80


def test_the_order_of_sides_is_drawn(database: Database) -> None:
    queries = make_queries(database, {"shirt": 60})
    rows = drawn(database, draw(database, queries, replace(SMALL, questions_per_form=6)))
    orders = {
        tuple(row[4] for row in rows if row[0] == number) for number in {row[0] for row in rows}
    }
    assert len(orders) > 4


# ------------------------------------------------------------------------------------------ forms


def test_every_form_is_full_and_of_one_category(database: Database) -> None:
    queries = make_queries(database, {"dress": 9, "shirt": 8, "toptee": 3})
    rows = drawn(database, draw(database, queries))
    sizes = Counter((number, category) for number, category, *_ in rows)
    assert sizes == {
        (0, "dress"): 2, (1, "dress"): 2, (2, "dress"): 2, (3, "dress"): 2,
        (4, "shirt"): 2, (5, "shirt"): 2, (6, "shirt"): 2, (7, "shirt"): 2,
    }  # fmt: skip
    assert all(place in (0, 1) for _, _, place, _, _ in rows)


def test_each_query_is_asked_once(database: Database) -> None:
    queries = make_queries(database, {"shirt": 16})
    asked = [row[3] for row in drawn(database, draw(database, queries))]
    assert sorted(asked) == sorted(queries)


def test_each_form_begins_with_its_sum(database: Database) -> None:
    draw(database, make_queries(database))
    with database.reading() as session:
        checks = session.scalars(select(Check).order_by(Check.form_id)).all()
        assert len(checks) == len(session.scalars(select(Form)).all())
    for check in checks:
        left, plus, right = check.prompt.split()
        assert (check.place, check.kind, plus) == (0, "arithmetic", "+")
        assert int(left) + int(right) == int(check.expected)


@given(
    n_triplets=st.integers(1, 25),
    twice=st.floats(0, 1),
    per_form=st.integers(1, 5),
    forms=st.integers(1, 3),
    seed=st.integers(),
)
@settings(deadline=None)
def test_nobody_is_dealt_a_triplet_twice(
    n_triplets: int, twice: float, per_form: int, forms: int, seed: int
) -> None:
    rng = Random(seed)
    triplets = [n for n in range(n_triplets) for _ in range(1 + (rng.random() < twice))]
    triplet_of = dict(enumerate(triplets))
    design = Design(questions_per_form=per_form, forms_per_participant=forms)
    dealt = batches(list(triplet_of.items()), design, rng)
    assert all(len(form) == per_form for form in dealt)
    assert len(dealt) % forms == 0
    for start in range(0, len(dealt), forms):
        seen = [triplet_of[pair] for form in dealt[start : start + forms] for pair in form]
        assert len(set(seen)) == len(seen)
    everything = [pair for form in dealt for pair in form]
    assert len(set(everything)) == len(everything)
    if len(set(triplets)) == len(triplets):  # nothing stands in the way of full groups
        size = per_form * forms
        assert len(everything) == len(triplets) // size * size


def test_both_orders_of_a_triplet_go_to_different_people(database: Database) -> None:
    queries = make_queries(database, {"shirt": 20}, both_orders=True)
    study = draw(database, queries)
    met: list[set[int]] = []
    while True:
        try:
            seat = Seat.taken(database, study)
        except NotOpen:
            break
        with database.reading() as session:
            triplets = [
                store.load_question(session, key).pair.query.triplet_id for key in seat.question_ids
            ]
        assert len(set(triplets)) == len(triplets) == 4
        met.append(set(triplets))
    assert len(met) >= 9  # hardly a question is lost to that rule


# ------------------------------------------------------------------------------------------- seed


def test_a_seed_draws_the_same_study_again(database: Database) -> None:
    queries = make_queries(database, {"dress": 8, "shirt": 12})
    studies = [
        draw(database, queries, replace(SMALL, seed=seed), name=f"study-{number}")
        for number, seed in enumerate((5, 5, 6))
    ]
    first, again, other = (drawn(database, study) for study in studies)
    assert first == again
    assert first != other
    pairs = [systems_of(database, study) for study in studies]
    assert pairs[0] == pairs[1]
    assert pairs[0] != pairs[2]


def test_the_design_is_kept_with_the_study(database: Database) -> None:
    key = draw(database, make_queries(database))
    with database.reading() as session:
        study = session.get_one(Study, key)
    assert Design(**study.design) == SMALL
    assert (study.k, study.ties_allowed, study.forms_per_participant) == (2, False, 2)
    assert (study.status, study.origin, study.source_sha256) == ("open", "collected", None)


# ----------------------------------------------------------------------------------------- errors


def refusal(database: Database, queries: list[int], design: Design = SMALL) -> str:
    """The one line by which a design is refused; nothing of it may be left."""
    with pytest.raises(UnreadableInput) as refused, database.writing() as session:
        draw_study(session, "refused", design, queries, title="", guidelines="")
    with database.reading() as session:
        assert session.scalars(select(Study)).all() == []
        assert session.scalars(select(Pair)).all() == []
    line = str(refused.value)
    assert "\n" not in line
    return line


def test_one_system_is_not_enough(database: Database) -> None:
    queries = make_queries(database, systems=("alone",))
    assert "8 queries have lists of at least 2 images from fewer than two systems" in refusal(
        database, queries
    )


def test_lists_shorter_than_a_set_do_not_count(database: Database) -> None:
    queries = make_queries(database)
    line = refusal(database, queries, replace(SMALL, k=4))
    assert "8 queries have lists of at least 4 images" in line
    assert "hsfiq import runs" in line


@pytest.mark.parametrize("category_sizes", [{"shirt": 3}, {"shirt": 3, "dress": 3}])
def test_too_few_queries_for_one_participant(
    database: Database, category_sizes: dict[str, int]
) -> None:
    queries = make_queries(database, category_sizes)
    assert "no category has the 4 queries that one participant answers" in refusal(
        database, queries
    )


def test_no_queries_at_all(database: Database) -> None:
    assert "no category has the 4 queries" in refusal(database, [])


def test_a_query_that_is_not_there(database: Database) -> None:
    assert "1 queries have lists" in refusal(database, [*make_queries(database), 10**6])
