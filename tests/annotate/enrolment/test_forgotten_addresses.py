"""What is stored of an address is deleted after an hour, also after a restart."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import select

from hsfiq.collect.recruiting import PERIOD
from hsfiq.db.engine import Database, open_database
from hsfiq.db.tables import EnrolmentByAddress, Study
from tests.annotate.served_studies import Place, Server, make_study
from tests.hsfiq.samples import hsfiq

AGES = {"old": PERIOD + timedelta(minutes=1), "new": timedelta(0), "future": -timedelta(days=1)}


@pytest.fixture
def database(place: Place) -> Iterator[Database]:
    """A study's database, also while something else has it open."""
    make_study(place).close()
    database = open_database(place.url)
    yield database
    database.close()


def store(database: Database, *clients: str) -> None:
    with database.writing() as session:
        study = session.scalars(select(Study)).one()
        for client in clients:
            time_of_client = datetime.now(UTC) - AGES[client]
            session.add(
                EnrolmentByAddress(study_id=study.id, client=client, enrolled_at=time_of_client)
            )


def clients_in(database: Database) -> set[str]:
    with database.reading() as session:
        return set(session.scalars(select(EnrolmentByAddress.client)))


def test_the_server_deletes_them_when_it_starts_and_while_it_runs(
    place: Place, database: Database
) -> None:
    server = Server(place)
    store(database, "old", "new")
    server.start()
    try:
        assert clients_in(database) == {"new"}
        store(database, "old", "future")
        while clients_in(database) != {"new"}:
            time.sleep(0.1)
    finally:
        server.kill()


def test_every_command_deletes_them(place: Place, database: Database) -> None:
    store(database, *AGES)
    assert hsfiq("study", "status", "--database", place.url).code == 0
    assert clients_in(database) == {"new"}
