"""What one or two statements read for a page is what the objects, one by one, give."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from hsfiq.answer_rules import Times
from hsfiq.collect.asked_questions import (
    ShownImage,
    ShownQuestion,
    load_question,
    shown_images,
    shown_questions,
    shown_sets,
    steps_of,
)
from hsfiq.db.engine import Database
from hsfiq.db.source_tables import Image
from hsfiq.db.tables import Question, Response
from tests.studies import GOOD, OTHER, SKIP, SMALL, Seat, draw, make_queries, responses

DESIGNS: tuple[dict[str, Any], ...] = (
    {},
    {"image_order": "shuffled"},
    {"kind": "single", "image_order": "shuffled"},
    {"kind": "images"},
    {"kind": "ranking", "sets": 3, "image_order": "shuffled"},
    {"kind": "ranking", "sets": 3},
    {"kind": "query"},
    {"kind": "query", "show_target": False},
)


def as_objects_give(session: Session, question_id: int) -> ShownQuestion:
    """The question by its row and the rows that belong to it."""
    question = load_question(session, question_id)
    reference = question.pair.query.triplet.reference
    n_sets = len(shown_sets(question))
    return ShownQuestion(
        place=question.place,
        text=question.text or question.pair.query.text,
        reference=shown_image(reference) if reference else None,
        sets=tuple(
            tuple(shown_image(member.image) for member in shown_images(question, side))
            for side in range(1, n_sets + 1)
        ),
    )


def shown_image(image: Image) -> ShownImage:
    return ShownImage(image.dataset_id, image.name, image.token, image.sha256)


@pytest.mark.parametrize("design", DESIGNS, ids=lambda design: "-".join(map(str, design.values())))
def test_questions_are_those_that_the_objects_give(
    database: Database, design: dict[str, Any]
) -> None:
    rng = Random(1)
    draw(database, make_queries(database), replace(SMALL, **design))
    with database.writing() as session:
        questions = session.scalars(select(Question).order_by(Question.id)).all()
        for question in questions:
            if rng.random() < 0.3:
                question.text = "spelled  otherwise"
            if rng.random() < 0.3:
                question.pair.query.triplet.reference_id = None
    keys = [question.id for question in questions]
    with database.reading() as session:
        slow = {key: as_objects_give(session, key) for key in keys}
    for key, other in zip(keys, rng.sample(keys, len(keys)), strict=True):
        with database.reading() as session:
            assert shown_questions(session, key, other) == {n: slow[n] for n in (key, other)}
            assert shown_questions(session, key) == {key: slow[key]}


def test_the_tokens_reveal_no_order(database: Database, seat: Seat) -> None:
    key = seat.question_ids[0]
    with database.reading() as session:
        question = shown_questions(session, key)[key]
    shown = [image.token for images in question.sets for image in images]
    assert question.reference is not None
    assert [image.token for image in question.images] == sorted({question.reference.token, *shown})


def test_the_steps_after_an_answer_are_those_read_again(database: Database, seat: Seat) -> None:
    """First answers, revisions and skips, in any order that is allowed, with a sum between."""
    rng = Random(2)
    seat.answer_until(2)
    for number in range(12):
        steps = seat.standing()
        if steps.current and steps.current.check_id is not None:
            seat.pass_check(steps.current.check_id)
            continue
        reached = [step for step in steps.steps if step.check_id is None and step.done]
        step = rng.choice([*reached, *filter(None, [steps.current])])
        times = Times(active_seconds=float(number)) if rng.random() < 0.7 else Times()
        answer = rng.choice([replace(GOOD, times=times), replace(OTHER, times=times), SKIP])
        revision = len(responses(database, step.question_id))
        submitted = seat.submitted(step.question_id, answer, revision=revision)
        assert (submitted.number, submitted.revision) == (step.number, revision + 1)
        assert submitted.steps == seat.standing()
    assert seat.standing().current is None


def test_a_step_has_the_seconds_of_the_first_answer(database: Database, seat: Seat) -> None:
    question, other, *_ = seat.question_ids
    seat.submit(question, replace(GOOD, times=Times(active_seconds=4.5)))
    seat.submit(question, replace(OTHER, times=Times(active_seconds=99.0)), revision=1)
    seat.submit(other, SKIP)
    with database.reading() as session:
        first = select(Response.question_id, Response.active_seconds).where(Response.revision == 1)
        stored = dict(session.execute(first).all())
        steps = steps_of(session, seat.participant_id).steps
    assert stored == {question: 4.5, other: None}
    assert [step.seconds for step in steps] == [stored.get(step.question_id) for step in steps]
