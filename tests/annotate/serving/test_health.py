"""`/healthz` and `/readyz`, and requests while the database is locked, full or away."""

from __future__ import annotations

import logging
import shutil
import socket
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from fastapi.testclient import TestClient
from sqlalchemy import event, text
from sqlalchemy.engine import make_url

from hsfiq.annotate.app import build_app, plain_app
from hsfiq.annotate.handlers import Services
from hsfiq.annotate.owner.login import Identities, add_login
from hsfiq.annotate.payloads import LARGEST_BODY
from hsfiq.annotate.security import StudyMiddleware
from hsfiq.annotate.serving import health
from hsfiq.annotate.serving.health import state_of
from hsfiq.annotate.texts import entry_texts
from hsfiq.collect import participants
from hsfiq.db import postgres, sqlite
from hsfiq.db.engine import Database, connect, open_database
from hsfiq.db.postgres import limit_waiting
from hsfiq.db.sqlite import archive_url
from hsfiq.errors import Unavailable
from tests.annotate.page_requests import answer_body, begin_form, stored, view
from tests.annotate.private_texts import quoted_in
from tests.annotate.served_studies import (
    Place,
    PlaceOfKind,
    ThreadServer,
    browser_of,
    enrol,
    make_study,
    the_one,
)
from tests.databases import PostgresServer


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
        assert (answer.status_code, answer.json()["threads"]) == (503, "no thread is free in time")
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


REASON = "telltale-reason"

PAGE = {"Accept": "text/html"}


@pytest.fixture
def open_study(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Database]:
    """A study on each kind of database, which waits for a lock for a moment only."""
    monkeypatch.setattr(postgres, "LOCK_SECONDS", 1)
    monkeypatch.setattr(sqlite, "BUSY_SECONDS", 1)
    make_study(PlaceOfKind(tmp_path / "study", database_url)).close()
    database = open_database(database_url)
    limit_waiting(database.engine)
    yield database
    database.engine.dispose()


@pytest.fixture
def client(open_study: Database) -> Iterator[TestClient]:
    services = Services.of(open_study)
    app = plain_app(services)
    add_login(app, Identities(open_study, services.signer))
    app.add_middleware(StudyMiddleware, pages={})
    with browser_of(app) as client:
        yield enrol(client, open_study)


def newcomer_of(database: Database) -> str:
    """The token of somebody who has been invited."""
    with database.writing() as session:
        (person,) = participants.invite(session, 1, 1, now=datetime.now(UTC))
    return person.token


@contextmanager
def locked(database: Database) -> Iterator[None]:
    """Another program has locked what the participants' requests need."""
    other = connect(database.engine.url.render_as_string(hide_password=False))
    with other.execution_options(hsfiq_writes=True).connect() as connection, connection.begin():
        if other.dialect.name == "postgresql":
            connection.execute(text("LOCK TABLE participants IN EXCLUSIVE MODE"))
        yield
    other.dispose()


def test_a_lock_is_answered_with_503_and_nothing_is_stored(
    client: TestClient, open_study: Database, caplog: pytest.LogCaptureFixture
) -> None:
    body = answer_body(view(client), reason=REASON)
    token = newcomer_of(open_study)
    with locked(open_study):
        assert client.get(f"/start/{token}", headers=PAGE).status_code in (200, 503)
        assert client.post(f"/start/{token}", headers=PAGE).status_code == 503
        page = client.get("/study/", headers=PAGE)
        assert page.status_code == 503
        answer = client.post("/submit", json=body)
        assert answer.status_code == 503
        assert "locked" in answer.json()["error"]
        assert answer.headers["retry-after"]
    assert stored(open_study) == []
    assert "503 at POST /submit: " in caplog.text
    assert "503 at GET /study/: " in caplog.text
    assert "503 at POST /start/{token}: " in caplog.text
    assert "Traceback" not in caplog.text
    assert quoted_in(caplog.text, client, body, token) == []
    assert client.post("/submit", json=body).status_code == 200


def test_the_page_about_a_lock_sends_what_was_typed_again(
    open_study: Database, client: TestClient, caplog: pytest.LogCaptureFixture
) -> None:
    client.cookies.clear()
    proof = begin_form(client)["proof"]
    with locked(open_study):
        typed = {"study": 1, "proof": proof, "language": '"><b>en'}
        answer = client.post("/enrol", data=typed, headers=PAGE)
        assert answer.status_code == 503
        assert entry_texts("en")["unavailable_kept"] in answer.text
        assert '<input type="hidden" name="study" value="1">' in answer.text
        assert 'name="language" value="&#34;&gt;&lt;b&gt;en"' in answer.text
    assert client.post("/enrol", data=typed).status_code == 303
    assert "503 at POST /enrol: " in caplog.text
    assert quoted_in(caplog.text, client, typed) == []


