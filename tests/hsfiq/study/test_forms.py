"""The forms of a study: full, of one category, with exact overlap."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import select

from hsfiq.collect.asked_questions import load_question
from hsfiq.db.engine import Database
from hsfiq.db.source_tables import Query, Triplet
from hsfiq.db.tables import Check, Form, Pair, Question
from hsfiq.errors import NotOpen
from hsfiq.study.config import Checks, Design
from hsfiq.study.design import DrawnPair
from hsfiq.study.forms import batches
from tests.hsfiq.study.drawn_studies import drawn
from tests.studies import SMALL, Seat, config, draw, make_queries


def test_forms_are_full_except_the_last_and_of_one_category(database: Database) -> None:
    """Each query is asked once."""
    queries = make_queries(database, {"dress": 9, "shirt": 8, "toptee": 3})
    rows = drawn(database, draw(database, queries))
    sizes = Counter((number, category) for number, category, *_ in rows)
    categories = ["dress"] * 5 + ["shirt"] * 4 + ["toptee"] * 2
    assert sizes == {key: 1 if key[0] in (4, 10) else 2 for key in enumerate(categories)}
    assert all(place in (0, 1) for _, _, place, _, _ in rows)
    assert sorted(row[3] for row in rows) == sorted(queries)


@pytest.mark.parametrize("arithmetic", [True, False])
def test_each_form_begins_with_its_sum_if_the_study_asks(
    database: Database, arithmetic: bool
) -> None:
    draw(database, make_queries(database), checks=Checks(arithmetic=arithmetic))
    with database.reading() as session:
        checks = session.scalars(select(Check).order_by(Check.form_id)).all()
        n_forms = len(session.scalars(select(Form)).all())
    assert len(checks) == (n_forms if arithmetic else 0)
    for check in checks:
        left, plus, right = check.prompt.split()
        assert (check.place, check.kind, plus) == (0, "arithmetic", "+")
        assert int(left) + int(right) == int(check.expected)


def test_categories_may_be_mixed(database: Database) -> None:
    queries = make_queries(database, {"dress": 8, "shirt": 8, "toptee": 8})
    study = draw(database, queries, replace(SMALL, categories="mixed"))
    rows = drawn(database, study)
    assert {category for _, category, *_ in rows} == {""}
    assert Seat.taken(database, study).participant().category is None
    with database.reading() as session:
        kinds = session.execute(select(Query.id, Triplet.category).join(Query.triplet))
        of_query = dict(kinds.all())
    of_form: dict[int, set[str]] = defaultdict(set)
    for number, _, _, query, _ in rows:
        of_form[number].add(of_query[query])
    assert len(of_form) == 12
    assert any(len(categories) > 1 for categories in of_form.values())


@given(
    n_triplets=st.integers(1, 25),
    repeat_rate=st.floats(0, 1),
    per_form=st.integers(1, 5),
    forms=st.integers(1, 3),
    annotators=st.integers(1, 5),
    share=st.floats(0, 1),
    categories=st.sampled_from(["one", "mixed"]),
    seed=st.integers(),
)
def test_overlap_is_exact_and_no_participant_gets_a_triplet_twice(
    n_triplets: int,
    repeat_rate: float,
    per_form: int,
    forms: int,
    annotators: int,
    share: float,
    categories: Any,
    seed: int,
) -> None:
    rng = Random(seed)
    triplets = [n for n in range(n_triplets) for _ in range(1 + (rng.random() < repeat_rate))]
    pairs = [
        DrawnPair(number, number, triplet, "dress" if triplet % 3 else "shirt")
        for number, triplet in enumerate(triplets)
    ]
    design = Design(
        questions_per_form=per_form,
        forms_per_participant=forms,
        annotators_per_query=annotators,
        overlap_share=share,
        categories=categories,
    )
    dealt = batches(pairs, config(design), rng)
    for batch in dealt:
        triplet_ids = [pair.triplet_id for pair in batch]
        assert 1 <= len(triplet_ids) == len(set(triplet_ids)) <= per_form * forms
        assert categories == "mixed" or len({pair.category for pair in batch}) == 1
    copies = Counter(pair.pair_id for batch in dealt for pair in batch)
    assert set(copies) == set(range(len(pairs)))
    groups = [pairs] if categories == "mixed" else [
        [pair for pair in pairs if pair.category == category] for category in ("dress", "shirt")
    ]  # fmt: skip
    for group in groups:
        shared = sum(copies[pair.pair_id] == annotators for pair in group)
        if annotators > 1:
            assert shared == round(share * len(group))
            assert sum(copies[pair.pair_id] == 1 for pair in group) == len(group) - shared
        else:
            assert shared == len(group)
    if len(set(triplets)) == len(triplets) and categories == "mixed" and annotators == 1:
        assert len(dealt) == -(-len(pairs) // (per_form * forms))  # only the last has room


def test_copies_of_a_pair_go_to_different_participants(database: Database) -> None:
    design = replace(SMALL, annotators_per_query=3, overlap_share=0.5)
    study = draw(database, make_queries(database), design)
    with database.reading() as session:
        rows = session.execute(
            select(Question.pair_id, Form.batch).join(Question.form).where(Form.study_id == study)
        ).all()
        assert len(session.scalars(select(Pair)).all()) == 8
    assert sorted(Counter(pair for pair, _ in rows).values()) == [1] * 4 + [3] * 4
    assert len({tuple(row) for row in rows}) == len(rows) == 16


def test_both_orders_of_a_triplet_go_to_different_participants(database: Database) -> None:
    queries = make_queries(database, {"shirt": 20}, both_orders=True)
    study = draw(database, queries)
    triplet_sets: list[set[int]] = []
    while True:
        try:
            seat = Seat.taken(database, study)
        except NotOpen:
            break
        with database.reading() as session:
            triplets = [
                load_question(session, key).pair.query.triplet_id for key in seat.question_ids
            ]
        assert len(set(triplets)) == len(triplets) == 4
        triplet_sets.append(set(triplets))
    assert len(triplet_sets) >= 9  # hardly a question is lost to that rule
