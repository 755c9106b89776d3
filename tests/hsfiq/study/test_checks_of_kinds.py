"""Gold and repeated questions of every kind: how they are drawn, and which answers pass."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import select

from hsfiq.collect.asked_questions import image_orders, shown_sets
from hsfiq.collect.checks import question_checks
from hsfiq.collect.participant_row import StudyRow
from hsfiq.db.engine import Database, added
from hsfiq.db.source_tables import Triplet
from hsfiq.db.tables import Check, Form, Participant, Question, Response, Study
from hsfiq.errors import ConfigError
from hsfiq.kinds import KINDS, Rules, ShownAnswer
from hsfiq.study.config import Checks, Design
from tests.studies import SMALL, draw, make_queries

DESIGN = replace(SMALL, questions_per_form=4, forms_per_participant=1, image_order="shuffled")
RULES = Rules(points=5, k=4, n_sets=3, ties=True, levels=3)


def drawn(database: Database, kind: str, **checks: int) -> int:
    queries = make_queries(database, {"shirt": 12, "dress": 12}, separate=True)
    design = replace(DESIGN, kind=kind)  # type: ignore[arg-type]
    return draw(database, queries, design, checks=Checks(arithmetic=False, **checks))


def questions_with(database: Database, kind: str) -> list[tuple[Check, Question]]:
    with database.reading() as session:
        rows = session.execute(
            select(Check, Question)
            .join(Question, Question.id == Check.question_id)
            .where(Check.kind == kind)
            .order_by(Check.id)
        )
        return [(check, question) for check, question in rows]


# ------------------------------------------------------------------------------------- repeated


@pytest.mark.parametrize("asked", [kind for kind in KINDS if not KINDS[kind].is_live])
def test_a_question_is_repeated_with_its_sets_in_another_order(
    database: Database, asked: str
) -> None:
    drawn(database, asked, repeated=1)
    repeats = questions_with(database, "repeat")
    with database.reading() as session:
        forms = session.scalars(select(Form)).all()
        assert len(repeats) == len(forms)
        for check, repeat in repeats:
            again = session.get_one(Question, repeat.id)
            first = session.get_one(Question, check.repeats_id)
            assert (first.pair_id, first.form_id) == (again.pair_id, again.form_id)
            assert again.place > first.place + 1
            places = [[retrieved.id for retrieved in shown_sets(q)] for q in (first, again)]
            orders = [
                dict(zip(sets, image_orders(question), strict=False))
                for sets, question in zip(places, (first, again), strict=True)
            ]
            assert orders[0] == orders[1], "images keep their order within their set"
            if len(orders[0]) > 1:
                assert all(a != b for a, b in zip(*places, strict=True))


def ranked(ranks: list[int], *sets: int) -> ShownAnswer:
    return ShownAnswer({"ranks": ranks}, sets, None)


def shown(values: Mapping[str, Any], *sets: int) -> ShownAnswer:
    return ShownAnswer(values, sets or (0,), None)


def levels(*relevance: int, order: list[int] | None = None) -> ShownAnswer:
    return ShownAnswer({"relevance": list(relevance)}, (0,), order)


@pytest.mark.parametrize(
    ("kind", "first", "again", "passed"),
    [
        ("pair", shown({"preferred": 1}, 0, 1), shown({"preferred": 2}, 1, 0), True),
        ("pair", shown({"preferred": 1}, 0, 1), shown({"preferred": 1}, 1, 0), False),
        ("pair", shown({"preferred": 0}, 0, 1), shown({"preferred": 0}, 1, 0), True),
        ("single", shown({"score": 3}), shown({"score": 4}), True),
        ("single", shown({"score": 3}), shown({"score": 5}), False),
        # The mean difference is 2 / 4 levels: a quarter of the scale from 0 to 2.
        ("images", levels(0, 1, 2, 2), levels(2, 1, 2, 2), True),
        ("images", levels(0, 1, 2, 2), levels(2, 2, 2, 2), False),
        ("images", levels(0, 0, 2, order=[0, 1, 2]), levels(2, 0, 0, order=[2, 1, 0]), True),
        ("ranking", ranked([1, 2, 3], 0, 1, 2), ranked([3, 2, 1], 1, 2, 0), True),
        ("ranking", ranked([1, 2, 3], 0, 1, 2), ranked([1, 2, 3], 1, 2, 0), False),
        ("ranking", ranked([1, 1, 3], 0, 1, 2), ranked([1, 2, 3], 0, 1, 2), False),
        ("query", shown({"verdict": "VALIDATED"}), shown({"verdict": "VALIDATED"}), True),
        ("query", shown({"verdict": "VALIDATED"}), shown({"verdict": "QUERY_TOO_BROAD"}), False),
    ],
)  # fmt: skip
def test_which_repeated_answers_agree(
    kind: str, first: ShownAnswer, again: ShownAnswer, *, passed: bool
) -> None:
    assert KINDS[kind].repeats(first, again, RULES) is passed
    assert KINDS[kind].repeats(again, first, RULES) is passed


# ----------------------------------------------------------------------------------------- gold


@pytest.mark.parametrize("asked", ["pair", "single", "images", "ranking"])
def test_a_gold_question_is_planted(database: Database, asked: str) -> None:
    drawn(database, asked, gold=1)
    golds = questions_with(database, "gold")
    with database.reading() as session:
        assert len(golds) == len(session.scalars(select(Form)).all())
        for check, each in golds:
            question = session.get_one(Question, each.id)
            sets, target = shown_sets(question), question.pair.query.triplet.target
            orders = image_orders(question)
            far = [
                index
                for index, retrieved in enumerate(sets, start=1)
                if all(is_far(member.image.name, question) for member in retrieved.images)
            ]
            if asked == "pair":
                assert far == [3 - int(check.expected or 0)]
            elif asked == "ranking":
                assert far == [int(check.expected or 0)]
            elif asked == "single":
                assert (far, check.expected) == ([1], "2")
            else:
                names = [member.image.name for member in sets[0].images]
                shown_names = [names[place] for place in orders[0] or range(len(names))]
                assert shown_names[int(check.expected or 0) - 1] == target.name
                others = [name for name in names if name != target.name]
                assert all(is_far(name, question) for name in others)


def is_far(name: str, question: Question) -> bool:
    """Whether the image is of another category: `separate` queries have images of their own."""
    return not name.startswith(question.pair.query.triplet.category)


@pytest.mark.parametrize(
    ("kind", "expected", "values", "passed"),
    [
        ("single", "2", {"score": 2}, True),
        ("single", "2", {"score": 3}, False),
        ("images", "2", {"relevance": [0, 1, 0]}, True),
        ("images", "2", {"relevance": [0, 2, 1]}, True),
        ("images", "2", {"relevance": [1, 1, 0]}, False),
        ("images", "2", {"relevance": [0, 0, 0]}, False),
        ("ranking", "3", {"ranks": [1, 2, 3]}, True),
        ("ranking", "3", {"ranks": [1, 2, 2]}, False),
        ("ranking", "1", {"ranks": [1, 2, 3]}, False),
    ],
)
def test_which_answers_to_gold_questions_pass(
    kind: str, expected: str, values: dict[str, Any], *, passed: bool
) -> None:
    gold = KINDS[kind].gold
    assert gold is not None
    assert gold.passes(expected, values) is passed
    assert expected in gold.words(expected)


def test_gold_images_need_a_target(database: Database) -> None:
    queries = make_queries(database, {"shirt": 8})
    with database.writing() as session:
        for triplet in session.scalars(select(Triplet)):
            triplet.target_id = None
    design = Design(kind="images", k=2, questions_per_form=2)
    with pytest.raises(ConfigError, match="no query of shirt with a target is left"):
        draw(database, queries, design, checks=Checks(gold=1))


# --------------------------------------------------------------------------------------- results


def test_the_latest_answers_of_a_ranking_are_compared_set_by_set(database: Database) -> None:
    study = drawn(database, "ranking", repeated=1)

    def response(question: Question, revision: int, ranks: list[int]) -> Response:
        return Response(
            question_id=question.id, revision=revision, submit_key=f"key-{revision}",
            judgement={"ranks": ranks}, irrelevant=False,
        )  # fmt: skip

    with database.writing() as session:
        check = session.scalars(select(Check).order_by(Check.id)).first()
        assert check is not None
        person = added(session, Participant(study_id=study, name="p1"))
        form = session.get_one(Form, check.form_id)
        form.participant_id, form.position, form.name = person.id, 1, "form_1"
        first, again = (
            session.get_one(Question, key) for key in (check.repeats_id, check.question_id)
        )
        best = (first.set_order or [0])[0]
        for question in (first, again):
            ranks = [1 if place == best else 2 for place in question.set_order or ()]
            session.add(response(question, 1, ranks))
        session.flush()
        row = StudyRow.of(session.get_one(Study, study))
        (result,) = question_checks(session, row)
        assert (result.kind, result.passed) == ("repeat", True)
        session.add(response(again, 2, [1, 1, 1]))
        session.flush()
        (result,) = question_checks(session, row, Participant.id == person.id)
        assert (result.kind, result.passed) == ("repeat", False)
