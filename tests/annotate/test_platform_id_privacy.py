"""Platform ids are in no log line and on no page of a participant, even after a fault."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import httpx
import pytest
from sqlalchemy import text

from hsfiq.db.engine import open_database
from tests.annotate.served_studies import Place, Server, make_study

PERSON = "5f8e0c1d2b3a4c5d6e7f8a9b"
ARRIVAL = {"PROLIFIC_PID": PERSON, "STUDY_ID": "64ab", "SESSION_ID": "77cd"}


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
        pages = [browser.get("/start", params=ARRIVAL, follow_redirects=True)]
        pages += [browser.get(path) for path in ("/", "/question")]
        pages += [browser.get("/start", params=ARRIVAL | {"study": "no"})]
        pages += [browser.get("/start", params=ARRIVAL | {"SESSION_ID": "../"})]
        alter(place, "UPDATE studies SET status = 'closed'")
        pages += [browser.get("/start", params=ARRIVAL | {"PROLIFIC_PID": f"{PERSON}0"})]
        alter(place, "ALTER TABLE participants RENAME COLUMN external_id TO elsewhere")
        pages += [browser.get("/start", params=ARRIVAL)]
    assert [page.status_code for page in pages] == [200, 200, 200, 404, 400, 410, 500]
    assert not [page for page in pages if PERSON in page.text]
    prolific_server.stop(signal.SIGTERM)  # after it has logged the fault
    log = prolific_server.log.read_text()
    assert "external_id" in log  # the fault itself is logged
    assert PERSON not in log
