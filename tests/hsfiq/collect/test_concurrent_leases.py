"""Answers, departures and enrolments at the same time: each slot keeps one live question."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import timedelta
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import select

from hsfiq.collect import leases
from hsfiq.collect.progress import progress_of
from hsfiq.db.engine import Database
from hsfiq.db.tables import Study
from hsfiq.errors import Forbidden, Refused
from tests.hsfiq.collect.study_participants import (
    LATER,
    answers_of_active_participants,
    at_once,
    counted_answers,
    enrolled,
    forget,
    live_questions,
    one_form_each,
)
from tests.studies import NOW, SMALL, Seat, draw, make_queries, responses


def test_an_answer_and_an_enrolment_at_the_same_time(database: Database) -> None:
    """The first gets the question; the other is refused or gets another question."""
    queries = make_queries(database, {"shirt": 4})
    rng = Random(1)
    for number in range(16):
        study = draw(database, queries, name=f"study-{number}")
        first = Seat.taken(database, study)
        question = first.question_ids[0]
        delay = rng.uniform(0, 0.01)

        def race(index: int, *, seat: Seat = first, key: int = study, question_id: int = question,
                 wait: float = delay) -> object:  # fmt: skip
            threading.Event().wait(wait if index else 0.005)
            if index:
                return enrolled(database, key, now=LATER)
            try:
                return seat.submit(question_id)
            except Forbidden:
                return None

        stored, second = at_once(2, race)
        assert isinstance(second, int)
        asked_again = Seat(database, second).standing().total
        assert asked_again == (3 if stored else 4)
        assert len(responses(database, question)) == (1 if stored else 0)
        Seat(database, second).answer_all()
    assert set(answers_of_active_participants(database).values()) == {1}
    assert answers_of_active_participants(database) == live_questions(database)


@pytest.mark.parametrize(
    "kind", [pytest.param("postgresql", marks=pytest.mark.postgres)], indirect=True
)
def test_an_answer_given_during_assignment_stays(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PostgreSQL only, as SQLite has one writer at a time: an answer arrives before the lock."""
    study = one_form_each(database)
    first = Seat.taken(database, study)
    question_ids, looks, look = first.question_ids, [], leases.abandoned_questions

    def look_and_be_late(*arguments: Any) -> Any:
        abandoned = look(*arguments)
        if not looks:
            first.submit(question_ids[0])
        looks.append(len(abandoned))
        return abandoned

    monkeypatch.setattr(leases, "abandoned_questions", look_and_be_late)
    second = Seat.taken(database, study, now=LATER)
    assert looks == [4, 3]
    assert second.standing().total == 3
    assert set(answers_of_active_participants(database).values()) == {1}


def test_many_participants_leave_return_and_enrol_concurrently(database: Database) -> None:
    """In the end each slot of the design has exactly one answer."""
    design = replace(SMALL, annotators_per_query=2)
    study = draw(database, make_queries(database, {"dress": 12, "shirt": 12}), design)
    planned = live_questions(database)
    seats = [Seat.taken(database, study) for _ in range(12)]

    def act(index: int) -> None:
        rng = Random(index)
        if index < 12:
            answer_while_theirs(seats[index])
        else:
            for _ in range(2):
                threading.Event().wait(rng.uniform(0, 0.1))
                key = enrolled(database, study, now=LATER)
                if key is not None:
                    answer_while_theirs(Seat(database, key))

    at_once(20, act)
    hours = 6
    while key := enrolled(database, study, now=NOW + timedelta(hours=hours)):
        Seat(database, key).answer_all()
        hours += 3
    assert live_questions(database) == planned
    assert answers_of_active_participants(database) == planned


def answer_while_theirs(seat: Seat) -> None:
    """Answer until the end, or until the questions are reassigned."""
    try:
        seat.answer_all()
    except Refused:
        return


moves = st.lists(
    st.tuples(
        st.sampled_from(
            ["come", "come", "answer", "answer", "leave", "exclude", "return", "resume", "forget"]
        ),
        st.integers(0, 9),
    ),
    min_size=10,
    max_size=40,
)


@pytest.fixture
def queries(database: Database) -> list[int]:
    return make_queries(database, {"shirt": 8})


@settings(
    max_examples=20,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(moves=moves, overlap=st.integers(1, 3))
def test_any_sequence_of_actions_keeps_one_live_question_per_slot(
    database: Database, queries: list[int], moves: list[tuple[str, int]], overlap: int
) -> None:
    with database.reading() as session:
        number = len(session.scalars(select(Study.id)).all())
    before = live_questions(database)
    design = replace(SMALL, annotators_per_query=overlap)
    study = draw(database, queries, design, name=f"study-{number}")
    planned = live_questions(database) - before
    assert set(planned.values()) == {overlap}
    seats: list[Seat] = []
    now = NOW
    for move, index in moves:
        if move == "come":
            key = enrolled(database, study, now=now)
            seats += [Seat(database, key)] if key else []
        elif move == "leave":
            now += timedelta(hours=3)
        elif seats:
            seat = seats[index % len(seats)]
            if move == "answer":
                answer_one(seat)
            elif move == "forget":
                forget(database, seat.participant_id)
            else:
                status = {"exclude": "excluded", "return": "returned"}.get(move, "active")
                seat.set_status(status)
        live = live_questions(database)
        assert live - before == planned
        assert not counted_answers(database) - live
    with database.reading() as session:
        progress = progress_of(session, session.get_one(Study, study))
    assert progress.questions == sum(planned.values())
    assert progress.answered == sum(
        count for pair, count in counted_answers(database).items() if pair in planned
    )


def answer_one(seat: Seat) -> None:
    current = seat.standing().current
    if current is None:
        return
    try:
        if current.check_id is not None:
            seat.pass_check(current.check_id)
        else:
            seat.submit(current.question_id)
    except Refused:
        return
