"""Drawing a study: balanced, blind to order, fair to each participant, the same by seed."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import combinations
from random import Random
from time import monotonic
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import select

from hsfiq.collect.progress import progress_of
from hsfiq.collect.steps import load_question, shown_images, shown_sets
from hsfiq.db.engine import Database
from hsfiq.db.tables import (
    Check,
    Dataset,
    Form,
    Image,
    Pair,
    Query,
    Question,
    RankedList,
    Study,
    System,
    Triplet,
)
from hsfiq.errors import ConfigError, NotOpen
from hsfiq.study.config import Checks, Design, Queries, config_of
from hsfiq.study.design import DrawnPair, batches, draw_pairs, draw_study
from hsfiq.study.queries import chosen_queries
from tests.hsfiq.samples import on_sqlite
from tests.studies import SMALL, SYSTEMS, Seat, config, draw, make_queries

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
def test_each_query_gets_two_of_its_systems(seed: int, have: list[set[str]]) -> None:
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
            for retrieved_set in (pair.first, pair.second):
                assert retrieved_set.system_id is not None
                members = [(member.rank, member.image_id) for member in retrieved_set.images]
                ranked = lists[pair.query_id, retrieved_set.system_id]
                assert len(ranked) == 3
                assert members == list(enumerate(ranked[:2]))


# ------------------------------------------------------------------------------------------ sides


@pytest.mark.parametrize("size", [1, 2, 3, 5, 6])
def test_sides_are_balanced_within_each_form(database: Database, size: int) -> None:
    queries = make_queries(database, {"shirt": 60})
    design = replace(SMALL, questions_per_form=size, forms_per_participant=1)
    rows = drawn(database, draw(database, queries, design))
    for number in {row[0] for row in rows}:
        swapped = sum(row[4] for row in rows if row[0] == number)
        assert swapped in {size // 2, (size + 1) // 2}


def test_no_system_is_tied_to_one_side(database: Database) -> None:
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


def test_forms_are_full_except_the_last_and_of_one_category(database: Database) -> None:
    queries = make_queries(database, {"dress": 9, "shirt": 8, "toptee": 3})
    rows = drawn(database, draw(database, queries))
    sizes = Counter((number, category) for number, category, *_ in rows)
    assert sizes == {
        (0, "dress"): 2, (1, "dress"): 2, (2, "dress"): 2, (3, "dress"): 2,
        (4, "dress"): 1,
        (5, "shirt"): 2, (6, "shirt"): 2, (7, "shirt"): 2, (8, "shirt"): 2,
        (9, "toptee"): 2, (10, "toptee"): 1,
    }  # fmt: skip
    assert all(place in (0, 1) for _, _, place, _, _ in rows)


def test_each_query_is_asked_once(database: Database) -> None:
    queries = make_queries(database, {"shirt": 16})
    query_ids = [row[3] for row in drawn(database, draw(database, queries))]
    assert sorted(query_ids) == sorted(queries)


def test_each_form_begins_with_its_sum(database: Database) -> None:
    draw(database, make_queries(database))
    with database.reading() as session:
        checks = session.scalars(select(Check).order_by(Check.form_id)).all()
        assert len(checks) == len(session.scalars(select(Form)).all())
    for check in checks:
        left, plus, right = check.prompt.split()
        assert (check.place, check.kind, plus) == (0, "arithmetic", "+")
        assert int(left) + int(right) == int(check.expected)


def test_categories_may_be_mixed(database: Database) -> None:
    queries = make_queries(database, {"dress": 8, "shirt": 8, "toptee": 8})
    study = draw(database, queries, replace(SMALL, categories="mixed"))
    rows = drawn(database, study)
    assert {category for _, category, *_ in rows} == {""}
    assert len({number for number, *_ in rows}) == 12
    with database.reading() as session:
        kinds = session.execute(select(Query.id, Triplet.category).join(Query.triplet))
        of_query = dict(kinds.all())
    seat = Seat.taken(database, study)
    assert seat.participant().category is None
    form_categories = {
        tuple(of_query[row[3]] for row in rows if row[0] == number) for number in range(12)
    }
    assert any(len(set(categories)) > 1 for categories in form_categories)


def test_each_form_but_the_first_begins_with_its_sum_if_the_study_asks(database: Database) -> None:
    draw(database, make_queries(database), checks=Checks(arithmetic=False))
    with database.reading() as session:
        assert session.scalars(select(Check)).all() == []


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
@settings(deadline=None)
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


def test_copies_of_a_pair_share_it_and_go_to_different_people(database: Database) -> None:
    design = replace(SMALL, annotators_per_query=3, overlap_share=0.5)
    study = draw(database, make_queries(database), design)
    with database.reading() as session:
        rows = session.execute(
            select(Question.pair_id, Form.batch).join(Question.form).where(Form.study_id == study)
        ).all()
        assert len(session.scalars(select(Pair)).all()) == 8
    assert sorted(Counter(pair for pair, _ in rows).values()) == [1] * 4 + [3] * 4
    assert len({tuple(row) for row in rows}) == len(rows) == 16


def test_both_orders_of_a_triplet_go_to_different_people(database: Database) -> None:
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


# ------------------------------------------------------------------------------------------- seed


def test_a_seed_draws_the_same_study_again(database: Database) -> None:
    queries = make_queries(database, {"dress": 8, "shirt": 12})
    checks = Checks(gold=1, repeated=1)
    studies = [
        draw(
            database,
            queries,
            replace(SMALL, seed=seed, image_order="shuffled"),
            name=f"study-{number}",
            checks=checks,
        )
        for number, seed in enumerate((5, 5, 6))
    ]
    first, second, other_seed = (
        (drawn(database, study), checks_of(database, study), orders_of(database, study))
        for study in studies
    )
    assert first == second
    assert first != other_seed
    pairs = [systems_of(database, study) for study in studies]
    assert pairs[0] == pairs[1]
    assert pairs[0] != pairs[2]


def test_the_design_is_stored_with_the_study(database: Database) -> None:
    key = draw(database, make_queries(database))
    with database.reading() as session:
        study = session.get_one(Study, key)
    assert config_of(study) == config()
    assert (study.k, study.ties_allowed, study.forms_per_participant) == (2, False, 2)
    assert (study.status, study.origin, study.source_sha256) == ("open", "collected", None)


# -------------------------------------------------------------------------------- orders of images


def orders_of(database: Database, study: int) -> list[tuple[list[int] | None, list[int] | None]]:
    with database.reading() as session:
        rows = session.execute(
            select(Question.order_1, Question.order_2)
            .join(Question.form)
            .where(Form.study_id == study)
            .order_by(Form.number, Question.place)
        )
        return [tuple(row) for row in rows]  # type: ignore[misc]


def test_ranked_images_have_no_order_of_their_own(database: Database) -> None:
    assert set(orders_of(database, draw(database, make_queries(database)))) == {(None, None)}


def test_shuffled_images_are_stored_permutations(database: Database) -> None:
    queries = make_queries(database, {"shirt": 24}, length=4)
    study = draw(database, queries, replace(SMALL, k=4, image_order="shuffled"))
    orders = [order for pair_orders in orders_of(database, study) for order in pair_orders]
    assert all(sorted(order or []) == [0, 1, 2, 3] for order in orders)
    assert len({tuple(order or []) for order in orders}) > 12
    with database.reading() as session:
        for key in session.scalars(select(Question.id)):
            question = load_question(session, key)
            for side, order in ((1, question.order_1), (2, question.order_2)):
                images = shown_images(question, side)
                assert [image.rank for image in images] == order


# ------------------------------------------------------------------------------------------ checks


def checks_of(database: Database, study: int) -> list[tuple[int, int, str, str | None]]:
    with database.reading() as session:
        rows = session.execute(
            select(Form.number, Check.place, Check.kind, Check.expected)
            .join(Check.form)
            .where(Form.study_id == study)
            .order_by(Form.number, Check.place, Check.kind)
        )
        return [tuple(row) for row in rows]  # type: ignore[misc]


def test_gold_pairs_have_an_obvious_winner(database: Database) -> None:
    queries = make_queries(database, {"dress": 30, "shirt": 30}, separate=True)
    study = draw(database, queries, replace(SMALL, questions_per_form=5), checks=Checks(gold=2))
    with database.reading() as session:
        gold = session.scalars(select(Check).join(Check.form).where(Check.kind == "gold")).all()
        assert len(gold) == 2 * 12
        forms = session.scalars(select(Form).where(Form.study_id == study)).all()
        counts = {form.batch: Counter[int]() for form in forms}
        for question in session.scalars(select(Question)):
            counts[question.form.batch][question.pair.query.triplet_id] += 1
        for check in gold:
            assert check.question_id is not None
            question = session.get_one(Question, check.question_id)
            assert question.place == check.place
            triplet = question.pair.query.triplet
            assert triplet.category == check.form.category
            assert counts[check.form.batch][triplet.id] == 1
            pair_sets = shown_sets(question)
            winner, loser = pair_sets if check.expected == "1" else pair_sets[::-1]
            assert winner.system_id is loser.system_id is None
            assert winner.images[0].image_id == triplet.target_id
            used_images = {triplet.reference_id, triplet.target_id}
            for images in session.scalars(
                select(RankedList.image_ids).where(RankedList.query_id == question.pair.query_id)
            ):
                used_images.update(images)
            assert len({member.image_id for member in loser.images}) == 2
            assert not used_images.intersection(member.image_id for member in loser.images)
            assert all(
                member.image.name.partition("-")[0] != triplet.category for member in loser.images
            )
    assert 2 < sum(check.expected == "1" for check in gold) < 22


@pytest.mark.parametrize(("size", "repeated"), [(2, 1), (3, 3), (10, 1), (10, 5)])
def test_repeated_pairs_return_later_with_sides_swapped(
    database: Database, size: int, repeated: int
) -> None:
    queries = make_queries(database, {"shirt": 4 * size})
    design = replace(SMALL, questions_per_form=size, image_order="shuffled")
    draw(database, queries, design, checks=Checks(repeated=repeated))
    with database.reading() as session:
        repeats = session.scalars(select(Check).where(Check.kind == "repeat")).all()
        assert len(repeats) == 4 * repeated
        assert len({check.repeats_id for check in repeats}) == len(repeats)
        for check in repeats:
            assert check.question_id is not None
            assert check.repeats_id is not None
            repeat = session.get_one(Question, check.question_id)
            first = session.get_one(Question, check.repeats_id)
            assert repeat.place == check.place
            assert (repeat.form_id, repeat.pair_id) == (first.form_id, first.pair_id)
            assert repeat.swapped is not first.swapped
            assert (repeat.order_1, repeat.order_2) == (first.order_2, first.order_1)
            assert repeat.place > first.place
            if size == 10:
                assert repeat.place - first.place >= 3


# ------------------------------------------------------------------------------------ which queries


def chosen(database: Database, **options: Any) -> list[int]:
    with database.reading() as session:
        queries = Queries(**({"dataset": "small"} | options))
        return chosen_queries(session, config(queries=queries))


def test_all_queries_are_used_by_default(database: Database) -> None:
    queries = make_queries(database, {"dress": 4, "shirt": 4})
    assert chosen(database) == queries
    assert chosen(database, categories=("shirt",)) == queries[4:]
    assert chosen(database, splits=("val",)) == queries
    assert chosen(database, systems=("alpha", "beta")) == queries


def test_a_sample_is_drawn_by_the_seed(database: Database) -> None:
    queries = make_queries(database, {"shirt": 40})
    sample = chosen(database, sample=8)
    assert sample == chosen(database, sample=8) == sorted(sample)
    assert len(set(sample)) == 8
    assert set(sample) <= set(queries)
    with database.reading() as session:
        other_config = config(replace(SMALL, seed=7), queries=Queries(dataset="small", sample=8))
        assert chosen_queries(session, other_config) != sample


def test_only_queries_with_a_list_of_every_system_are_used(database: Database) -> None:
    queries = make_queries(database)
    with database.writing() as session:
        new_system = System(name="late")
        session.add(new_system)
        session.flush()
        images = session.scalars(select(RankedList.image_ids)).first()
        session.add(RankedList(system_id=new_system.id, query_id=queries[3], image_ids=images))
    assert chosen(database) == [queries[3]]
    assert chosen(database, systems=SYSTEMS) == queries


def test_systems_of_other_datasets_are_not_used(database: Database) -> None:
    queries = make_queries(database)
    other_queries = make_queries(database, systems=("delta", "epsilon"), dataset="other")
    assert chosen(database) == queries
    assert chosen(database, dataset="other") == other_queries


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dataset": "big"}, "queries.dataset: no dataset is called 'big'; there are small"),
        ({"systems": ("alpha", "omega")}, "queries.systems: no system is called 'omega'; there"),
        ({"categories": ("shirt", "hat")}, "queries.categories: no triplet of the dataset has 'h"),
        ({"splits": ("val", "dev")}, "queries.splits: no triplet of the dataset has 'dev'; there"),
        ({"sample": 9}, "queries.sample: asks for 9 queries of 8"),
    ],
)
def test_missing_choices_are_named(
    database: Database, options: dict[str, Any], message: str
) -> None:
    make_queries(database)
    with pytest.raises(ConfigError) as error_info:
        chosen(database, **options)
    assert str(error_info.value).startswith(message)
    assert message.startswith(error_info.value.where)


@pytest.mark.parametrize("systems", [(), ("alone",)])
def test_a_choice_needs_two_systems(database: Database, systems: tuple[str, ...]) -> None:
    make_queries(database, systems=systems)
    with pytest.raises(ConfigError, match=r"queries\.systems: a pair needs the ranked lists"):
        chosen(database)


# ------------------------------------------------------------------------------------------- size


@on_sqlite
def test_the_papers_size_is_drawn_in_seconds(database: Database) -> None:
    """3,050 of 6,000 queries with every check, where a plain loop would take minutes."""
    with database.writing() as session:
        source = Dataset(name="large")
        systems = [System(name=name) for name in SYSTEMS]
        session.add_all([source, *systems])
        session.flush()
        images = [Image(dataset_id=source.id, name=f"image-{n}") for n in range(3_000)]
        session.add_all(images)
        session.flush()
        triplets = [
            Triplet(
                dataset_id=source.id, external_id=f"val.{n}", category=("dress", "shirt")[n % 2],
                split="val", reference_id=images[n % 3_000].id, target_id=images[-1 - n % 2].id,
                captions=[],
            )
            for n in range(6_000)
        ]  # fmt: skip
        session.add_all(triplets)
        session.flush()
        queries = [Query(triplet_id=triplet.id, suffix="", text="") for triplet in triplets]
        session.add_all(queries)
        session.flush()
        rng = Random(1)
        session.add_all(
            RankedList(
                system_id=system.id,
                query_id=query.id,
                image_ids=[image.id for image in rng.sample(images[n % 2 : 2_900 : 2], 10)],
            )
            for n, query in enumerate(queries)
            for system in systems
        )
    study_config = config(
        Design(image_order="shuffled", annotators_per_query=2, overlap_share=0.1),
        checks=Checks(gold=2, repeated=2),
        queries=Queries(dataset="large", sample=3_050),
    )
    began = monotonic()
    with database.writing() as session:
        study = draw_study(session, study_config, chosen_queries(session, study_config))
    assert monotonic() - began < 30
    with database.reading() as session:
        progress = progress_of(session, session.get_one(Study, study.id))
    assert progress.questions == 3_050 + 305


# ----------------------------------------------------------------------------------------- errors


def refusal(
    database: Database,
    queries: list[int],
    design: Design = SMALL,
    checks: Checks | None = None,
    name: str = "small",
) -> str:
    """The one line by which a design is refused; nothing of it may be left."""
    with database.reading() as session:
        before = [len(session.scalars(select(table)).all()) for table in (Study, Pair, Question)]
    with pytest.raises(ConfigError) as error_info, database.writing() as session:
        draw_study(session, config(design, name, checks), queries)
    with database.reading() as session:
        after = [len(session.scalars(select(table)).all()) for table in (Study, Pair, Question)]
    assert after == before
    line = str(error_info.value)
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


def test_no_queries_at_all(database: Database) -> None:
    assert "queries: there is no query" in refusal(database, [])


def test_a_missing_query_is_refused(database: Database) -> None:
    assert "1 queries have lists" in refusal(database, [*make_queries(database), 10**6])


def test_a_name_is_given_once(database: Database) -> None:
    queries = make_queries(database)
    draw(database, queries)
    assert "study.name: a study called 'small' already exists" in refusal(database, queries)


def test_gold_pairs_need_queries_to_spare(database: Database) -> None:
    queries = make_queries(database, {"shirt": 4})
    line = refusal(database, queries, checks=Checks(gold=1))
    assert "checks.gold: no query of shirt is left for a gold pair" in line


def test_gold_pairs_need_images_for_the_losing_set(database: Database) -> None:
    queries = make_queries(database, length=8)
    line = refusal(database, queries, replace(SMALL, k=4), checks=Checks(gold=1))
    assert "checks.gold: there are too few other images" in line
