"""A database that several processes have open."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hsfiq.db.engine import Database, open_database


@pytest.fixture
def other(database_url: str) -> Iterator[Database]:
    """The database as another process has it open."""
    opened = open_database(database_url)
    yield opened
    opened.close()
