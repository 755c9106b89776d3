"""Leases: unanswered questions are reassigned when they end, and answers stay."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy import select

from hsfiq.answer_rules import Times
from hsfiq.collect.asked_questions import load_question
from hsfiq.collect.leases import end_lease
from hsfiq.db.engine import Database
from hsfiq.db.tables import Check, Form, Participant, Question
from hsfiq.errors import Forbidden
from hsfiq.study.config import Checks
from tests.hsfiq.collect.study_participants import (
    LATER,
    counted_answers,
    enrolled,
    live_questions,
    one_form_each,
    serve,
)
from tests.studies import (
    GOOD,
    NOW,
    OTHER,
    SKIP,
    SMALL,
    Seat,
    draw,
    make_queries,
    responses,
    small_study,
)


def test_unanswered_questions_are_reassigned_and_answers_stay(database: Database) -> None:
    study = one_form_each(database)
    first = Seat.taken(database, study)
    first.answer_until(3)
    question_ids = first.question_ids
    assert enrolled(database, study, now=NOW + timedelta(minutes=120)) is None
    second = Seat.taken(database, study, now=LATER)
    with database.reading() as session:
        unanswered = [session.get_one(Question, key) for key in question_ids[2:]]
        new_questions = [session.get_one(Question, key) for key in second.question_ids]
        assert second.participant().category == "shirt"
    assert [question.reassigned for question in unanswered] == [True, True]
    for old, new in zip(unanswered, new_questions, strict=True):
        assert (old.pair_id, old.swapped, old.order_1) == (new.pair_id, new.swapped, new.order_1)
    assert first.question_ids == question_ids[:2]
    assert first.standing().current is None
    second.answer_all()
    assert set(counted_answers(database).values()) == {1}
    assert len(counted_answers(database)) == 4


def test_returning_too_late_is_explained(database: Database) -> None:
    study = one_form_each(database)
    first = Seat.taken(database, study)
    question_ids = first.question_ids
    first.submit(question_ids[0], key="a press")
    Seat.taken(database, study, now=LATER)
    for question in question_ids[1:]:
        with pytest.raises(Forbidden, match="this question was given to somebody else"):
            first.submit(question)
        assert responses(database, question) == []
    assert first.submit(question_ids[0], key="a press") == 1  # what was answered can be sent again,
    assert first.submit(question_ids[0], OTHER, revision=1) == 2  # and revised
    assert first.standing().answered == first.standing().total == 1


def test_returning_in_time_continues(database: Database) -> None:
    study = one_form_each(database)
    first = Seat.taken(database, study)
    serve(database, first.question_ids[0], LATER)
    assert enrolled(database, study, now=LATER + timedelta(minutes=119)) is None
    assert enrolled(database, study, now=LATER + timedelta(minutes=121)) is not None


def test_an_answer_and_a_sum_renew_the_lease(database: Database) -> None:
    seat, later = Seat.taken(database, one_form_each(database)), NOW + timedelta(minutes=59)
    assert seat.participant().seen_at == NOW
    for question in seat.question_ids[:2]:
        seat.submit(question, replace(GOOD, times=Times(submitted_at=later)))
        assert seat.participant().seen_at == later
    check = seat.standing().current
    assert check is not None
    assert check.check_id is not None
    seat.pass_check(check.check_id)  # at NOW: an earlier sign takes nothing back
    assert seat.participant().seen_at == later
    seat.submit(seat.question_ids[2], replace(SKIP, submitted_at=LATER))
    assert seat.participant().seen_at == LATER


def test_the_lease_length_comes_from_the_study(database: Database) -> None:
    study = one_form_each(database, design=replace(SMALL, lease_minutes=5))
    Seat.taken(database, study)
    assert enrolled(database, study, now=NOW + timedelta(minutes=5)) is None
    assert enrolled(database, study, now=NOW + timedelta(minutes=5, seconds=1)) is not None


def test_questions_abandoned_twice_are_reassigned(database: Database) -> None:
    study = one_form_each(database)
    for number in range(4):
        seat = Seat.taken(database, study, now=NOW + number * timedelta(hours=3))
        seat.submit(seat.question_ids[0])
    assert enrolled(database, study, now=NOW + timedelta(days=1)) is None
    assert counted_answers(database) == live_questions(database)
    assert sorted(counted_answers(database).values()) == [1] * 4


def test_free_forms_are_assigned_before_abandoned_ones(database: Database) -> None:
    study = small_study(database)
    abandoned = Seat.taken(database, study)
    with database.reading() as session:
        free = session.scalars(select(Form.id).where(Form.participant_id.is_(None))).all()
    fresh = Seat.taken(database, study, now=LATER)
    with database.reading() as session:
        own_forms = select(Form.id).where(Form.participant_id == fresh.participant_id)
        assert set(session.scalars(own_forms)) == set(free)
    assert abandoned.standing().total == 4


def test_reassigned_forms_are_not_too_large_and_repeat_no_triplet(
    database: Database,
) -> None:
    design = replace(SMALL, annotators_per_query=3)
    study = draw(database, make_queries(database, {"dress": 4, "shirt": 4}), design)
    for _ in range(6):
        Seat.taken(database, study)
    before = live_questions(database)
    for _ in range(6):
        seat = Seat.taken(database, study, now=LATER)
        with database.reading() as session:
            shown_queries = [load_question(session, key).pair.query for key in seat.question_ids]
        assert len({query.triplet_id for query in shown_queries}) == len(shown_queries) == 4
        assert len({query.triplet.category for query in shown_queries}) == 1
    assert enrolled(database, study, now=LATER) is None
    assert live_questions(database) == before
    assert set(before.values()) == {3}


def test_checks_are_not_reassigned(database: Database) -> None:
    design = replace(SMALL, questions_per_form=4)
    study = draw(
        database, make_queries(database, {"shirt": 16}), design, checks=Checks(gold=1, repeated=1)
    )
    seats = [Seat.taken(database, study) for _ in range(2)]
    seats[0].submit(seats[0].question_ids[0])
    assert {seat.standing().total for seat in seats} == {12}
    counts = [len(Seat.taken(database, study, now=LATER).question_ids) for _ in range(2)]
    assert sorted(counts) in ([7, 8], [8, 8])  # the one answer may have been to a check
    with database.reading() as session:
        checks = session.scalars(select(Check).where(Check.kind != "arithmetic")).all()
        assert len(checks) == 8
        assert not any(
            session.get_one(Question, check.question_id).reassigned  # type: ignore[arg-type]
            for check in checks
        )


def test_the_sums_of_reassigned_forms_are_correct(database: Database) -> None:
    study = one_form_each(database)
    Seat.taken(database, study)
    second = Seat.taken(database, study, now=LATER)
    second.answer_all()
    assert second.standing().current is None
    assert len(second.standing().steps) == 5


def test_an_owner_may_reassign_before_the_lease_ends(database: Database) -> None:
    study = one_form_each(database)
    seat = Seat.taken(database, study)
    with database.writing() as session:
        end_lease(session.get_one(Participant, seat.participant_id))
    seat.submit(seat.question_ids[0])  # nobody has come yet
    assert Seat.taken(database, study).standing().total == 3
    assert seat.standing().total == 1
