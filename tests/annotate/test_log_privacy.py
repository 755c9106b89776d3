"""What a served study logs about a fault: never what participants wrote, nor their links."""

from __future__ import annotations

import httpx
import pytest

from hsfiq.db.engine import connect
from tests.annotate.page_requests import answer_body, view
from tests.annotate.served_studies import Server, newcomer

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
    quoted = [text for text in (REASON, token, late_token, body["submit_key"]) if text in log]
    assert quoted == []
