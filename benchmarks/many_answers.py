"""A database of several studies with very many answers, for `five-million`.

The items are those of `million_answers`. One participant answers four forms of 25 questions, each
with a gold question and a repeated one; a sum comes before each form but the first. In every
hundred participants one is excluded, one gave up, and one has left half of their questions. In each
study but one a tenth of the forms is free, and a few people are at work or have not begun.

Questions and answers are written by one statement for each study (`benchmarks.drawn_rows`), other
rows as `benchmarks.copied_rows` does, without checking foreign keys, which are right by
construction.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, cast

from sqlalchemy import Connection, Table, func, insert, select, text
from sqlalchemy.orm import Session

from benchmarks.copied_rows import copy_rows
from benchmarks.drawn_rows import draw_answers, draw_questions, without_indexes
from benchmarks.million_answers import (
    CATEGORIES,
    PAIRS,
    QUERIES,
    STUDY_VALUES,
    fill_items,
    fill_pairs,
)
from hsfiq.collect.answers import count_stored_answers
from hsfiq.collect.leases import DEPARTED_STATUSES
from hsfiq.db.engine import connect, open_database
from hsfiq.db.schema import upgrade
from hsfiq.db.tables import Check, CheckAnswer, Form, Participant, Question, Response, Study
from hsfiq.db.types import Base, digest_of
from hsfiq.study.config import Checks, Design, Presentation, StudyConfig, stored_config
from hsfiq.study.recruiting import Recruitment

FORMS, ASKED = 4, 25
PER_FORM = ASKED + 2
PER_PERSON = FORMS * ASKED
N_PAIRS = QUERIES * len(PAIRS)
GOLD, REPEATED, REPEAT = 12, 2, 24
"""The places of the gold question, of a repeated question, and of its repetition."""

LARGE_TABLES = [cast("Table", table.__table__) for table in (Question, Response)]

SMALL, LARGE, FULL = "small", "large", "full"
SMALL_ANSWERS = 5_000
SHARES = {LARGE: 0.5, "second": 0.3, FULL: 0.2}
AT_WORK, UNBEGUN = 10, 6
"""Of each study. Where all forms are taken, arrivals get those of people who have not begun."""


@dataclass(frozen=True, slots=True)
class Part:
    """A study's numbers; its keys follow those of the studies before it."""

    study_id: int
    name: str
    n_people: int
    first_person: int
    first_form: int

    @property
    def n_free(self) -> int:
        """Batches of forms that nobody has; those of one study are all taken."""
        return 0 if self.name == FULL else max(5, self.n_people // 10)

    @property
    def n_forms(self) -> int:
        return FORMS * (self.n_people + self.n_free)

    def token(self, person: int) -> str:
        return f"token-{self.first_person + person}"


def parts_of(n_answers: int) -> list[Part]:
    """One study of a fixed size, and three that share the other answers."""
    sizes = {SMALL: SMALL_ANSWERS}
    sizes |= {name: round(share * (n_answers - SMALL_ANSWERS)) for name, share in SHARES.items()}
    parts: list[Part] = []
    person = form = 1
    for study_id, (name, size) in enumerate(sizes.items(), start=1):
        part = Part(study_id, name, max(size // PER_PERSON, AT_WORK + UNBEGUN), person, form)
        parts.append(part)
        person, form = person + part.n_people, form + part.n_forms
    return parts


def make_database(url: str, n_answers: int, seed: int) -> list[Part]:
    """Fill a new SQLite file or an empty PostgreSQL database; its studies."""
    engine = connect(url)
    if engine.dialect.name == "sqlite":
        open_database(url).close()
    else:
        upgrade(engine)
    parts, rng, now = parts_of(n_answers), Random(seed), datetime.now(UTC)
    with engine.connect() as connection:
        prepare(connection)
        with connection.begin(), without_indexes(connection, LARGE_TABLES):
            fill_items(connection, rng)
            for part in parts:
                connection.execute(insert(Study), study_values(part))
                fill_pairs(connection, part.study_id)
                for table, rows in rows_of(part, rng, now).items():
                    copy_rows(connection, table, rows)
                pairs = range((part.study_id - 1) * N_PAIRS + 1, part.study_id * N_PAIRS + 1)
                draw_questions(connection, seed, part.study_id, PER_FORM, pairs)
                draw_answers(connection, seed, answered_forms(part, now))
            if engine.dialect.name == "postgresql":
                restart_keys(connection)
        with Session(connection) as session, session.begin():
            for study in session.scalars(select(Study)).all():
                count_stored_answers(session, study)
        finish(connection)
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        if engine.dialect.name == "postgresql":
            connection.execute(text("VACUUM ANALYZE"))
    engine.dispose()
    return parts


def prepare(connection: Connection) -> None:
    """Write without checking foreign keys and, in SQLite, without a journal."""
    run_each(connection, {
        "sqlite": [
            "PRAGMA foreign_keys=OFF", "PRAGMA journal_mode=OFF", "PRAGMA synchronous=OFF",
            "PRAGMA secure_delete=OFF", "PRAGMA cache_size=-500000",
        ],
        "postgresql": [
            "SET session_replication_role = replica", "SET synchronous_commit = off",
            "SET work_mem = '256MB'", "SET maintenance_work_mem = '512MB'",
        ],
    })  # fmt: skip


def finish(connection: Connection) -> None:
    run_each(connection, {"sqlite": ["PRAGMA journal_mode=WAL"], "postgresql": []})


def run_each(connection: Connection, statements: Mapping[str, Sequence[str]]) -> None:
    """Run the statements of the database's kind outside transactions."""
    cursor = cast("Any", connection.connection).cursor()
    for statement in statements[connection.dialect.name]:
        cursor.execute(statement)
    connection.connection.commit()


def restart_keys(connection: Connection) -> None:
    """Let PostgreSQL's sequences go on after the keys that were written."""
    for table in Base.metadata.sorted_tables:
        if "id" in table.columns:
            last = select(func.max(table.c.id)).scalar_subquery()
            sequence = func.pg_get_serial_sequence(table.name, "id")
            connection.execute(select(func.setval(sequence, func.coalesce(last, 1))))


# ------------------------------------------------------------------------------------------- rows


def study_values(part: Part) -> dict[str, Any]:
    config = StudyConfig(
        study=Presentation(name=part.name, title=f"The {part.name} study"),
        design=Design(questions_per_form=ASKED, forms_per_participant=FORMS),
        checks=Checks(arithmetic=True, gold=1, repeated=1, on_failure="pause"),
        recruitment=Recruitment(
            participants=part.n_people + max(part.n_free, 10), max_failed_checks=100
        ),
    )
    return STUDY_VALUES | {
        "id": part.study_id, "name": part.name, "title": f"The {part.name} study",
        "status": "open", "origin": "collected", "forms_per_participant": FORMS,
        "design": stored_config(config),
    }  # fmt: skip


def rows_of(
    part: Part, rng: Random, now: datetime
) -> Mapping[type[Base], Iterator[dict[str, Any]]]:
    """A study's rows by table, but for questions and answers."""
    return {
        Participant: (person_row(part, person, now) for person in range(part.n_people)),
        Form: (form_row(part, number) for number in range(part.n_forms)),
        Check: (
            check
            for number in range(part.n_forms)
            for check in check_rows(part.first_form + number, number % FORMS)
        ),
        CheckAnswer: (
            {
                "check_id": check_key(form, 2), "given": "12", "passed": rng.random() < 0.95,
                "answered_at": now - timedelta(days=1),
            }
            for person in range(part.n_people)
            for form in begun_forms(part, person)
        ),
    }  # fmt: skip


def person_row(part: Part, person: int, now: datetime) -> dict[str, Any]:
    state = state_of(part, person)
    begun = begun_at(part, person, now)
    seen = now if state == "at work" else begun + timedelta(hours=1)
    return {
        "id": part.first_person + person, "study_id": part.study_id, "name": f"p{person + 1}",
        "token_hash": digest_of(part.token(person)),
        "category": CATEGORIES[person % len(CATEGORIES)],
        "status": state if state in DEPARTED_STATUSES else "active",
        "source": "open", "created_at": begun, "enrolled_at": begun,
        "consented_at": None if state == "not begun" else begun,
        "practised_at": None if state == "not begun" else begun,
        "seen_at": begun if state == "not begun" else seen,
    }  # fmt: skip


def state_of(part: Part, person: int) -> str:
    before_last = part.n_people - person
    if before_last <= UNBEGUN:
        return "not begun"
    if before_last <= UNBEGUN + AT_WORK:
        return "at work"
    return {0: "excluded", 1: "returned", 2: "left"}.get(person % 100, "finished")


def begun_at(part: Part, person: int, now: datetime) -> datetime:
    """Everybody began in the last sixty days, one after the other."""
    return now - timedelta(days=60) * ((part.n_people - person) / part.n_people)


def form_row(part: Part, number: int) -> dict[str, Any]:
    batch, position = divmod(number, FORMS)
    is_taken = batch < part.n_people
    return {
        "id": part.first_form + number, "study_id": part.study_id, "number": number,
        "batch": batch, "category": CATEGORIES[batch % len(CATEGORIES)],
        "participant_id": part.first_person + batch if is_taken else None,
        "position": position + 1 if is_taken else None,
        "name": f"form_{position + 1}" if is_taken else None, "n_questions": ASKED,
    }  # fmt: skip


def question_key(form: int, place: int) -> int:
    """The key of a question, counted from 0."""
    return (form - 1) * PER_FORM + place


def check_key(form: int, number: int) -> int:
    return 3 * (form - 1) + number + 1


def check_rows(form: int, position: int) -> Iterator[dict[str, Any]]:
    """A gold question, a repeated one and, but for the first form, a sum."""
    empty = {"prompt": None, "expected": None, "question_id": None, "repeats_id": None}
    first = question_key(form, 0) + 1
    yield empty | {
        "id": check_key(form, 0), "form_id": form, "place": GOLD, "kind": "gold",
        "expected": "1", "question_id": first + GOLD,
    }  # fmt: skip
    yield empty | {
        "id": check_key(form, 1), "form_id": form, "place": REPEAT, "kind": "repeat",
        "question_id": first + REPEAT, "repeats_id": first + REPEATED,
    }  # fmt: skip
    if position:
        yield empty | {
            "id": check_key(form, 2), "form_id": form, "place": 0, "kind": "arithmetic",
            "prompt": "5 + 7", "expected": "12",
        }  # fmt: skip


def begun_forms(part: Part, person: int) -> range:
    """The forms before whose first question somebody has added a sum."""
    first = part.first_form + FORMS * person
    return range(first + 1, first + forms_answered(part, person))


def forms_answered(part: Part, person: int) -> int:
    half = FORMS // 2
    some = {"not begun": 0, "at work": half, "returned": half, "left": half}
    return some.get(state_of(part, person), FORMS)


def answered_forms(part: Part, now: datetime) -> list[tuple[int, int, float]]:
    """The answered forms, with their participant's first question and when they began."""
    return [
        (form, question_key(first, 0) + 1, begun_at(part, person, now).timestamp())
        for person in range(part.n_people)
        for first in [part.first_form + FORMS * person]
        for form in range(first, first + forms_answered(part, person))
    ]
