"""Enrol participants, and count their questions and answers."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import TypeVar

from sqlalchemy import select

from hsfiq.collect import owner, participants
from hsfiq.collect.asked_questions import mark_served
from hsfiq.collect.leases import extend_lease
from hsfiq.db.engine import Database
from hsfiq.db.tables import Check, Form, Participant, Question, Response
from hsfiq.errors import NotOpen
from tests.studies import NOW, draw, make_queries, row_of

T = TypeVar("T")

LATER = NOW + timedelta(hours=3)
"""After every lease that ran from NOW."""


def at_once(number: int, call: Callable[[int], T]) -> list[T]:
    """The results of the call in `number` threads that start together."""
    start = threading.Barrier(number)

    def wait_and_call(index: int) -> T:
        start.wait()
        return call(index)

    with ThreadPoolExecutor(number) as pool:
        return list(pool.map(wait_and_call, range(number)))


def enrolled(database: Database, study: int, **options: object) -> int | None:
    """The new participant's key, or None if the study accepts no one."""
    try:
        with database.writing() as session:
            person = participants.enrol(session, study, **({"now": NOW} | options))  # type: ignore[arg-type]
            participants.consent(person, now=NOW)
            return person.id
    except NotOpen:
        return None


def one_form_each(database: Database, **options: object) -> int:
    """A study with questions for one participant, so that the next gets reassigned ones."""
    queries = make_queries(database, {"shirt": 4})
    return draw(database, queries, **options)  # type: ignore[arg-type]


def serve(database: Database, question: int, now: object) -> None:
    with database.writing() as session:
        mark_served(session, question, now)  # type: ignore[arg-type]
        participant = row_of(session, session.get_one(Question, question).form.participant_id)  # type: ignore[arg-type]
        extend_lease(participant, now)  # type: ignore[arg-type]
        participant.store(session)


def forget(database: Database, participant_id: int) -> int:
    with database.writing() as session:
        return owner.forget(session, session.get_one(Participant, participant_id)).n_answers


def forms_of(database: Database, participant_id: int) -> list[Form]:
    with database.reading() as session:
        statement = (
            select(Form).where(Form.participant_id == participant_id).order_by(Form.position)
        )
        return list(session.scalars(statement))


def live_questions(database: Database) -> Counter[int]:
    """The number of live questions, without checks, about each pair."""
    with database.reading() as session:
        is_check = select(Check.question_id).where(Check.question_id.is_not(None))
        statement = select(Question.pair_id).where(
            Question.reassigned.is_(False), Question.id.not_in(is_check)
        )
        return Counter(session.scalars(statement))


def counted_answers(database: Database) -> Counter[int]:
    """The number of answers that count for each pair."""
    with database.reading() as session:
        statement = (
            select(Question.pair_id)
            .join(Form, Question.form_id == Form.id)
            .join(Participant, Form.participant_id == Participant.id)
            .join(Response, Response.question_id == Question.id)
            .where(
                Response.revision == 1,
                Participant.status != "excluded",
                Question.reassigned.is_(False),
            )
        )
        return Counter(session.scalars(statement))


def answers_of_active_participants(database: Database) -> Counter[int]:
    """The same, including answers given before their question was reassigned."""
    with database.reading() as session:
        statement = (
            select(Question.pair_id)
            .join(Form, Question.form_id == Form.id)
            .join(Participant, Form.participant_id == Participant.id)
            .join(Response, Response.question_id == Question.id)
            .where(Response.revision == 1, Participant.status != "excluded")
        )
        return Counter(session.scalars(statement))
