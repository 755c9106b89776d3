"""`/healthz` and `/readyz`."""

from __future__ import annotations

import shutil
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import anyio
import anyio.to_thread
import pytest
from fastapi.testclient import TestClient
from sqlalchemy import text
from sqlalchemy.engine import make_url

from hsfiq.annotate.app import build_app
from hsfiq.annotate.serving import health
from hsfiq.annotate.serving.health import state_of
from hsfiq.db.engine import Database, connect, open_database
from hsfiq.db.sqlite import archive_url
from hsfiq.errors import Unavailable
from tests.annotate.page_requests import answer_body
from tests.annotate.served_studies import Place, browser_of, enrol, make_study


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """The folder of a study whose file a test moves."""
    place = Place(tmp_path / "study")
    make_study(place).close()
    return place


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


def test_a_database_that_can_only_be_read_is_not_ready(place: Place) -> None:
    open_database(place.url).close()
    url = archive_url(make_url(place.url), place.url).render_as_string()
    database = Database(connect(url))
    assert state_of(database, place.folder)["database"] == "the database can only be read"
    database.close()


def test_a_locked_database_is_ready(place: Place) -> None:
    database = open_database(place.url)
    with closing(sqlite3.connect(place.file)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert state_of(database, place.folder)["database"] == "ok"
    database.close()


@pytest.mark.parametrize("is_back", [False, True])
def test_a_database_whose_file_was_replaced_is_not_ready_and_acknowledges_nothing(
    place: Place, is_back: bool
) -> None:
    database = open_database(place.url)
    app = build_app(database)
    with browser_of(app) as client:
        enrol(client, database)
        answer = answer_body(client.get("question").json())
        moved = place.file.with_name("moved.db")
        place.file.rename(moved)
        if is_back:
            shutil.copyfile(moved, place.file)
        reply = client.post("/submit", json=answer)
        assert reply.status_code == 503
        assert "was moved or replaced" in reply.json()["error"]
        assert client.get("/readyz").json()["database"] == reply.json()["error"]
        assert client.get("/question").status_code == 503
        assert place.file.exists() == is_back  # no new file is made there
        moved.rename(place.file)
        assert client.post("/submit", json=answer).status_code == 200
    database.close()


def test_a_file_that_is_replaced_before_the_commit_is_not_acknowledged(place: Place) -> None:
    database = open_database(place.url)

    def write() -> None:
        with database.writing() as session:
            session.execute(text("UPDATE studies SET name = 'other'"))
            place.file.rename(place.file.with_name("moved.db"))

    with pytest.raises(Unavailable, match="moved or replaced"):
        write()
    with pytest.raises(Unavailable, match="moved or replaced"), database.writing_in_parts():
        pass
    database.close()


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
