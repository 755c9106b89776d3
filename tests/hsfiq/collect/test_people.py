"""Where participants stand and what their answers say, beside slow twins; thousands of people."""

from __future__ import annotations

from collections import Counter, defaultdict
from datetime import datetime, timedelta
from random import Random
from typing import Any

import pytest
from sqlalchemy import insert, select, update
from sqlalchemy.orm import Session

from hsfiq.actors import OWNER
from hsfiq.collect.participants import invite
from hsfiq.collect.progress import (
    SORTS,
    STATES,
    PeopleAsked,
    PersonFigures,
    answers_of,
    count_states,
    figures_of,
    find_people,
    participants_of,
    states_of,
)
from hsfiq.collect.review import add_note
from hsfiq.db.engine import Database
from hsfiq.db.tables import Check, Form, Pair, Participant, Payment, Question, Response, Study
from hsfiq.db.types import digest_of
from tests.hsfiq.samples import on_sqlite
from tests.studies import NOW, OTHER, Seat

N_PEOPLE, N_QUESTIONS = 1200, 6

STATE_OF = {
    "paused": "paused", "returned": "gave up", "screened-out": "screened out",
    "excluded": "left out", "withdrew": "withdrew", "invited": "invited",
    "without a place": "without a place",
}  # fmt: skip


def slow_states(session: Session, study: Study, now: datetime) -> dict[int, str]:
    decided = set(session.scalars(select(Payment.participant_id).where(Payment.kind != "bonus")))
    people = session.scalars(select(Participant).order_by(Participant.id)).all()
    lease = timedelta(minutes=120)
    states = {}
    for person, row in zip(people, participants_of(session, study), strict=True):
        if row.standing in STATE_OF:
            states[person.id] = STATE_OF[row.standing]
        elif row.standing == "finished":
            states[person.id] = "finished" if person.id in decided else "to decide"
        else:
            is_in_lease = person.seen_at is not None and now - person.seen_at <= lease
            states[person.id] = "answering" if is_in_lease else "stopped"
    return states


def slow_figures(session: Session, study: Study) -> dict[int, PersonFigures]:
    """As loops over the answers find them."""
    keys = {row.name: row.id for row in session.scalars(select(Participant))}
    pairs = dict(session.execute(select(Question.id, Question.pair_id)).all())
    answers = answers_of(session, study)
    given = defaultdict(list)
    for answer in answers:
        if answer.check is None and answer.preferred is not None:
            preferred = answer.sets[answer.preferred - 1] if answer.preferred else None
            given[(answer.triplet, frozenset(answer.sets))].append((answer, preferred))
    assert pairs
    compared: dict[int, list[bool]] = defaultdict(list)
    for judged in given.values():
        for answer, preferred in judged:
            others = Counter(other for each, other in judged if each is not answer and each.counts)
            if others:
                is_most = others[preferred] == max(others.values())
                compared[keys[answer.participant]].append(is_most)
    rows = {keys[row.participant]: row for row in participants_of(session, study)}
    return {
        key: PersonFigures(
            row.median_seconds, row.checks, row.failed_checks, len(compared[key]),
            sum(compared[key]),
        )
        for key, row in rows.items()
        if row.median_seconds is not None or row.checks or compared[key]
    }  # fmt: skip


def slow_search(
    session: Session, asked: PeopleAsked, states: dict[int, str], figures: dict[int, PersonFigures]
) -> list[int]:
    def value(person: Participant) -> Any:
        own = figures.get(person.id, PersonFigures())
        shares = own.n_same / own.n_compared if own.n_compared else None
        answered = person.n_painted + person.n_not_painted + person.n_painting_unknown
        return {
            "person": person.id,
            "answers": answered + person.n_skipped,
            "seen": person.seen_at,
            "time": own.median_seconds,
            "checks": own.failed if own.checks else None,
            "others": shares,
            "state": states[person.id],
        }[asked.sort]

    found = []
    for person in session.scalars(select(Participant).order_by(Participant.id.desc())):
        texts = (person.name, person.external_id or "")
        if not any(asked.text.lower() in text.lower() for text in texts):
            continue
        is_failed = figures.get(person.id, PersonFigures()).failed > 0
        is_shown = is_failed if asked.show == "failed" else states[person.id] == asked.show
        if asked.show and not is_shown:
            continue
        found.append(person)
    known = [person for person in found if value(person) is not None]
    known.sort(key=value, reverse=asked.descending)
    return [person.id for person in known + [each for each in found if value(each) is None]]


