"""Participants' shares of preferences between systems, counted answer by answer."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy import select

from hsfiq.answer_rules import Times
from hsfiq.collect.review import UNKNOWN, WinShares, win_shares
from hsfiq.collect.steps import load_question, shown_sets
from hsfiq.db.engine import Database
from hsfiq.db.tables import Form, Participant, Question, Response, Study
from tests.studies import GOOD, NOW, SMALL, Seat, changed, draw, make_queries, pair_answer

PREFERRED = (1, 2, 2, 0)
TIED = replace(SMALL, annotators_per_query=2, preference_ties=True)


def answer_questions(seat: Seat, hour: int, most: int = 4) -> None:
    """Answer up to `most` questions, preferring each of `PREFERRED` in turn."""
    at = NOW + timedelta(hours=hour)
    for number in range(most):
        while (step := seat.standing().current) and step.check_id is not None:
            seat.pass_check(step.check_id)
        if step is None:
            return
        given = pair_answer(
            3, 3, PREFERRED[number % 4], irrelevant=False, times=Times(None, None, at)
        )
        seat.submit(step.question_id, given)


def by_hand(database: Database, people: list[str]) -> dict[tuple[str, str], list[list[float]]]:
    """What each of these people has won for the first system of each pair, question by question."""
    won: dict[tuple[str, str], list[list[float]]] = defaultdict(list)
    with database.reading() as session:
        for name in people:
            own: dict[tuple[str, str], list[float]] = defaultdict(list)
            of_person = (
                select(Response)
                .join(Question, Response.question_id == Question.id)
                .join(Form, Question.form_id == Form.id)
                .join(Participant, Form.participant_id == Participant.id)
                .where(Participant.name == name)
            )
            for response in session.scalars(of_person):
                shown = [
                    each.system for each in shown_sets(load_question(session, response.question_id))
                ]
                first, second = (system.name for system in shown if system)
                share = 0.5 if response.preferred == 0 else float(response.preferred == 1)
                pair = (first, second) if first < second else (second, first)
                own[pair].append(share if pair[0] == first else 1 - share)
            for pair, shares in own.items():
                won[pair].append(shares)
    return won


def read(database: Database, study: int) -> WinShares:
    with database.reading() as session:
        return win_shares(session, session.get_one(Study, study))


def name_of(seat: Seat) -> str:
    return seat.participant().name


@pytest.fixture
def study(database: Database) -> int:
    return draw(database, make_queries(database), TIED)


def test_finished_participants_count_in_the_order_of_finishing(
    database: Database, study: int
) -> None:
    late, early, unfinished = (Seat.taken(database, study) for _ in range(3))
    answer_questions(late, 5)
    answer_questions(early, 3)
    answer_questions(unfinished, 1, most=2)
    shares = read(database, study)
    expected = by_hand(database, [name_of(early), name_of(late)])
    assert {pair: own for pair, own in shares.by_pair.items() if own} == {
        pair: [(sum(own) / len(own), len(own)) for own in people]
        for pair, people in expected.items()
    }
    assert len(shares.by_pair) == 3  # with those that nobody has answered
    assert (shares.n_finished, shares.n_unfinished) == (2, 1)
    assert shares.n_triplets <= 8
    assert "Not finished, so not counted yet: 1." in shares.notes()


def test_only_revisions_before_them_change_what_counts(database: Database, study: int) -> None:
    first, second = (Seat.taken(database, study) for _ in range(2))
    answer_questions(first, 1)
    answer_questions(second, 2)
    before = read(database, study)
    question = first.question_ids[0]
    later = Times(None, None, NOW + timedelta(hours=9))
    first.submit(question, replace(changed(GOOD, preferred=2), times=later), revision=1)
    after = read(database, study)
    # The answer changes, but not the participant's place.
    assert sum(n for own in after.by_pair.values() for _, n in own) == 8
    assert after.by_pair != before.by_pair
    order = [[n for _, n in own] for own in after.by_pair.values()]
    assert order == [[n for _, n in own] for own in before.by_pair.values()]


def test_who_leaves_or_is_excluded_never_counts(database: Database, study: int) -> None:
    stays, leaves, excluded = (Seat.taken(database, study) for _ in range(3))
    for seat in (stays, excluded):
        answer_questions(seat, 1)
    answer_questions(leaves, 1, most=3)
    excluded.set_status("excluded")
    with database.writing() as session:
        unanswered = session.get_one(Question, leaves.question_ids[-1])
        unanswered.reassigned = True  # the others are all answered
    shares = read(database, study)
    assert (shares.n_finished, shares.n_unfinished) == (1, 1)
    assert sum(n for own in shares.by_pair.values() for _, n in own) == 4


def test_shared_triplets_are_counted(database: Database, study: int) -> None:
    seats = [Seat.taken(database, study) for _ in range(4)]
    for hour, seat in enumerate(seats):
        answer_questions(seat, hour)
    shares = read(database, study)
    assert (shares.n_triplets, shares.n_shared) == (8, 8)
    assert any("the study's own queries" in note for note in shares.notes())


def test_unknown_times_keep_the_order_of_the_participants(database: Database, study: int) -> None:
    seats = [Seat.taken(database, study) for _ in range(2)]
    for hour in (2, 1):
        answer_questions(seats[2 - hour], hour)
    with database.writing() as session:
        for response in session.scalars(select(Response)):
            response.submitted_at = None
    shares = read(database, study)
    expected = by_hand(database, [name_of(seat) for seat in seats])
    assert {pair: [n for _, n in own] for pair, own in shares.by_pair.items() if own} == {
        pair: [len(own) for own in people] for pair, people in expected.items()
    }
    assert UNKNOWN.tzinfo is not None
