"""Gold pairs and repeated pairs of a drawn study."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from sqlalchemy import select

from hsfiq.collect.asked_questions import shown_sets
from hsfiq.db.engine import Database
from hsfiq.db.source_tables import RankedList
from hsfiq.db.tables import Check, Form, Question
from hsfiq.study.config import Checks
from tests.hsfiq.samples import on_sqlite
from tests.studies import SMALL, draw, make_queries


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


@on_sqlite
@pytest.mark.parametrize(("size", "repeated"), [(2, 1), (3, 3), (10, 1), (10, 5)])
def test_repeated_pairs_come_later_with_swapped_sides(
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
