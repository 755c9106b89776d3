"""Drawing a study: the same by seed, stored with its orders, refused in one line."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest
from sqlalchemy import insert, select

from hsfiq.collect.asked_questions import load_question, shown_images
from hsfiq.collect.progress import progress_of
from hsfiq.db.engine import Database
from hsfiq.db.source_tables import Dataset, Image, Query, RankedList, System, Triplet
from hsfiq.db.tables import Check, Form, Question, Study
from hsfiq.errors import ConfigError
from hsfiq.study.config import Checks, Design, Queries, config_of
from hsfiq.study.design import chosen_queries, draw_study
from tests.hsfiq.samples import on_sqlite
from tests.hsfiq.study.drawn_studies import systems_of
from tests.hsfiq.study.parts import questions_of, row_counts
from tests.studies import SMALL, SYSTEMS, config, draw, make_queries

# --------------------------------------------------------------------------------------------- seed


def sums_of(database: Database, study: int) -> list[tuple[object, ...]]:
    with database.reading() as session:
        of_study = select(Form.number, Check.prompt, Check.expected).join(Check.form)
        sums = of_study.where(Form.study_id == study, Check.kind == "arithmetic")
        return [tuple(row) for row in session.execute(sums.order_by(Form.number))]


def test_the_same_seed_draws_the_same_study(database: Database) -> None:
    queries = make_queries(database, {"dress": 8, "shirt": 12})
    checks = Checks(gold=1, repeated=1)
    studies = []
    for number, seed in enumerate((5, 5, 6)):
        design = replace(SMALL, seed=seed, image_order="shuffled")
        studies.append(draw(database, queries, design, f"study-{number}", checks))
    first, second, other_seed = (
        (questions_of(database, f"study-{number}"), sums_of(database, study))
        for number, study in enumerate(studies)
    )
    assert first == second != other_seed
    pairs = [systems_of(database, study) for study in studies]
    assert pairs[0] == pairs[1] != pairs[2]


def test_the_design_is_stored_with_the_study(database: Database) -> None:
    key = draw(database, make_queries(database))
    with database.reading() as session:
        study = session.get_one(Study, key)
    assert config_of(study) == config()
    assert (study.k, study.ties_allowed, study.forms_per_participant) == (2, False, 2)
    assert (study.status, study.origin, study.source_sha256) == ("open", "collected", None)


# --------------------------------------------------------------------------------- orders of images


def test_shuffled_images_are_stored_permutations_and_ranked_ones_have_no_order(
    database: Database,
) -> None:
    queries = make_queries(database, {"shirt": 24}, length=4)
    draw(database, queries, replace(SMALL, k=4))
    draw(database, queries, replace(SMALL, k=4, image_order="shuffled"), "shuffled")
    in_order = Question.order_1.is_(None) & Question.order_2.is_(None)
    orders = []
    with database.reading() as session:
        assert len(session.scalars(select(Question.id).where(in_order)).all()) == 24
        for key in session.scalars(select(Question.id).where(~in_order)):
            question = load_question(session, key)
            for side, order in ((1, question.order_1), (2, question.order_2)):
                images = shown_images(question, side)
                assert [image.rank for image in images] == order
                orders.append(tuple(order or ()))
    assert all(sorted(order) == [0, 1, 2, 3] for order in orders)
    assert (len(orders), len(set(orders)) > 12) == (48, True)


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
    database: Database, queries: list[int], design: Design = SMALL, checks: Checks | None = None
) -> str:
    """The error line for a refused design, which must leave nothing in the database."""
    before = row_counts(database)
    with pytest.raises(ConfigError) as error_info, database.writing() as session:
        draw_study(session, config(design, "small", checks), queries)
    assert row_counts(database) == before
    line = str(error_info.value)
    assert "\n" not in line
    return line


@on_sqlite
@pytest.mark.parametrize(
    ("made", "design", "checks", "parts"),
    [
        ({"systems": ("alone",)}, {}, Checks(), ["8 queries have lists of at least 2 images from"]),
        ({}, {"k": 4}, Checks(), ["8 queries have lists of at least 4 im", "hsfiq import runs"]),
        (
            {"triplets": {"shirt": 4}},
            {},
            Checks(gold=1),
            ["checks.gold: no query of shirt is left"],
        ),
        ({"length": 8}, {"k": 4}, Checks(gold=1), ["checks.gold: too few other images"]),
    ],
)
def test_too_few_systems_images_or_queries(
    database: Database,
    made: dict[str, Any],
    design: dict[str, Any],
    checks: Checks,
    parts: list[str],
) -> None:
    queries = make_queries(database, **made)
    line = refusal(database, queries, replace(SMALL, **design), checks)
    assert all(part in line for part in parts)


def test_absent_queries_and_existing_names_are_refused(database: Database) -> None:
    assert "queries: there is no query" in refusal(database, [])
    queries = make_queries(database)
    assert "1 queries have lists" in refusal(database, [*queries, 10**6])
    draw(database, queries)
    assert "study.name: a study called 'small' already exists" in refusal(database, queries)