def many_people(database: Database, study: int) -> None:
    """People with random answers, times and statuses; two questions of each are checks."""
    rng, rows = Random(5), defaultdict(list)
    with database.writing() as session:
        pairs = list(session.scalars(select(Pair.id).where(Pair.study_id == study)))
        for number in range(1, N_PEOPLE + 1):
            key, form = 1000 + number, 1000 + number
            answered = rng.choice([N_QUESTIONS, N_QUESTIONS, rng.randrange(N_QUESTIONS)])
            checks = sum(place in (2, 4) for place in range(answered))
            seen = None if rng.random() < 0.05 else NOW - timedelta(minutes=rng.randrange(400))
            rows["people"].append({
                "id": key, "study_id": study, "name": f"w{number}",
                "token_hash": digest_of(str(key)),
                "external_id": f"Id_{number % 97}%{number}", "seen_at": seen, "enrolled_at": NOW,
                "consented_at": NOW, "n_painted": answered - checks, "source": "open",
                "status": rng.choice(["active"] * 6 + ["paused", "excluded", "returned"]),
            })  # fmt: skip
            rows["forms"].append({
                "id": form, "study_id": study, "number": 1000 + number, "portion": 1000 + number,
                "category": "shirt", "participant_id": key, "position": 0, "name": "form_1",
                "n_questions": N_QUESTIONS - 2,
            })  # fmt: skip
            if rng.random() < 0.3:
                rows["payments"].append({
                    "participant_id": key, "kind": rng.choice(["approve", "bonus"]), "cents": 1,
                    "currency": "GBP", "state": "recorded", "recorded_at": NOW,
                })  # fmt: skip
            for place in range(N_QUESTIONS):
                question = 10 * key + place
                rows["questions"].append({
                    "id": question, "form_id": form, "place": place, "pair_id": rng.choice(pairs),
                    "swapped": rng.random() < 0.5,
                    "handed_on": place >= answered and rng.random() < 0.1,
                })  # fmt: skip
                if place in (2, 4):
                    rows["checks"].append({
                        "form_id": form, "place": place, "kind": "gold", "question_id": question,
                        "expected": str(rng.choice([1, 2])),
                    })  # fmt: skip
                if place < answered:
                    rows["responses"].append({
                        "question_id": question, "revision": 1, "submit_key": str(question),
                        "score_1": 4, "score_2": 4, "preferred": rng.choice([0, 1, 2]),
                        "submitted_at": NOW - timedelta(minutes=rng.randrange(4000)),
                        "active_seconds": rng.uniform(1, 30),
                        "irrelevant": rng.random() < 0.01,
                        "reason": rng.choice([None, None, None, "", "none fits"]),
                    })  # fmt: skip
        tables = {"people": Participant, "forms": Form, "questions": Question, "checks": Check,
                  "responses": Response, "payments": Payment}  # fmt: skip
        for name, table in tables.items():
            session.execute(insert(table.__table__), rows[name])


@on_sqlite
def test_thousands_of_people_are_found_as_loops_find_them(database: Database, study: int) -> None:
    many_people(database, study)
    with database.reading() as session:
        row = session.get_one(Study, study)
        states, figures = slow_states(session, row, NOW), figures_of(session, row, NOW)
        assert states_of(session, row, NOW, list(states)) == states
        assert count_states(session, row, NOW) == figures.states == Counter(states.values())
        own = slow_figures(session, row)
        assert figures.people == own
        answers = answers_of(session, row)
        hours = Counter(
            answer.submitted_at.replace(minute=0, second=0, microsecond=0)
            for answer in answers
            if answer.submitted_at
        )
        assert figures.by_hour == hours
        texts = ("", "w1", "ID_7%", "%", "nobody")
        for number, sort in enumerate((*SORTS, *SORTS)):
            shown = ("", "failed", *STATES)
            for show in shown:
                text = texts[(number + shown.index(show)) % len(texts)]
                asked = PeopleAsked(text, show, (), sort, descending=number >= len(SORTS))
                found = find_people(session, row, asked, figures, NOW)
                assert found == slow_search(session, asked, states, own), asked


def test_both_kinds_of_databases_say_the_same(database: Database, study: int) -> None:
    first, second = (Seat.taken(database, study) for _ in range(2))
    first.answer_all()
    second.answer_until(3)
    with database.writing() as session:
        row = session.get_one(Study, study)
        invite(session, study, 1, now=NOW)
        session.execute(update(Response).values(active_seconds=4.0, submitted_at=NOW))
        noted = session.get_one(Participant, second.participant_id)
        add_note(session, row, OWNER, noted.name, "A 1% note", NOW)
    second.submit(second.question_ids[0], OTHER, revision=1)
    later = NOW + timedelta(minutes=30)
    with database.reading() as session:
        row = session.get_one(Study, study)
        figures = figures_of(session, row, later)
        assert figures.states == Counter(slow_states(session, row, later).values())
        assert figures.people == slow_figures(session, row)
        assert figures.by_hour == {NOW.replace(minute=0, second=0, microsecond=0): 6}
        assert figures.median_seconds == 4.0
        for sort in SORTS:
            for show in ("", "failed", *STATES):
                asked = PeopleAsked(show=show, sort=sort)
                find_people(session, row, asked, figures, later)
        found = find_people(session, row, PeopleAsked(text="1% NOTE"), figures, later)
        assert found == [second.participant_id]


@pytest.mark.parametrize("state", STATES)
def test_no_state_of_nobody(database: Database, study: int, state: str) -> None:
    with database.reading() as session:
        row = session.get_one(Study, study)
        figures = figures_of(session, row, NOW)
        assert figures.median_seconds is None
        assert find_people(session, row, PeopleAsked(show=state), figures, NOW) == []
