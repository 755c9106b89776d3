"""What a served study logs: never what participants wrote, their links, or their platform ids."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import httpx
import pytest
from sqlalchemy import text

from hsfiq.db.engine import connect, open_database
from tests.annotate.enrolment.visits import PERSON, PROLIFIC
from tests.annotate.page_requests import answer_body, view
from tests.annotate.private_texts import quoted_in
from tests.annotate.served_studies import Place, Server, make_study, newcomer
from tests.databases import PostgresServer

REASON = "telltale-reason"

ONE_REQUEST = httpx.Limits(max_keepalive_connections=0)
"""The server ends a connection after a fault."""

# Rules that no row meets. PostgreSQL quotes the row that breaks a rule; SQLite does not.
RULES = {
    "postgresql": "ALTER TABLE {table} ADD CONSTRAINT broken CHECK (id < 0) NOT VALID",
    "sqlite": "CREATE TRIGGER broken_{table} BEFORE {event} ON {table} "
    "BEGIN SELECT RAISE(ABORT, 'broken'); END",
}


def break_table(url: str, kind: str, table: str, event: str) -> None:
    engine = connect(url)
    with engine.execution_options(hsfiq_writes=True).begin() as connection:
        connection.exec_driver_sql(RULES[kind].format(table=table, event=event))
    engine.dispose()


@pytest.mark.slow
def test_a_logged_fault_quotes_no_data(server_of_kind: Server, kind: str) -> None:
    server = server_of_kind
    token, late_token = newcomer(server.place), newcomer(server.place, is_ready=False)
    with httpx.Client(
        base_url=server.url, timeout=60, trust_env=False, limits=ONE_REQUEST
    ) as client:
        assert client.get(f"/start/{token}").status_code == 303
        body = answer_body(view(client), reason=REASON)
        break_table(server.place.url, kind, "responses", "INSERT")
        assert client.post("/submit", json=body).status_code == 500
        break_table(server.place.url, kind, "participants", "UPDATE")
        client.cookies.clear()  # else the page asks first whether to leave the other participation
        assert client.get(f"/start/{late_token}").status_code == 500
    log = server.log.read_text()
    assert log.count("Traceback") >= 2
    assert log.count("broken") >= 2
    assert quoted_in(log, client, body, token, late_token) == []


@pytest.mark.slow
def test_kills_and_ended_connections_leave_no_data_in_the_log(
    server_of_kind: Server, kind: str, request: pytest.FixtureRequest
) -> None:
    """The server's process is killed between two answers, and so are PostgreSQL's backends."""
    server = server_of_kind
    token = newcomer(server.place)
    with httpx.Client(base_url=server.url, timeout=60, trust_env=False) as client:
        assert client.get(f"/start/{token}").status_code == 303
        body = answer_body(view(client), reason=REASON)
        server.kill()
        server.start()
        assert client.post("/submit", json=body).status_code == 200
        following = answer_body(view(client), "another-key-12345", reason=f"{REASON}-2")
        if kind == "postgresql":
            postgres: PostgresServer = request.getfixturevalue("postgres_server")
            postgres.end_connections(server.place.url)
        statuses = [client.post("/submit", json=following).status_code for _ in range(3)]
        assert statuses[-1] == 200
        assert set(statuses) <= {200, 503}
    log = server.log.read_text()
    assert log
    assert quoted_in(log, client, body, following, token) == []


def test_each_private_text_would_be_found() -> None:
    body = {"answer": {"reason": REASON}, "assignment": "question:1.abcdefghijklmnop", "n": 1}
    token = "t" * 32
    with httpx.Client(
        cookies={"hsfiq_participant": '"digest-of-a-token:another-digest.sign"'}
    ) as client:
        assert quoted_in("503 at POST /submit: the database is locked", client, body, token) == []
        for private in (REASON, "abcdefghijklmnop", token, "another-digest"):
            assert quoted_in(f"a line with {private}\n", client, body, token) == [private]


@pytest.fixture
def prolific_server(place: Place) -> Iterator[Server]:
    make_study(place, recruitment={"mode": "prolific", "completion_code": "C1"}).close()
    server = Server(place)
    server.start()
    yield server
    server.kill()


def alter(place: Place, statement: str) -> None:
    database = open_database(place.url)
    with database.writing() as session:
        session.execute(text(statement))
    database.close()


def test_no_log_line_and_no_page_has_a_platform_id(prolific_server: Server) -> None:
    place = prolific_server.place
    with httpx.Client(base_url=prolific_server.url) as browser:
        pages = [browser.get("/start", params=PROLIFIC, follow_redirects=True)]
        pages += [browser.get(path) for path in ("/", "/question")]
        pages += [browser.get("/start", params=PROLIFIC | {"study": "no"})]
        pages += [browser.get("/start", params=PROLIFIC | {"SESSION_ID": "../"})]
        alter(place, "UPDATE studies SET status = 'closed'")
        pages += [browser.get("/start", params=PROLIFIC | {"PROLIFIC_PID": f"{PERSON}0"})]
        alter(place, "ALTER TABLE participants RENAME COLUMN external_id TO elsewhere")
        pages += [browser.get("/start", params=PROLIFIC)]
    assert [page.status_code for page in pages] == [200, 200, 200, 404, 400, 410, 500]
    assert not [page for page in pages if PERSON in page.text]
    prolific_server.stop(signal.SIGTERM)  # after it has logged the fault
    log = prolific_server.log.read_text()
    assert "external_id" in log  # the fault itself is logged
    assert PERSON not in log
