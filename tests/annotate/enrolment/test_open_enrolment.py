"""A script cannot take a study's places: what a form must prove, and the limit by address."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import httpx
import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from sqlalchemy import select, update

from hsfiq.annotate.app import plain_app
from hsfiq.annotate.cookies import COOKIE, signer_of
from hsfiq.annotate.entry import VALID_FOR, new_proof
from hsfiq.annotate.handlers import Services
from hsfiq.annotate.texts import entry_texts
from hsfiq.collect.recruiting import PERIOD, forget_old_enrolments
from hsfiq.db.engine import Database
from hsfiq.db.tables import EnrolmentByAddress, Study
from hsfiq.study.config import config_of, stored_recruitment
from tests.annotate.enrolment.visits import PROLIFIC, Visit, count
from tests.annotate.page_requests import begin_form
from tests.annotate.served_studies import Place, ThreadServer, browser_of, enrol, make_study

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


def test_requests_without_a_proof_take_no_place(
    new_browser: TestClient, database: Database
) -> None:
    for _ in range(5):
        assert new_browser.get("/").status_code == 200
        answer = new_browser.post("/enrol", data={"study": 1})
        assert answer.status_code == 403
    assert TEXT["begin_again"] in answer.text
    assert COOKIE not in new_browser.cookies
    assert count(database) == 0


@pytest.mark.parametrize("age", [VALID_FOR + timedelta(seconds=2), -VALID_FOR - timedelta(hours=1)])
def test_a_welcome_page_that_is_too_old_is_shown_again(
    new_browser: TestClient, database: Database, age: timedelta
) -> None:
    """Also one from before the clock was set back."""
    proof = new_proof(signer_of(database), datetime.now(UTC) - age)
    answer = new_browser.post("/enrol", data={"study": 1, "proof": proof})
    assert (answer.status_code, count(database)) == (403, 0)
    again = begin_form(new_browser)
    assert new_browser.post("/enrol", data=again).status_code == 303


@pytest.mark.parametrize(
    "forge", [lambda proof: proof[:-1], lambda proof: "9" + proof, lambda proof: proof[::-1]]
)
def test_a_forged_proof_is_refused(
    new_browser: TestClient, database: Database, forge: Callable[[str], str]
) -> None:
    form = begin_form(new_browser)
    answer = new_browser.post("/enrol", data=form | {"proof": forge(form["proof"])})
    assert (answer.status_code, count(database)) == (403, 0)


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


def test_the_welcome_page_is_not_stored_by_the_browser(new_browser: TestClient) -> None:
    assert new_browser.get("/").headers["cache-control"] == "no-store"


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
    # Whoever has a place is not counted again.
    assert first.post("/enrol", data=begin_form(first)).status_code == 303


@pytest.mark.parametrize("moved", [-PERIOD - timedelta(seconds=1), timedelta(days=1)])
def test_the_limit_is_for_an_hour(
    app: FastAPI, new_browser: TestClient, database: Database, moved: timedelta
) -> None:
    """Also where the clock was a day ahead and has been set back."""
    limit_to(database, 1)
    assert new_browser.post("/enrol", data=begin_form(new_browser)).status_code == 303
    with database.writing() as session:
        session.execute(update(EnrolmentByAddress).values(enrolled_at=datetime.now(UTC) + moved))
    new_browser.cookies.clear()
    assert new_browser.post("/enrol", data=begin_form(new_browser)).status_code == 303
    forget_old_enrolments(database)
    with database.reading() as session:
        assert len(session.scalars(select(EnrolmentByAddress)).all()) == 1


def test_no_limit(new_browser: TestClient, database: Database) -> None:
    limit_to(database, 0)
    for _ in range(2):
        new_browser.cookies.clear()
        assert new_browser.post("/enrol", data=begin_form(new_browser)).status_code == 303
    with database.reading() as session:
        assert session.scalars(select(EnrolmentByAddress)).all() == []


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
    with TestClient(plain_app(Services.of(database)), client=(address, 1)) as client:
        client.post("/enrol", data=begin_form(client), follow_redirects=False)
    with database.reading() as session:
        assert len(session.scalars(select(EnrolmentByAddress)).one().client) == 64
    database.close()
    assert address.encode() not in place.file.read_bytes()


def test_the_limit_holds_in_every_process(place: Place) -> None:
    """Two apps on one database, as two processes have them."""
    database = make_study(place, recruitment={"enrolments_per_address": 1})
    statuses = []
    for _ in range(2):
        app = plain_app(Services.of(database))
        with TestClient(app, follow_redirects=False, client=("192.0.2.1", 1)) as client:
            statuses.append(client.post("/enrol", data=begin_form(client)).status_code)
    with browser_of(plain_app(Services.of(database))) as elsewhere:
        statuses.append(elsewhere.post("/enrol", data=begin_form(elsewhere)).status_code)
    assert statuses == [303, 429, 303]
    database.close()
