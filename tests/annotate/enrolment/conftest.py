"""Browsers without Gradio, which is slow to mount."""

from __future__ import annotations

import pytest
from fastapi import FastAPI

from hsfiq.annotate.app import plain_app
from hsfiq.annotate.handlers import Services
from hsfiq.db.engine import Database


@pytest.fixture
def app(database: Database) -> FastAPI:
    """The app without Gradio, which is slow to mount."""
    return plain_app(Services.of(database))