FULL_DISK = (
    "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
    "RAISE SQLSTATE '53100' USING MESSAGE = 'could not extend file'; END $$;"
    "CREATE TRIGGER full_disk BEFORE INSERT ON responses EXECUTE FUNCTION full_disk()"
)


def fill_disk(database: Database) -> None:
    """No byte can be added to the database; in PostgreSQL, a trigger says so."""
    if database.engine.dialect.name == "postgresql":
        with database.engine.begin() as connection:
            connection.exec_driver_sql(FULL_DISK)
        return

    @event.listens_for(database.engine, "connect")
    def limit(connection: Any, _record: object) -> None:
        connection.execute("PRAGMA max_page_count = 1")  # at least the present size

    database.engine.dispose()


def test_a_full_disk_is_answered_with_503(
    client: TestClient, open_study: Database, caplog: pytest.LogCaptureFixture
) -> None:
    question = view(client)
    fill_disk(open_study)
    statuses = set()
    for number in range(40):  # pages that are there already may have space left
        body = answer_body(question, key=f"{number:016}", reason="x" * 1900)
        answer = client.post("/submit", json=body)
        statuses.add(answer.status_code)
        if answer.status_code == 503:
            assert "disk" in answer.json()["error"]
            assert "503 at POST /submit: " in caplog.text
            assert quoted_in(caplog.text, client, body) == []
            return
        question = view(client, 1)
    pytest.fail(f"the disk was never full: {statuses}")


@pytest.mark.postgres
@pytest.mark.parametrize("kind", ["postgresql"])
def test_a_lost_server_is_answered_with_503_until_it_is_back(
    client: TestClient,
    open_study: Database,
    postgres_server: PostgresServer,
    caplog: pytest.LogCaptureFixture,
) -> None:
    url = open_study.engine.url
    body, token = answer_body(view(client), reason=REASON), newcomer_of(open_study)
    postgres_server.run(f'ALTER DATABASE "{url.database}" ALLOW_CONNECTIONS false')
    postgres_server.end_connections(url.render_as_string(hide_password=False))
    for path in ("/", "/question", "/owner"):
        assert client.get(path).status_code == 503
        assert client.get(path, headers=PAGE).status_code == 503
    assert client.post("/submit", json=body).status_code == 503
    assert client.get(f"/start/{token}").status_code == 503
    assert client.get("/healthz").status_code == 200
    assert client.get("/readyz").status_code == 503
    postgres_server.run(f'ALTER DATABASE "{url.database}" ALLOW_CONNECTIONS true')
    assert client.get("/readyz").status_code == 200
    assert client.post("/submit", json=body).status_code == 200
    assert "503 at GET /start/{token}: " in caplog.text
    assert quoted_in(caplog.text, client, body, token) == []


@pytest.mark.postgres
@pytest.mark.parametrize("kind", ["postgresql"])
def test_the_servers_statements_have_limits(open_study: Database) -> None:
    shown = [
        the_one(open_study, text(f"SHOW {name}"))
        for name in ("lock_timeout", "statement_timeout", "idle_in_transaction_session_timeout")
    ]
    assert shown == ["1s", "30s", "1min"]


# --------------------------------------------------------------------------- broken requests


def address_of(server: ThreadServer) -> tuple[str, int]:
    return "127.0.0.1", int(server.url.rpartition(":")[2])


def raw(server: ThreadServer, *parts: bytes) -> bytes:
    """What the server answers to these bytes, up to the end of the connection."""
    with socket.create_connection(address_of(server), timeout=60) as opened:
        for part in parts:
            opened.sendall(part)
        answer = b""
        while part := opened.recv(65536):
            answer += part
        return answer


@pytest.mark.parametrize("path", ["/submit", "/enrol"])
def test_a_chunked_body_that_is_too_large_is_answered_with_413(
    server: ThreadServer, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    kind = "application/json" if path == "/submit" else "application/x-www-form-urlencoded"
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: {kind}\r\n"
    chunk = b"%x\r\n%b\r\n" % (LARGEST_BODY + 1, b"x" * (LARGEST_BODY + 1))
    answer = raw(server, f"{head}Transfer-Encoding: chunked\r\n\r\n".encode(), chunk)
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert caplog.records == []


@pytest.mark.parametrize("path", ["/submit", "/enrol", "/owner/login", "/owner/"])
def test_a_client_that_hangs_up_leaves_no_traceback(
    server: ThreadServer, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    kind = "application/x-www-form-urlencoded" if path == "/enrol" else "application/json"
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: {kind}\r\n"
    for _ in range(3):
        with socket.create_connection(address_of(server), timeout=60) as opened:
            opened.sendall(f"{head}Content-Length: 100\r\n\r\nhalf".encode())
    with caplog.at_level(logging.INFO):
        assert raw(server, b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert [record for record in caplog.records if record.exc_info] == []
