"""A database that several processes have open, and files that are opened in this process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hsfiq.db.engine import Database, open_database
from tests.hsfiq.opened_tables import opened_quickly


@pytest.fixture
def other(database_url: str) -> Iterator[Database]:
    """The database as another process has it open."""
    opened = open_database(database_url)
    yield opened
    opened.close()


@pytest.fixture(scope="session", autouse=True)
def opened_tables() -> Iterator[None]:
    with opened_quickly():
        yield
