"""Random answers store and show exactly what the slow, plain way of storing them does."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from random import Random
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import select
from sqlalchemy.orm import Session

from hsfiq.annotate.app import plain_app
from hsfiq.annotate.handlers import Services
from hsfiq.collect.messages import mark_seen, send_message
from hsfiq.db.engine import Database
from hsfiq.db.tables import MessageRecipient, Participant, Question, Response, StatusChange, Study
from hsfiq.db.types import Base
from hsfiq.errors import InvalidRecord, Refused
from hsfiq.study.config import Checks
from tests.annotate.page_requests import answer_body, skip_body, view
from tests.annotate.served_studies import PlaceOfKind, browser_of, enrol, make_study, the_one
from tests.annotate.slow_answers import questions_of, slow_submit

TABLES: tuple[type[Base], ...] = (Study, Participant, Question, Response, StatusChange)
NOW = "now"
ANSWERS = 45


class RolledBack(Exception):
    """Ends a transaction without an error of the database."""


@pytest.fixture
def study(database_url: str, tmp_path: Path) -> Iterator[Database]:
    """The usual study on each kind of database, with a rule about failed checks."""
    database = make_study(
        PlaceOfKind(tmp_path / "study", database_url),
        queries=24,
        checks=Checks(arithmetic=False, gold=1, repeated=1, on_failure="pause"),
        recruitment={"max_failed_checks": 1},
        questions_per_form=5,
        reason_every=4,
        preference_ties=False,
    )
    yield database
    database.close()


def rows(session: Session, since: datetime) -> dict[str, list[dict[str, Any]]]:
    """All rows but the keys of new ones; times from `since` on are `NOW`."""

    def value(name: str, each: object) -> object:
        return NOW if isinstance(each, datetime) and each >= since else each

    return {
        table.__tablename__: sorted(
            (
                {key: value(key, each) for key, each in row.items() if key != "id" or keyed}
                for row in session.execute(select(table.__table__)).mappings()
            ),
            key=repr,
        )
        for table in TABLES
        for keyed in [table not in (Response, StatusChange)]
    }


def expected(
    database: Database, services: Services, person: int, body: dict[str, Any], since: datetime
) -> tuple[Any, Any]:
    """The reply or refusal of the slow way, and the rows afterwards; nothing is stored."""
    outcome: Any = None
    stored: Any = None
    try:
        with database.writing() as session:
            try:
                outcome = slow_submit(session, services, person, body)
            except (Refused, InvalidRecord) as error:
                session.expunge_all()
                outcome = (error.status if isinstance(error, Refused) else 422, str(error))
            stored = rows(session, since)
            raise RolledBack
    except RolledBack:
        return outcome, stored


def bodies(client: TestClient, rng: Random, sent: list[dict[str, Any]]) -> dict[str, Any]:
    """An answer to a question that was reached, or one that was sent before, perhaps altered."""
    if sent and rng.random() < 0.25:
        again = dict(rng.choice(sent))
        if "answer" in again and rng.random() < 0.5:
            other = again["answer"]["judgement"] | {"score_1": rng.randint(1, 5)}
            again["answer"] = again["answer"] | {"judgement": other}
        return again
    current = view(client)
    number = current.get("number", current["total"] + 1)
    if number > 1 and (current["step"] != "question" or rng.random() < 0.3):
        current = view(client, rng.randint(1, number - 1))
    if current["step"] != "question":
        return dict(sent[-1])
    key = f"{rng.getrandbits(64):016x}"
    if rng.random() < 0.1:
        return skip_body(current, key)
    reason = rng.choice((None, None, "the sleeves are longer"))
    scores = {"score_1": rng.randint(1, 5), "score_2": rng.randint(1, 6)}
    return answer_body(current, key, preferred=rng.randint(0, 2), reason=reason, **scores)


def disturb(database: Database, person: int, rng: Random) -> None:
    """What an owner or an enrolment may do between two answers."""
    with database.writing() as session:
        participant = session.get_one(Participant, person)
        study, action = participant.study, rng.randrange(8)
        if action == 0:
            study.status = "paused"
        elif action == 1:
            participant.status = rng.choice(("active", "paused"))
        elif action == 2:
            text = f"Look twice, {rng.random()}."
            send_message(session, study, text, to=None, now=datetime.now().astimezone())
        elif action == 3:
            read = session.scalars(select(MessageRecipient.message_id)).all()
            mark_seen(session, participant.id, read, datetime.now().astimezone())
        elif action == 4:
            study.text_version = (study.text_version or 0) + 1
        elif action == 5:
            question = rng.choice(questions_of(session, participant))
            question.reassigned = rng.random() < 0.3
        else:
            study.status, participant.status = "open", "active"


@pytest.mark.parametrize("seed", range(2))
def test_answers_store_and_show_what_the_slow_way_does(study: Database, seed: int) -> None:
    services, rng = Services.of(study), Random(seed)
    sent: list[dict[str, Any]] = []
    outcomes: set[str] = set()
    with browser_of(plain_app(services)) as client:
        enrol(client, study)
        person = the_one(study, select(Participant.id))
        for _ in range(ANSWERS):
            body, since = bodies(client, rng, sent), datetime.now().astimezone()
            if rng.random() < 0.3:
                disturb(study, person, rng)
            outcome, stored = expected(study, services, person, body, since)
            response = client.post("/submit", json=body)
            given = response.json()
            if response.status_code == 200:
                sent.append(body)
                shown = given["view"]
                assert given["revision"] == outcome["revision"]
                assert {key: shown.get(key) for key in outcome["view"]} == outcome["view"]
                outcomes.add(shown["step"])
            else:
                assert (response.status_code, given["error"]) == outcome
                outcomes.add(str(response.status_code))
            with study.reading() as session:
                assert rows(session, since) == stored
    assert {"question", "409"} <= outcomes
