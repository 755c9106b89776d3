"""A drawn study of many answers in a new SQLite file, for `export-million`.

Each participant answers two forms of 25 questions. A question is about two of five systems' top
five for one of the queries; there are as many queries as FashionIQ's validation split has. One
answer in twenty is revised, and one question in a hundred is unanswered. The answers are drawn at
random, so they are simulated ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import combinations, islice
from pathlib import Path
from random import Random
from secrets import token_hex
from typing import Any

from sqlalchemy import Connection, insert, select

from benchmarks.copied_rows import AT_ONCE, copy_rows
from hsfiq.collect.answers import count_stored_answers
from hsfiq.db.engine import open_database
from hsfiq.db.source_tables import Dataset, Image, Query, System, Triplet
from hsfiq.db.tables import (
    Form,
    Pair,
    Participant,
    Question,
    Response,
    RetrievedImage,
    RetrievedSet,
    Study,
)
from hsfiq.db.types import Base, digest_of

STUDY = "million"
PER_FORM, FORMS, K = 25, 2, 5
QUERIES, IMAGES = 6000, 15_000
SYSTEMS = ("system_a", "system_b", "system_c", "system_d", "system_e")
PAIRS = list(combinations(range(len(SYSTEMS)), 2))
START = datetime(2026, 1, 1, tzinfo=UTC)
CATEGORIES = ("dress", "shirt", "toptee")
STATES = ("s sssss sssss", "s sssss sslls", "e sesss sssss")
STUDY_VALUES: dict[str, Any] = {
    "name": STUDY, "title": "A million answers", "guidelines": "", "consent": "",
    "status": "closed", "origin": "simulated", "kind": "pair", "k": K,
    "ties_allowed": False, "forms_per_participant": FORMS, "design": {},
    "image_path": "/image_data/{category}/{name}.jpg",
}  # fmt: skip
REASONS = (None, None, None, 'the second is "darker", as asked', "kürzere Ärmel")


def make_database(path: Path, n_answers: int, seed: int) -> str:
    """Make the database with about so many answers; its URL."""
    url = f"sqlite:///{path}"
    database = open_database(url)
    rng = Random(seed)
    try:
        with database.engine.begin() as connection:
            fill_database(connection, rng, n_answers)
        with database.writing() as session:
            count_stored_answers(session, session.scalars(select(Study)).one())
    finally:
        database.close()
    return url


def fill_database(connection: Connection, rng: Random, n_answers: int) -> None:
    """The study with its items and answers, in an empty database."""
    fill_items(connection, rng)
    connection.execute(insert(Study), {"id": 1, **STUDY_VALUES})
    fill_pairs(connection, study_id=1)
    fill_answers(connection, rng, n_answers)


def fill(connection: Connection, table: type[Base], rows: Iterator[dict[str, Any]]) -> None:
    while part := list(islice(rows, AT_ONCE)):
        connection.execute(insert(table), part)


def fill_items(connection: Connection, rng: Random) -> None:
    """The queries and the systems' sets."""
    connection.execute(insert(Dataset), [{"id": 1, "name": "fashioniq", "image_root": None}])
    names = [{"id": key + 1, "name": name} for key, name in enumerate(SYSTEMS)]
    connection.execute(insert(System), names)
    images = (
        {"id": key, "dataset_id": 1, "name": f"B{key:09}", "token": token_hex(16)}
        for key in range(1, IMAGES + 1)
    )  # fmt: skip
    copy_rows(connection, Image, images)
    copy_rows(connection, Triplet, (triplet(rng, key) for key in range(QUERIES)))
    copy_rows(connection, Query, (
        {"id": key + 1, "triplet_id": key + 1, "suffix": "", "text": text_of(key)}
        for key in range(QUERIES)
    ))  # fmt: skip
    n_sets = QUERIES * len(SYSTEMS)
    copy_rows(connection, RetrievedSet, (
        {"id": key + 1, "query_id": key // len(SYSTEMS) + 1, "system_id": key % len(SYSTEMS) + 1}
        for key in range(n_sets)
    ))  # fmt: skip
    copy_rows(connection, RetrievedImage, (
        {"set_id": key + 1, "rank": rank, "image_id": image}
        for key in range(n_sets)
        for rank, image in enumerate(rng.sample(range(1, IMAGES + 1), K))
    ))  # fmt: skip


def fill_pairs(connection: Connection, study_id: int) -> None:
    """A study's pairs of sets: every two systems for every query."""
    first_id = (study_id - 1) * QUERIES * len(PAIRS) + 1
    keys = ((query, two) for query in range(QUERIES) for two in PAIRS)
    copy_rows(connection, Pair, (
        {
            "id": key, "study_id": study_id, "query_id": query + 1,
            "first_id": query * len(SYSTEMS) + first + 1,
            "second_id": query * len(SYSTEMS) + second + 1,
        }
        for key, (query, (first, second)) in enumerate(keys, start=first_id)
    ))  # fmt: skip


def triplet(rng: Random, key: int) -> dict[str, Any]:
    category = CATEGORIES[key % len(CATEGORIES)]
    return {
        "id": key + 1, "dataset_id": 1, "external_id": f"{category}.val.{key}",
        "category": category, "split": "val", "reference_id": rng.randint(1, IMAGES),
        "target_id": rng.randint(1, IMAGES), "captions": [text_of(key)],
    }  # fmt: skip


def text_of(key: int) -> str:
    return f'is {"darker" if key % 2 else "lighter"} and says "number {key}"  in front'


def fill_answers(connection: Connection, rng: Random, n_answers: int) -> None:
    """The participants with their forms, and the answers to their questions."""
    n_people = n_answers // (FORMS * PER_FORM)
    fill(connection, Participant, (
        {"id": person, "study_id": 1, "name": f"p{person}",
         "token_hash": digest_of(f"token-{person}")}
        for person in range(1, n_people + 1)
    ))  # fmt: skip
    fill(connection, Form, (
        {
            "id": key + 1, "study_id": 1, "number": key + 1, "portion": key // FORMS + 1,
            "category": CATEGORIES[key % len(CATEGORIES)], "participant_id": key // FORMS + 1,
            "position": key % FORMS + 1, "name": f"form_{key % FORMS + 1}",
            "n_questions": PER_FORM,
        }
        for key in range(n_people * FORMS)
    ))  # fmt: skip
    n_pairs, n_questions = QUERIES * len(PAIRS), n_people * FORMS * PER_FORM
    fill(connection, Question, (
        {
            "id": key + 1, "form_id": key // PER_FORM + 1, "place": key % PER_FORM,
            "pair_id": rng.randint(1, n_pairs), "swapped": rng.random() < 0.5,
            "handed_on": False,
        }
        for key in range(n_questions)
    ))  # fmt: skip
    fill(connection, Response, (
        row for key in range(n_questions) for row in revisions(rng, key)
    ))  # fmt: skip


def revisions(rng: Random, key: int) -> Iterator[dict[str, Any]]:
    if rng.random() >= 0.01:
        yield from answers(rng, key, START + timedelta(seconds=30 * key))


def answers(rng: Random, key: int, begun: datetime) -> Iterator[dict[str, Any]]:
    """The answer to the question `key + 1`, and in one case of twenty its revision."""
    for revision in range(1, 2 if rng.random() < 0.95 else 3):
        seconds = round(rng.lognormvariate(3, 0.6), 3)
        yield {
            "question_id": key + 1, "revision": revision, "submit_key": f"{key}-{revision}",
            "score_1": rng.randint(1, 5), "score_2": rng.randint(1, 5),
            "preferred": rng.randint(1, 2), "irrelevant": rng.random() < 0.1,
            "reason": rng.choice(REASONS), "served_at": begun,
            "first_interaction_at": begun + timedelta(milliseconds=2500),
            "submitted_at": begun + timedelta(seconds=seconds), "active_seconds": seconds,
            "images": rng.choice(STATES), "text_version": 1, "language": "en",
        }  # fmt: skip
