"""A small study in progress with known numbers, and requests of its owner over HTTP."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

from argon2 import PasswordHasher
from fastapi.testclient import TestClient
from sqlalchemy.orm import Session

from hsfiq.access import account_of_link, invite, set_owner_password, set_password
from hsfiq.actors import Role
from hsfiq.annotate.app import build_app
from hsfiq.answer_rules import Answer, ImageStates, Times
from hsfiq.collect import answers, participants
from hsfiq.collect.answers import Skip
from hsfiq.collect.asked_questions import mark_served, steps_of
from hsfiq.collect.checks import answer_check
from hsfiq.collect.leases import extend_lease
from hsfiq.collect.participant_row import ParticipantRow, read_row
from hsfiq.collect.studies import list_studies
from hsfiq.db.engine import Database
from hsfiq.db.tables import Check
from tests.annotate.served_studies import K, Place, browser_of, make_study
from tests.studies import images_shown, pair_answer

PASSWORD = "correct horse battery"
SEEN = images_shown(K)
REASON = "<script>alert(1)</script> ${1+1} {{constructor}} <b>\u202e\N{DRESS}"


def log_in(client: TestClient, password: str = PASSWORD, name: str = "owner") -> Any:
    return client.post("/owner/login", data={"name": name, "password": password})


@cache
def password_hash() -> str:
    """A hash of the password that a login computes at once; a hash names its own cost.

    Those of `new_hash` are slow on purpose.
    """
    return PasswordHasher(time_cost=1, memory_cost=8, parallelism=1).hash(PASSWORD)


def set_owner(database: Database) -> None:
    with database.writing() as session:
        set_owner_password(session, password_hash())


def add_account(database: Database, name: str, role: Role, stored: str = "") -> None:
    """An account whose password is that of the owner; `stored` is its hash, if that matters."""
    now = datetime.now(UTC)
    with database.writing() as session:
        token = invite(session, name, role, now + timedelta(days=1))
        account = account_of_link(session, token, now)
        assert account is not None
        set_password(session, account, stored or password_hash())


# ------------------------------------------------------------------------------------- the study


def watched_study(place: Place, now: datetime | None = None) -> Database:
    """Twelve queries judged by two people each: 24 questions, six for each of p1 to p4.

    p1 answers all six in 10 s each after a wrong sum; p2 all six in 30 s each, and revises the
    first; p3 two in 20 s each, skips one and has not been seen for three hours; p4 answers one
    and is excluded. p1 saw every image, p3 every one but the reference; for the others this is
    unknown.
    """
    database = make_study(place, annotators_per_query=2)
    now = now or datetime.now(UTC)
    with database.writing() as session:
        first = newcomer(session, now - timedelta(minutes=50))
        answer(session, first, 6, (4, 2, 1), 10.0, now - timedelta(minutes=50), ["1", ""], SEEN)
        second = newcomer(session, now - timedelta(minutes=40))
        answer(session, second, 6, (3, 5, 2), 30.0, now - timedelta(minutes=40), [""])
        revise(session, second, (5, 3, 1), now - timedelta(minutes=30))
        third = newcomer(session, now - timedelta(hours=3))
        unseen = images_shown(K, "loaded")
        answer(session, third, 2, (4, 4, 1), 20.0, now - timedelta(hours=3), [], unseen)
        skip(session, third, now - timedelta(hours=3))
        third.seen_at = now - timedelta(hours=3)
        fourth = newcomer(session, now - timedelta(minutes=20))
        answer(session, fourth, 1, (1, 1, 2), 2.0, now - timedelta(minutes=20), [])
        fourth.status = "excluded"
        for person in (first, second, third, fourth):
            person.store(session)
    return database


def newcomer(session: Session, now: datetime) -> ParticipantRow:
    participant = participants.enrol(session, list_studies(session)[0].id, now=now)
    participants.consent(participant, now=now)
    participant.practised_at = now
    return read_row(session, participant.token_hash)


def answer(
    session: Session,
    participant: ParticipantRow,
    count: int,
    values: tuple[int, int, int],
    seconds: float,
    now: datetime,
    tries: list[str],
    images: ImageStates | None = None,
) -> None:
    """Give the same answer to the first `count` questions that are open.

    `tries` are given at the sum before the second form; "" stands for the right one.
    """
    steps = steps_of(session, participant.id).steps
    for step in [step for step in steps if step.number <= count and not step.done]:
        if step.check_id is not None:
            expected = session.get_one(Check, step.check_id).expected or ""
            for attempt in tries:
                answer_check(session, participant, step.check_id, attempt or expected, now=now)
            continue
        mark_served(session, step.question_id, now)
        extend_lease(participant, now)
        now += timedelta(seconds=seconds)
        times = Times(None, None, now, seconds)
        new_answer = pair_answer(*values, irrelevant=False, times=times, images=images)
        submit(session, participant, step.question_id, new_answer, 0)


def revise(
    session: Session, participant: ParticipantRow, values: tuple[int, int, int], now: datetime
) -> None:
    question = steps_of(session, participant.id).steps[0].question_id
    answer = pair_answer(
        *values, irrelevant=True, reason=REASON, times=Times(None, None, now, 99.0)
    )
    submit(session, participant, question, answer, 1)


def skip(session: Session, participant: ParticipantRow, now: datetime) -> None:
    current = steps_of(session, participant.id).current
    assert current
    assert current.check_id is None
    skipped = Skip(images_shown(K, "missing"), now, now)
    submit(session, participant, current.question_id, skipped, 0)


def submit(
    session: Session,
    participant: ParticipantRow,
    question: int,
    answer: Answer | Skip,
    revision: int,
) -> None:
    answers.submit(
        session, participant, question, answer, expected_revision=revision,
        submit_key=f"submit-key-{revision:06d}",
    )  # fmt: skip


def panel_of(database: Database, person: str, **query: str) -> str:
    """What the page Watch shows of a participant to the owner."""
    set_owner(database)
    client = browser_of(build_app(database))
    assert log_in(client).status_code == 303
    asked = {"person": person, "all": "1", **query}
    page: str = client.get("/owner/study/1/watch", params=asked).text
    return page[page.index('id="person"') : page.index('id="flags"')]
