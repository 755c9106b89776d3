"""The position of a participant, and the progress of a study, both derived from the rows."""

from __future__ import annotations

from datetime import timedelta

from hsfiq.collect.asked_questions import load_question, mark_served, shown_sets
from hsfiq.collect.participants import invite
from hsfiq.collect.progress import count_standings, progress_of
from hsfiq.collect.stages import store_answers
from hsfiq.collect.studies import list_studies
from hsfiq.db.engine import Database
from hsfiq.db.tables import Participant, Question, Study
from tests.hsfiq.collect.slow_progress import slow_standings
from tests.hsfiq.collect.study_participants import forms_of
from tests.studies import NOW, OTHER, Seat, row_of


def test_participants_start_at_the_first_question_of_the_first_form(seat: Seat) -> None:
    standing = seat.standing()
    assert standing.current == standing.steps[0]
    assert standing.current is not None
    assert standing.current.check_id is None
    assert (standing.answered, standing.total) == (0, 4)


def test_checks_come_only_between_forms(seat: Seat) -> None:
    steps = seat.standing().steps
    assert [(step.number, step.check_id is not None) for step in steps] == [
        (1, False),
        (2, False),
        (3, True),
        (3, False),
        (4, False),
    ]
    assert not any(step.done for step in steps)


def test_places_follow_the_forms_in_order(database: Database, seat: Seat) -> None:
    with database.reading() as session:
        questions = [session.get_one(Question, key) for key in seat.question_ids]
    forms = [form.id for form in forms_of(database, seat.participant_id)]
    assert [(question.form_id, question.place) for question in questions] == [
        (form, place) for form in forms for place in (0, 1)
    ]


def test_the_position_is_derived_from_the_rows(seat: Seat) -> None:
    reached = []
    while current := seat.standing().current:
        reached.append((current.number, current.check_id is not None))
        if current.check_id is not None:
            seat.pass_check(current.check_id)
        else:
            seat.submit(current.question_id)
    assert reached == [(1, False), (2, False), (3, True), (3, False), (4, False)]
    end = seat.standing()
    assert (end.answered, end.total) == (4, 4)
    assert all(step.done for step in end.steps)


def test_a_new_process_restores_the_position(
    database: Database, database_url: str, seat: Seat
) -> None:
    seat.answer_until(4)
    before = seat.standing()
    database.close()  # every connection is gone; the next call opens others
    assert seat.standing() == before
    assert before.current is not None
    assert before.current.number == 4


def test_revising_does_not_change_the_position(seat: Seat) -> None:
    seat.answer_until(2)
    before = seat.standing()
    seat.submit(seat.question_ids[0], OTHER, revision=1)
    assert seat.standing() == before


def test_answers_count_only_for_their_participant(
    database: Database, study: int, seat: Seat
) -> None:
    Seat.taken(database, study).answer_all()
    assert seat.standing().answered == 0


def test_the_first_serving_time_is_kept(database: Database, seat: Seat) -> None:
    question = seat.question_ids[0]
    for later in range(3):
        with database.writing() as session:
            mark_served(session, question, NOW + timedelta(hours=later))
        with database.reading() as session:
            assert session.get_one(Question, question).served_at == NOW


def test_a_question_shows_its_pair_as_drawn(database: Database, seat: Seat) -> None:
    for key in seat.question_ids:
        with database.reading() as session:
            question = load_question(session, key)
        first, second = shown_sets(question)
        drawn = (question.pair.first, question.pair.second)
        assert (first, second) == (drawn[::-1] if question.swapped else drawn)
        assert [member.rank for member in first.images] == [0, 1]
        assert all(member.image.name for member in (*first.images, *second.images))
        assert question.pair.query.triplet.reference.name


def test_progress_counts_the_stored_answers(database: Database, study: int, seat: Seat) -> None:
    seat.answer_until(3)
    seat.submit(seat.question_ids[0], OTHER, revision=1)
    with database.reading() as session:
        (listed_study,) = list_studies(session)
        assert listed_study.id == study
        assert progress_of(session, listed_study).facts() == {
            "study": "small",
            "title": "Which set fits?",
            "status": "open",
            "origin": "collected",
            "forms": 4,
            "forms_taken": 2,
            "participants": 1,
            "questions": 8,
            "answered": 2,
            "images_painted": 0,
            "images_not_painted": 0,
            "images_unknown": 2,
            "skipped": 0,
            "platform_study_id": None,
        }


def test_the_database_counts_the_standings_of_participants(database: Database, study: int) -> None:
    finished, leaver = (Seat.taken(database, study) for _ in range(2))
    finished.answer_all()
    leaver.answer_until(2)
    with database.writing() as session:
        invite(session, study, 3, now=NOW)
        row = session.get_one(Study, study)
        assert count_standings(session, row) == slow_standings(session, row)
        assert count_standings(session, row) == {"active": 1, "finished": 1, "invited": 3}
        asked = {"at_end": [{"name": "age", "type": "number", "text": "Your age?"}]}
        row.design = row.design | {"questionnaire": asked}
        session.flush()
        assert count_standings(session, row)["at the questions at the end"] == 1
        assert count_standings(session, row) == slow_standings(session, row)
        store_answers(session, row_of(session, finished.participant_id), {}, NOW)
        session.get_one(Participant, leaver.participant_id).status = "excluded"
        session.flush()
        assert count_standings(session, row) == {"excluded": 1, "finished": 1, "invited": 3}
        assert count_standings(session, row) == slow_standings(session, row)
