"""Answers of other kinds than pairs outlive a kill, and their questions an expired lease."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
from sqlalchemy import select

from hsfiq.answer_rules import Answer
from hsfiq.collect import participants
from hsfiq.collect.answers import submit
from hsfiq.collect.asked_questions import steps_of
from hsfiq.collect.checks import answer_check
from hsfiq.collect.studies import list_studies
from hsfiq.db.engine import Database, open_database
from hsfiq.db.tables import Check, Question
from tests.annotate.page_requests import judged_body, stored, view
from tests.annotate.private_texts import quoted_in
from tests.annotate.served_studies import Place, Server, make_study, newcomer
from tests.studies import row_of


@pytest.mark.slow
def test_an_acknowledged_judgement_survives_a_kill(tmp_path: Path) -> None:
    place = Place(tmp_path)
    make_study(place, kind="images", levels=3).close()
    server = Server(place)
    server.start()
    try:
        with httpx.Client(base_url=server.url, timeout=60, trust_env=False) as client:
            token = newcomer(place)
            client.get(f"/start/{token}")
            body = judged_body(view(client), {"relevance": [2, 0, 1, 0, 2]})  # type: ignore[arg-type]
            assert client.post("/submit", json=body).json()["revision"] == 1
            server.kill()
            server.start()
            following = view(client)  # type: ignore[arg-type]
            assert (following["number"], following["answered"]) == (2, 1)
            again = client.post("/submit", json=body).json()
            assert again["revision"] == 1, "the same press is stored once"
            assert quoted_in(server.log.read_text(), client, body, token) == []
    finally:
        server.kill()
    database = open_database(place.url)
    assert [row.judgement for row in stored(database)] == [{"relevance": [2, 0, 1, 0, 2]}]
    database.close()


def test_an_expired_lease_hands_over_the_same_sets_in_the_same_order(tmp_path: Path) -> None:
    database = make_study(
        Place(tmp_path), queries=6, kind="ranking", image_order="shuffled", k=3, sets=3
    )
    now = datetime.now(UTC)
    first = enrolled(database, now)
    judge(database, first, 1)
    second = enrolled(database, now + timedelta(hours=3))
    with database.reading() as session:
        left = session.scalars(select(Question).where(Question.reassigned)).all()
        taken = [
            session.get_one(Question, step.question_id)
            for step in steps_of(session, second).steps
            if step.check_id is None
        ]
        assert len(left) == len(taken) == 5
        assert [shown_of(question) for question in left] == [shown_of(each) for each in taken]
        assert all(question.set_order and question.image_orders for question in taken)
    judge(database, second, 5)
    assert len(stored(database)) == 6
    database.close()


def shown_of(question: Question) -> tuple[object, ...]:
    return question.pair_id, question.set_order, question.image_orders


def enrolled(database: Database, now: datetime) -> int:
    with database.writing() as session:
        person = participants.enrol(session, list_studies(session)[0].id, now=now)
        participants.consent(person, now=now)
        return person.id


def judge(database: Database, participant_id: int, number: int) -> None:
    """Answer so many questions, with every sum before them."""
    done = 0
    while done < number:
        with database.writing() as session:
            person = row_of(session, participant_id)
            current = steps_of(session, person.id).current
            assert current is not None
            if current.check_id is not None:
                expected = session.get_one(Check, current.check_id).expected or ""
                now = datetime.now(UTC)
                assert answer_check(session, person, current.check_id, expected, now=now)
                continue
            submit(
                session,
                person,
                current.question_id,
                Answer({"ranks": [2, 1, 3]}),
                expected_revision=0,
                submit_key=f"{done:016}",
            )
            person.store(session)
            done += 1
