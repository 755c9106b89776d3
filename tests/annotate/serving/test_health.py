"""`/healthz` and `/readyz`."""

from __future__ import annotations

import threading

import anyio
import anyio.to_thread
import pytest
from fastapi.testclient import TestClient
from sqlalchemy import text

from hsfiq.annotate.serving import health
from hsfiq.db.engine import Database

READY = {"ok": True, "threads": "ok", "database": "ok", "migrations": "ok", "disk": "ok"}


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


def test_a_server_whose_threads_are_all_busy_is_not_ready(
    new_browser: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "CHECK_SECONDS", 0.5)
    portal, are_free = new_browser.portal, threading.Event()
    assert portal is not None
    n_threads = int(portal.call(anyio.to_thread.current_default_thread_limiter).total_tokens)
    barrier = threading.Barrier(n_threads + 1)

    def work() -> None:
        barrier.wait()
        are_free.wait()

    working = [portal.start_task_soon(anyio.to_thread.run_sync, work) for _ in range(n_threads)]
    try:
        barrier.wait()
        answer = new_browser.get("/readyz")
        assert (answer.status_code, answer.json()["threads"]) == (503, "none is free in time")
        assert new_browser.get("/healthz").status_code == 200
    finally:
        are_free.set()
        for each in working:
            each.result()


def test_a_database_that_does_not_answer_is_not_ready(
    new_browser: TestClient, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "CHECK_SECONDS", 0.0)
    assert new_browser.get("/readyz").json()["database"] == "no answer in time"
    assert new_browser.get("/healthz").status_code == 200
