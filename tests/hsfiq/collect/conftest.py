"""A small open study and one participant of it."""

from __future__ import annotations

import pytest

from hsfiq.db.engine import Database
from tests.studies import Seat, small_study


@pytest.fixture
def study(database: Database) -> int:
    return small_study(database)


@pytest.fixture
def seat(database: Database, study: int) -> Seat:
    return Seat.taken(database, study)
