"""Browsers without Gradio, which is slow to mount."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from hsfiq.annotate.app import plain_app
from hsfiq.annotate.handlers import Services
from hsfiq.db.engine import Database
from tests.annotate.enrolment.visits import (
    Visit,
)
from tests.annotate.served_studies import (
    Place,
    make_study,
)


@pytest.fixture
def app(database: Database) -> FastAPI:
    """The app without Gradio, which is slow to mount."""
    return plain_app(Services.of(database))


@pytest.fixture
def visit(place: Place) -> Iterator[Visit]:
    """A new browser for a study made for the test."""
    opened: list[tuple[TestClient, Database]] = []

    def start_visit(**options: Any) -> tuple[TestClient, Database]:
        database = make_study(place, **options)
        client = TestClient(plain_app(Services.of(database)), follow_redirects=False)
        opened.append((client.__enter__(), database))
        return opened[-1]

    yield start_visit
    for client, database in opened:
        client.__exit__()
        database.close()
