"""The study in progress with known numbers, and a browser in which its owner has logged in."""

from __future__ import annotations

import pytest
from fastapi.testclient import TestClient

from hsfiq.db.engine import Database
from tests.annotate.owner.studies_in_progress import log_in, set_owner, watched_study
from tests.annotate.served_studies import Place, ReusedStudy, browser_of


@pytest.fixture(scope="session")
def reused_watched(tmp_path_factory: pytest.TempPathFactory) -> ReusedStudy:
    place = Place(tmp_path_factory.mktemp("watched"))
    database = watched_study(place)
    set_owner(database)
    database.close()
    return ReusedStudy(place, tmp_path_factory.mktemp("reused"))


@pytest.fixture
def watched(reused_watched: ReusedStudy) -> Database:
    reused_watched.restore()
    return reused_watched.database


@pytest.fixture
def owner(reused_watched: ReusedStudy, watched: Database) -> TestClient:
    client = browser_of(reused_watched.app)
    assert log_in(client).status_code == 303
    return client
