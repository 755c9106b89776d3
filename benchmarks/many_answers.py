"""A database of several studies with very many answers, for `five-million`.

The items are those of `million_answers`. One participant answers four forms of 25 questions, each
with a gold question and a repeated one; a sum comes before each form but the first. In every
hundred participants one is excluded, one gave up, and one has left half of their questions. In each
study but one a tenth of the forms is free, and a few people are at work or have not begun.

Rows are written by COPY in PostgreSQL and by `executemany` in SQLite, without checking foreign
keys, which are right by construction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import chain, islice
from random import Random
from typing import Any, cast

from sqlalchemy import Column, Connection, Table, func, insert, inspect, select, text

from benchmarks.million_answers import (
    AT_ONCE,
    CATEGORIES,
    PAIRS,
    QUERIES,
    STUDY_VALUES,
    answers,
    fill_items,
    fill_pairs,
)
from hsfiq.collect.leases import DEPARTED_STATUSES
from hsfiq.db.engine import connect, open_database
from hsfiq.db.schema import upgrade
from hsfiq.db.tables import Base, Check, CheckAnswer, Form, Participant, Question, Response, Study
from hsfiq.db.types import digest_of
from hsfiq.study.config import Checks, Design, Presentation, Recruitment, StudyConfig, stored_config

FORMS, ASKED = 4, 25
PER_FORM = ASKED + 2
PER_PERSON = FORMS * ASKED
GOLD, REPEATED, REPEAT = 12, 2, 24
"""The places of the gold question, of a repeated question, and of its repetition."""

SMALL, LARGE, FULL = "small", "large", "full"
SMALL_ANSWERS = 5_000
SHARES = {LARGE: 0.5, "second": 0.3, FULL: 0.2}
AT_WORK, UNBEGUN = 10, 3


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
    parts, rng = parts_of(n_answers), Random(seed)
    with engine.connect() as connection:
        without_foreign_keys(connection)
        with connection.begin():
            fill_items(connection, rng)
            for part in parts:
                connection.execute(insert(Study), study_values(part))
                fill_pairs(connection, part.study_id)
                for table, rows in rows_of(part, rng).items():
                    copy_rows(connection, table, rows)
            if engine.dialect.name == "postgresql":
                restart_keys(connection)
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        if engine.dialect.name == "postgresql":
            connection.execute(text("VACUUM ANALYZE"))
    engine.dispose()
    return parts


def without_foreign_keys(connection: Connection) -> None:
    statements = {
        "sqlite": "PRAGMA foreign_keys=OFF",
        "postgresql": "SET session_replication_role = replica",
    }
    cursor = cast("Any", connection.connection).cursor()
    cursor.execute(statements[connection.dialect.name])
    connection.connection.commit()


def restart_keys(connection: Connection) -> None:
    """Let PostgreSQL's sequences go on after the keys that were written."""
    for table in Base.metadata.sorted_tables:
        if "id" in table.columns:
            last = select(func.max(table.c.id)).scalar_subquery()
            sequence = func.pg_get_serial_sequence(table.name, "id")
            connection.execute(select(func.setval(sequence, func.coalesce(last, 1))))


def copy_rows(connection: Connection, table: type[Base], rows: Iterator[dict[str, Any]]) -> None:
    """Write rows that all have the same columns."""
    first = next(rows)
    stored = cast("Table", table.__table__)
    columns = {name: stored.c[attribute_column(table, name)] for name in first}
    convert = {name: converter(connection, column) for name, column in columns.items()}
    lines = (
        tuple(function(row[name]) for name, function in convert.items())
        for row in chain([first], rows)
    )
    names = ", ".join(f'"{column.name}"' for column in columns.values())
    cursor = cast("Any", connection.connection).cursor()
    if connection.dialect.name == "postgresql":
        with cursor.copy(f'COPY "{stored.name}" ({names}) FROM STDIN') as copy:
            for line in lines:
                copy.write_row(line)
        return
    places = ", ".join("?" * len(columns))
    statement = f"INSERT INTO {stored.name} ({names}) VALUES ({places})"
    while part := list(islice(lines, AT_ONCE)):
        cursor.executemany(statement, part)


def attribute_column(table: type[Base], name: str) -> str:
    return str(inspect(table).columns[name].key)


def converter(connection: Connection, column: Column[Any]) -> Callable[[Any], Any]:
    """What makes a Python value one that the driver stores."""
    kind = column.type.dialect_impl(connection.dialect)
    return kind.bind_processor(connection.dialect) or unchanged


def unchanged(value: Any) -> Any:
    return value


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


def rows_of(part: Part, rng: Random) -> Mapping[type[Base], Iterator[dict[str, Any]]]:
    """A study's rows by table, in an order that foreign keys allow."""
    now = datetime.now(UTC)
    return {
        Participant: (person_row(part, person, now) for person in range(part.n_people)),
        Form: (form_row(part, number) for number in range(part.n_forms)),
        Question: (
            question_row(part, rng, form, place)
            for form in range(part.first_form, part.first_form + part.n_forms)
            for place in range(PER_FORM)
        ),
        Check: (
            check
            for number in range(part.n_forms)
            for check in check_rows(part.first_form + number, number % FORMS)
        ),
        Response: (
            response
            for person in range(part.n_people)
            for question in answered_questions(part, person)
            for response in answers(rng, question, answered_at(part, person, question, now))
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


def answered_at(part: Part, person: int, question: int, now: datetime) -> datetime:
    asked = question - PER_FORM * (part.first_form - 1 + FORMS * person)
    return begun_at(part, person, now) + timedelta(seconds=30 * asked)


def form_row(part: Part, number: int) -> dict[str, Any]:
    batch, position = divmod(number, FORMS)
    is_taken = batch < part.n_people
    return {
        "id": part.first_form + number, "study_id": part.study_id, "number": number,
        "batch": batch, "category": CATEGORIES[batch % len(CATEGORIES)],
        "participant_id": part.first_person + batch if is_taken else None,
        "position": position + 1 if is_taken else None,
        "name": f"form_{position + 1}" if is_taken else None,
    }  # fmt: skip


def question_row(part: Part, rng: Random, form: int, place: int) -> dict[str, Any]:
    n_pairs = QUERIES * len(PAIRS)
    return {
        "id": question_key(form, place) + 1, "form_id": form, "place": place,
        "pair_id": (part.study_id - 1) * n_pairs + rng.randint(1, n_pairs),
        "swapped": rng.random() < 0.5, "reassigned": False,
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


def answered_questions(part: Part, person: int) -> range:
    """The questions that somebody has answered, counted from 0."""
    state, first = state_of(part, person), question_key(part.first_form + FORMS * person, 0)
    n_forms = {"not begun": 0, "at work": 2, "returned": 2, "left": 2}.get(state, FORMS)
    return range(first, first + n_forms * PER_FORM)


def begun_forms(part: Part, person: int) -> range:
    """The forms before whose first question somebody has added a sum."""
    n_answered = len(answered_questions(part, person)) // PER_FORM
    first = part.first_form + FORMS * person
    return range(first + 1, first + n_answered)
