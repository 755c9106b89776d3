"""A study that a next one follows."""

from __future__ import annotations

from pathlib import Path

import pytest

from hsfiq.db.engine import Database
from tests.studies import draw, make_queries


@pytest.fixture
def study_database(
    database: Database, database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Database:
    """A study of twelve queries, six of each category, open in the command's database."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HSFIQ_DATABASE_URL", database_url)
    draw(database, make_queries(database, {"shirt": 6, "dress": 6}, separate=True))
    return database
