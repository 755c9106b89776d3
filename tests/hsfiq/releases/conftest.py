"""A study for tests of splits."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hsfiq.db.engine import Database, open_database
from hsfiq.study.config import Design
from tests.databases import migrated_sqlite
from tests.studies import OTHER, Seat, draw, make_queries


@pytest.fixture(scope="module")
def split_study(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """Ten triplets, their captions in either order, judged by five participants.

    Four questions each, three for the last: no participant gets a triplet twice. One is flagged.
    """
    path = tmp_path_factory.mktemp("split") / "study.db"
    path.write_bytes(migrated_sqlite())
    database = open_database(f"sqlite:///{path}")
    queries = make_queries(database, {"shirt": 10}, both_orders=True, length=5)
    key = draw(database, queries, Design(questions_per_form=2, forms_per_participant=2, seed=1))
    for number in range(5):
        seat = Seat.taken(database, key)
        if number == 0:
            seat.submit(seat.question_ids[0], OTHER)
        seat.answer_all()
    yield database
    database.close()
