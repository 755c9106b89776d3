"""How long participants are told that a study takes."""

from __future__ import annotations

from dataclasses import replace

from hsfiq.answer_rules import Times
from hsfiq.db.engine import Database
from hsfiq.db.tables import Study
from hsfiq.study.capacity import Duration, duration_of
from hsfiq.study.config import config_of
from tests.studies import GOOD, SMALL, Seat, draw, make_queries

EIGHT = replace(SMALL, questions_per_form=8, forms_per_participant=1)


def told(database: Database, study: int, n_questions: int = 40) -> Duration:
    with database.reading() as session:
        config = config_of(session.get_one(Study, study))
        return duration_of(session, study, config, n_questions)


def answer(seat: Seat, seconds: float, n_answers: int) -> None:
    timed = replace(GOOD, times=Times(active_seconds=seconds))
    for question in seat.question_ids[:n_answers]:
        seat.submit(question, timed)


def test_minutes_are_estimated_until_enough_participants_were_timed(database: Database) -> None:
    study = draw(database, make_queries(database, {"shirt": 40}), EIGHT)
    seats = [Seat.taken(database, study) for _ in range(4)]
    assert told(database, study) == Duration(23, "estimated")
    answer(seats[0], 12, 8)
    answer(seats[1], 60, 8)
    answer(seats[2], 1000, 4)  # too few answers
    assert told(database, study) == Duration(23, "estimated")
    answer(seats[3], 18, 5)
    assert told(database, study) == Duration(15, "measured")  # 40 x 18 seconds, and three minutes
    seats[3].set_status("excluded")
    assert told(database, study).source == "estimated"


def test_the_owner_can_set_the_minutes(database: Database) -> None:
    study = draw(database, make_queries(database), SMALL)
    with database.writing() as session:
        row = session.get_one(Study, study)
        row.design = row.design | {"study": row.design["study"] | {"minutes": 7}}
    assert told(database, study) == Duration(7, "set")
