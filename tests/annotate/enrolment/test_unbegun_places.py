"""A place that nobody begins goes back, and who comes back later gets one again."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

from fastapi import FastAPI
from fastapi.testclient import TestClient
from sqlalchemy import func, select, update

from hsfiq.annotate.texts import entry_texts
from hsfiq.db.engine import Database
from hsfiq.db.tables import Form, Participant, Question
from tests.annotate.enrolment.visits import PROLIFIC, Visit, count
from tests.annotate.page_requests import answer_body, answer_until, view
from tests.annotate.served_studies import Place, begin, browser_of, enrol, newcomer
from tests.in_process import run_command

TEXT = entry_texts("en")


def pass_time(database: Database, **time: float) -> None:
    """Move everybody's last sign of life into the past."""
    with database.writing() as session:
        earlier = datetime.now(UTC) - timedelta(**time)
        session.execute(update(Participant).values(seen_at=earlier))


def taken(database: Database) -> dict[str, int]:
    """How many forms each participant has."""
    with database.reading() as session:
        forms = select(Participant.name, func.count(Form.id)).join(Form.participant)
        rows = session.execute(forms.group_by(Participant.name))
        return dict(rows.all())  # type: ignore[arg-type]


def fill(app: FastAPI, database: Database) -> list[TestClient]:
    """Two people take all places, and do nothing."""
    return [begin(browser_of(app), database) for _ in range(2)]


def test_the_next_participant_gets_the_place(
    app: FastAPI, new_browser: TestClient, database: Database
) -> None:
    fill(app, database)
    assert TEXT["begin"] not in new_browser.get("/").text
    pass_time(database, minutes=14)
    assert TEXT["begin"] not in new_browser.get("/").text
    pass_time(database, minutes=15)
    assert TEXT["begin"] in new_browser.get("/").text
    with database.reading() as session:
        n_questions = session.scalar(select(func.count(Question.id)))
    enrol(new_browser, database)
    assert taken(database) == {"p3": 2}
    answer_until(new_browser, "done")
    with database.reading() as session:  # the forms were given back, and not copied
        assert session.scalar(select(func.count(Question.id))) == n_questions


def test_who_has_agreed_keeps_the_place(
    app: FastAPI, new_browser: TestClient, database: Database
) -> None:
    first, _ = fill(app, database)
    first.post("/consent", json={"agrees": True})
    pass_time(database, minutes=15)
    begin(new_browser, database)
    assert taken(database) == {"p1": 2, "p3": 2}


def test_who_comes_back_to_the_page_gets_a_place_again(app: FastAPI, database: Database) -> None:
    first, second = fill(app, database)
    pass_time(database, minutes=15)
    third = begin(browser_of(app), database)
    pass_time(database, minutes=0)
    assert taken(database) == {"p3": 2}
    for client in (first, second):  # one place is left
        client.post("/consent", json={"agrees": True})
    assert view(first)["step"] == "practice"
    farewell = view(second)
    assert (farewell["step"], farewell["kind"]) == ("farewell", "reassigned")
    assert taken(database) == {"p1": 2, "p3": 2}
    pass_time(database, minutes=15)
    second.post("/consent", json={"agrees": True})
    assert view(second)["step"] == "practice"
    assert taken(database) == {"p1": 2, "p2": 2}
    assert view(third)["step"] == "farewell"


def test_who_opens_the_page_again_gets_a_place_again(
    new_browser: TestClient, database: Database, tmp_path: Path
) -> None:
    begin(new_browser, database)
    pass_time(database, minutes=15)
    run_command(tmp_path, "participant", "release", "--database", str(database.engine.url))
    assert taken(database) == {}
    opened = new_browser.get("/opening").json()
    assert opened["view"]["step"] == "consent"
    assert taken(database) == {"p1": 2}


def test_a_link_leads_to_a_place_again(
    new_browser: TestClient, copied: Place, database: Database, tmp_path: Path
) -> None:
    link = f"/start/{newcomer(copied, is_ready=False)}"
    assert new_browser.get(link).status_code == 303
    pass_time(database, minutes=15)
    run_command(tmp_path, "participant", "release", "--database", str(database.engine.url))
    assert taken(database) == {}
    assert new_browser.get(link).status_code == 303
    assert taken(database) == {"p1": 2}


def test_a_platforms_link_leads_to_a_place_again(visit: Visit, tmp_path: Path) -> None:
    client, database = visit(recruitment={"mode": "prolific"})
    for _ in range(2):
        assert client.get("/start", params=PROLIFIC).status_code == 303
        assert taken(database) == {"p1": 2}
        pass_time(database, minutes=15)
        run_command(tmp_path, "participant", "release", "--database", str(database.engine.url))
        assert taken(database) == {}
    assert count(database) == 1


def test_one_command_gives_the_places_back(
    app: FastAPI, database: Database, tmp_path: Path
) -> None:
    first, second = fill(app, database)
    first.post("/consent", json={"agrees": True})
    first.post("/practice", json={})
    first.post("/submit", json=answer_body(view(first)))
    release = ("participant", "release", "--database", str(database.engine.url))
    assert run_command(tmp_path, *release) == "study telltale-study: 0 places given back\n"
    done = run_command(tmp_path, *release, "--minutes", "0", "--json")
    assert json.loads(done) == {"study": "telltale-study", "released": ["p2"]}
    assert taken(database) == {"p1": 2}
    listed = run_command(tmp_path, "participant", "list", "--database", str(database.engine.url))
    assert "p2: without a place, 0 of 0 answered" in listed
    assert view(second)["step"] == "farewell"
    assert view(first)["number"] == 2


def test_the_time_can_be_changed_and_left_to_the_lease(
    app: FastAPI, new_browser: TestClient, database: Database, tmp_path: Path
) -> None:
    fill(app, database)
    change = ("study", "enrolment", "telltale-study", "--unbegun-minutes", "0")
    options = ("--per-address", "7", "--json", "--database", str(database.engine.url))
    rules = {"enrolments_per_address": 7, "unbegun_minutes": 0, "signed_links": False}
    printed = run_command(tmp_path, *change, *options)
    assert json.loads(printed) == {"study": "telltale-study", **rules}
    pass_time(database, minutes=60)
    assert TEXT["begin"] not in new_browser.get("/").text
    pass_time(database, minutes=121)
    assert TEXT["begin"] in new_browser.get("/").text
