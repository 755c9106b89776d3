"""The answers of several participants about the same sets."""

from __future__ import annotations

from dataclasses import replace

from hsfiq.answer_rules import Answer
from hsfiq.collect.question_history import item_answers
from hsfiq.db.engine import Database
from hsfiq.db.tables import Participant, Question, Study
from tests.studies import GOOD, OTHER, SMALL, Seat, draw, make_queries


def answer_everything(seat: Seat, given: Answer) -> None:
    while step := seat.standing().current:
        if step.check_id is not None:
            seat.pass_check(step.check_id)
        else:
            seat.submit(step.question_id, given)


def test_answers_are_aligned_with_the_sets_of_the_question(database: Database) -> None:
    queries = make_queries(database, {"shirt": 4}, systems=("alpha", "beta"))
    study_id = draw(database, queries, replace(SMALL, annotators_per_query=2))
    seats = [Seat.taken(database, study_id) for _ in range(2)]
    for seat, given in zip(seats, (GOOD, OTHER), strict=True):
        answer_everything(seat, given)
    pairs = []
    with database.reading() as session:
        study = session.get_one(Study, study_id)
        for key in seats[0].question_ids:
            asked = session.get_one(Question, key)
            person = session.get_one(Participant, seats[0].participant_id)
            name = f"{person.name}.{asked.form.name}.{asked.place}"
            answers = item_answers(session, study, name)
            assert answers[0].question_id == name
            assert answers[0].summary == "4 and 2, prefers set 1"
            for other in answers[1:]:
                sides = [session.get_one(Question, n) for n in seats[1].question_ids]
                (their,) = (row for row in sides if row.pair_id == asked.pair_id)
                is_swapped = their.swapped != asked.swapped
                seen = "5 and 1, prefers set 1" if is_swapped else "1 and 5, prefers set 2"
                assert other.summary == seen
                assert (other.irrelevant, other.reason) == (True, OTHER.reason)
                pairs.append(is_swapped)
        assert item_answers(session, study, "p1.form_1.99") == []
    assert pairs
