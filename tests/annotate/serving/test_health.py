"""`/healthz` and `/readyz`."""

from __future__ import annotations

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import text

from hsfiq.annotate.serving import health
from hsfiq.db.engine import Database

READY = {"ok": True, "database": "ok", "migrations": "ok", "disk": "ok"}


def test_a_server_that_works_is_ready(new_browser: TestClient) -> None:
    assert new_browser.get("/healthz").json() == {"ok": True}
    answer = new_browser.get("/readyz")
    assert (answer.status_code, answer.json()) == (200, READY)


def test_an_older_schema_is_not_ready(new_browser: TestClient, database: Database) -> None:
    with database.writing() as session:
        session.execute(text("UPDATE alembic_version SET version_num = '0001'"))
    answer = new_browser.get("/readyz")
    assert answer.status_code == 503
    assert answer.json()["migrations"].startswith("revision 0001, needed is 00")


def test_a_disk_without_space_is_not_ready(
    new_browser: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "LEAST_SPACE", 2**62)
    answer = new_browser.get("/readyz")
    assert answer.status_code == 503
    assert "MB left" in answer.json()["disk"]


def test_a_database_that_does_not_answer_is_not_ready(
    new_browser: TestClient, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "CHECK_SECONDS", 0.0)
    assert new_browser.get("/readyz").json()["database"] == "no answer in time"
    assert new_browser.get("/healthz").status_code == 200
