"""A script cannot take a study's places: what a form must prove, and the limit by address."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import httpx
import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from sqlalchemy import select

from hsfiq.annotate.app import plain_app
from hsfiq.annotate.cookies import COOKIE, signer_of
from hsfiq.annotate.entry import VALID_FOR, new_proof
from hsfiq.annotate.handlers import Services
from hsfiq.annotate.texts import entry_texts
from hsfiq.collect.places import PERIOD, forget_old_enrolments
from hsfiq.db.engine import Database, open_database
from hsfiq.db.tables import EnrolmentByAddress, Study
from hsfiq.study.config import config_of, stored_recruitment
from tests.annotate.enrolment.visits import PROLIFIC
from tests.annotate.page_requests import begin_form
from tests.annotate.served_studies import (
    Place,
    Server,
    ThreadServer,
    Visit,
    all_of,
    count,
    enrol,
    make_study,
    the_one,
    update_all,
)
from tests.hsfiq.samples import hsfiq

TEXT = entry_texts("en")


def limit_to(database: Database, number: int, **recruitment: str) -> None:
    with database.writing() as session:
        study = session.scalars(select(Study)).one()
        values = replace(
            config_of(study).recruitment,
            enrolments_per_address=number,
            **recruitment,  # type: ignore[arg-type]
        )
        study.design = study.design | {"recruitment": stored_recruitment(values)}


# ------------------------------------------------------------------------------- proof of intent


def test_requests_without_a_new_and_genuine_proof_take_no_place(
    new_browser: TestClient, database: Database
) -> None:
    form = begin_form(new_browser)
    proof, now, signer = form["proof"], datetime.now(UTC), signer_of(database)
    too_old = new_proof(signer, now - VALID_FOR - timedelta(seconds=2))
    before_the_clock_was_set_back = new_proof(signer, now + VALID_FOR + timedelta(hours=1))
    forged = (proof[:-1], f"9{proof}", proof[::-1])
    for wrong in ("", too_old, before_the_clock_was_set_back, *forged):
        answer = new_browser.post("/enrol", data=form | {"proof": wrong})
        assert answer.status_code == 403, wrong
        assert TEXT["begin_again"] in answer.text
        assert COOKIE not in new_browser.cookies
    assert count(database) == 0
    assert new_browser.get("/").headers["cache-control"] == "no-store"
    assert new_browser.post("/enrol", data=begin_form(new_browser)).status_code == 303


def test_a_form_that_is_sent_again_makes_no_second_participant(
    new_browser: TestClient, database: Database
) -> None:
    """The first answer may have been lost on its way."""
    form = begin_form(new_browser)
    cookies = []
    for _ in range(3):
        assert new_browser.post("/enrol", data=form).status_code == 303
        cookies.append(new_browser.cookies.pop(COOKIE))
    assert (len(set(cookies)), count(database)) == (1, 1)


def test_a_different_person_needs_a_page_of_their_own(visit: Visit) -> None:
    """Someone who goes back in the browser must not answer as the person before."""
    annotator, database = visit(queries=24)
    enrol(annotator, database)
    form = begin_form(annotator, different="true")
    assert annotator.post("/enrol", data=form).status_code == 303
    cookie = annotator.cookies[COOKIE]
    answer = annotator.post("/enrol", data=form)
    assert answer.status_code == 403
    assert TEXT["begin_again"] in answer.text
    assert (annotator.cookies[COOKIE], count(database)) == (cookie, 2)


def test_a_browser_that_keeps_no_cookie_takes_no_place(
    new_browser: TestClient, database: Database
) -> None:
    """Its participant could not go on to the next page."""
    for _ in range(3):
        form = begin_form(new_browser)
        new_browser.cookies.clear()
        answer = new_browser.post("/enrol", data=form)
        assert answer.status_code == 403
        assert TEXT["no_cookies"] in answer.text
        new_browser.cookies.clear()
    assert count(database) == 0


# --------------------------------------------------------------------------------------- address


def test_a_loop_does_not_take_all_places(server: ThreadServer) -> None:
    """A real server, and a script that does what a person does, only faster."""
    limit_to(server.database, 1)
    statuses = []
    with httpx.Client(base_url=server.url, trust_env=False, timeout=60) as client:
        for _ in range(4):
            client.cookies.clear()
            statuses.append(client.post("/enrol", data=begin_form(client)).status_code)
    assert statuses == [303, 429, 429, 429]
    assert count(server.database) == 1


def test_who_is_refused_reads_when_to_come_back(
    app: FastAPI, new_browser: TestClient, database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    limit_to(database, 1)
    address = "198.51.100.7"
    first = TestClient(app, follow_redirects=False, client=(address, 1))
    second = TestClient(app, follow_redirects=False, client=(address, 2))
    assert first.post("/enrol", data=begin_form(first)).status_code == 303
    answer = second.post("/enrol", data=begin_form(second))
    assert answer.status_code == 429
    assert 3500 < int(answer.headers["retry-after"]) <= 3600
    assert TEXT["too_many"].format(minutes=60) in answer.text
    assert second.post("/enrol", data=begin_form(second)).status_code == 429
    assert caplog.text.count("FORWARDED_ALLOW_IPS") == 1
    assert address not in caplog.text
    assert new_browser.post("/enrol", data=begin_form(new_browser)).status_code == 303
    # A participant with a place is not counted again.
    assert first.post("/enrol", data=begin_form(first)).status_code == 303


@pytest.mark.parametrize("moved", [-PERIOD - timedelta(seconds=1), timedelta(days=1)])
def test_the_limit_is_for_an_hour(
    new_browser: TestClient, database: Database, moved: timedelta
) -> None:
    """Also where the clock was a day ahead and has been set back."""
    limit_to(database, 1)
    assert new_browser.post("/enrol", data=begin_form(new_browser)).status_code == 303
    update_all(database, EnrolmentByAddress, enrolled_at=datetime.now(UTC) + moved)
    new_browser.cookies.clear()
    assert new_browser.post("/enrol", data=begin_form(new_browser)).status_code == 303
    forget_old_enrolments(database)
    assert len(all_of(database, select(EnrolmentByAddress))) == 1


def test_made_up_people_of_a_platform_are_limited_too(visit: Visit) -> None:
    client, database = visit(recruitment={"mode": "prolific", "enrolments_per_address": 1})
    statuses = []
    for person in ("a", "b", "a"):
        client.cookies.clear()
        link = PROLIFIC | {"PROLIFIC_PID": person}
        statuses.append(client.get("/start", params=link).status_code)
    assert statuses == [303, 429, 303]
    assert count(database) == 1


def test_the_address_is_not_stored(place: Place) -> None:
    database = make_study(place)
    address = "203.0.113.205"
    client = TestClient(plain_app(Services.of(database)), client=(address, 1))
    client.post("/enrol", data=begin_form(client), follow_redirects=False)
    assert len(the_one(database, select(EnrolmentByAddress.client))) == 64
    database.close()
    assert address.encode() not in place.file.read_bytes()


def test_the_limit_holds_in_every_process(visit: Visit) -> None:
    """Two apps on one database, as two processes have them."""
    elsewhere, database = visit(recruitment={"enrolments_per_address": 1})
    browsers = [
        TestClient(plain_app(Services.of(database)), client=("192.0.2.1", 1)) for _ in range(2)
    ]
    statuses = [
        browser.post("/enrol", data=begin_form(browser), follow_redirects=False).status_code
        for browser in (*browsers, elsewhere)
    ]
    assert statuses == [303, 429, 303]


AGES = {"old": PERIOD + timedelta(minutes=1), "new": timedelta(0), "future": -timedelta(days=1)}


@pytest.fixture
def open_study(place: Place) -> Iterator[Database]:
    """A study's database, also while something else has it open."""
    make_study(place).close()
    with closing(open_database(place.url)) as database:
        yield database


def store_clients(open_study: Database, *clients: str) -> None:
    with open_study.writing() as session:
        study = session.scalars(select(Study)).one()
        for client in clients:
            time_of_client = datetime.now(UTC) - AGES[client]
            session.add(
                EnrolmentByAddress(study_id=study.id, client=client, enrolled_at=time_of_client)
            )


def clients_in(open_study: Database) -> set[str]:
    return set(all_of(open_study, select(EnrolmentByAddress.client)))


def test_the_server_deletes_them_when_it_starts_and_while_it_runs(
    place: Place, open_study: Database
) -> None:
    server = Server(place)
    store_clients(open_study, "old", "new")
    server.start()
    try:
        assert clients_in(open_study) == {"new"}
        store_clients(open_study, "old", "future")
        while clients_in(open_study) != {"new"}:
            time.sleep(0.1)
    finally:
        server.kill()


def test_every_command_deletes_them(place: Place, open_study: Database) -> None:
    store_clients(open_study, *AGES)
    assert hsfiq("study", "status", "--database", place.url).code == 0
    assert clients_in(open_study) == {"new"}
