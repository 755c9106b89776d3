"""Drawing a study: the same by seed, stored with its orders, refused in one line."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from sqlalchemy import insert, select

from hsfiq.collect.progress import progress_of
from hsfiq.collect.steps import load_question, shown_images
from hsfiq.db.engine import Database
from hsfiq.db.source_tables import Dataset, Image, Query, RankedList, System, Triplet
from hsfiq.db.tables import Check, Form, Pair, Question, Study
from hsfiq.errors import ConfigError
from hsfiq.study.config import Checks, Design, Queries, config_of
from hsfiq.study.design import chosen_queries, draw_study
from tests.hsfiq.samples import on_sqlite
from tests.hsfiq.study.drawn_studies import drawn, systems_of
from tests.studies import SMALL, SYSTEMS, config, draw, make_queries

# --------------------------------------------------------------------------------------------- seed


def test_the_same_seed_draws_the_same_study(database: Database) -> None:
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


# --------------------------------------------------------------------------------- orders of images


def orders_of(database: Database, study: int) -> list[tuple[list[int] | None, list[int] | None]]:
    with database.reading() as session:
        rows = session.execute(
            select(Question.order_1, Question.order_2)
            .join(Question.form)
            .where(Form.study_id == study)
            .order_by(Form.number, Question.place)
        )
        return [tuple(row) for row in rows]  # type: ignore[misc]


def test_ranked_images_store_no_order(database: Database) -> None:
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


# ------------------------------------------------------------------------------------------- checks


def checks_of(database: Database, study: int) -> list[tuple[int, int, str, str | None]]:
    with database.reading() as session:
        rows = session.execute(
            select(Form.number, Check.place, Check.kind, Check.expected)
            .join(Check.form)
            .where(Form.study_id == study)
            .order_by(Form.number, Check.place, Check.kind)
        )
        return [tuple(row) for row in rows]  # type: ignore[misc]


# --------------------------------------------------------------------------------------------- size


@on_sqlite
def test_a_study_of_the_papers_size(database: Database) -> None:
    """3,050 of 6,000 queries with every check."""
    with database.writing() as session:
        session.add(Dataset(id=1, name="large"))
        session.add_all(System(id=n, name=name) for n, name in enumerate(SYSTEMS, start=1))
        session.flush()
        images = range(1, 3_001)
        rows = [{"id": n, "dataset_id": 1, "name": f"image-{n}"} for n in images]
        session.execute(insert(Image), rows)
        triplets = [
            {
                "id": n + 1, "dataset_id": 1, "external_id": f"val.{n}",
                "category": ("dress", "shirt")[n % 2], "split": "val",
                "reference_id": images[n % 3_000], "target_id": images[-1 - n % 2], "captions": [],
            }
            for n in range(6_000)
        ]  # fmt: skip
        session.execute(insert(Triplet), triplets)
        queries = [{"id": n, "triplet_id": n, "suffix": "", "text": ""} for n in range(1, 6_001)]
        session.execute(insert(Query), queries)
        rng = Random(1)
        lists = [
            {
                "system_id": system, "query_id": n + 1,
                "image_ids": rng.sample(images[n % 2 : 2_900 : 2], 10),
            }
            for n in range(6_000)
            for system in range(1, len(SYSTEMS) + 1)
        ]  # fmt: skip
        session.execute(insert(RankedList), lists)
    study_config = config(
        Design(image_order="shuffled", annotators_per_query=2, overlap_share=0.1),
        checks=Checks(gold=2, repeated=2),
        queries=Queries(dataset="large", sample=3_050),
    )
    with database.writing() as session:
        study = draw_study(session, study_config, chosen_queries(session, study_config))
    with database.reading() as session:
        progress = progress_of(session, session.get_one(Study, study.id))
    assert progress.questions == 3_050 + 305


# ------------------------------------------------------------------------------------------- errors


def refusal(
    database: Database,
    queries: list[int],
    design: Design = SMALL,
    checks: Checks | None = None,
    name: str = "small",
) -> str:
    """The error line for a refused design, which must leave nothing in the database."""
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
    assert "8 queries have lists of at least 2 images from fewer than 2 systems" in refusal(
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


def test_an_existing_study_name_is_refused(database: Database) -> None:
    queries = make_queries(database)
    draw(database, queries)
    assert "study.name: a study called 'small' already exists" in refusal(database, queries)


def test_gold_pairs_need_unused_queries(database: Database) -> None:
    queries = make_queries(database, {"shirt": 4})
    line = refusal(database, queries, checks=Checks(gold=1))
    assert "checks.gold: no query of shirt is left for a gold one" in line


def test_gold_pairs_need_images_for_the_losing_set(database: Database) -> None:
    queries = make_queries(database, length=8)
    line = refusal(database, queries, replace(SMALL, k=4), checks=Checks(gold=1))
    assert "checks.gold: there are too few other images" in line
