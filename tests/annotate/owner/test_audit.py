"""The audit log of the dashboard: what each route records, its page and its files."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from playwright.sync_api import BrowserContext, expect

from hsfiq import access
from hsfiq.actors import NOBODY, OWNER, Action, Actor, Role
from hsfiq.annotate.owner import actions, downloads
from hsfiq.audit import Selection, entries, facts, record
from hsfiq.collect import participants
from hsfiq.collect.studies import list_studies
from hsfiq.db.engine import Database
from hsfiq.releases.content import Source
from tests.annotate.owner.studies_in_progress import (
    PASSWORD,
    Events,
    add_account,
    log_in,
    set_owner,
)
from tests.annotate.owner.test_dashboard import content
from tests.annotate.served_studies import ThreadServer, browser_of
from tests.annotate.test_routes import paths_of
from tests.studies import NOW, Seat

RECORDED = {
    ("POST", "/owner/login"): Action.LOGIN,
    ("POST", "/owner/logout"): Action.LOGOUT,
    ("POST", "/owner/accounts"): Action.ACCOUNT_INVITE,
    ("POST", "/owner/invitations/{study_id}"): Action.STUDY_INVITE,
    ("POST", "/owner/messages/{study_id}"): Action.STUDY_MESSAGE,
    ("POST", "/owner/texts/{study_id}/edit"): Action.STUDY_EDIT,
    ("GET", "/owner/preview/{study_id}"): Action.STUDY_PREVIEW,
    ("GET", "/owner/export/{study_id}/{kind}"): Action.DATA_EXPORT,
    ("GET", "/owner/audit/{study_id}/{file_format}"): Action.AUDIT_EXPORT,
}
"""Requests that change or take out data; the buttons of the board are tested apart."""

PAGES = {
    "/owner", "/owner/", "/owner/leaderboard/{study_id}",
    "/owner/login", "/owner/participant", "/owner/question", "/owner/upload",
    "/owner/image/{token}", "/owner/image/{token}/full", "/owner/messages/{study_id}",
    "/owner/texts/{study_id}", "/owner/texts/{study_id}/edit", "/owner/audit/{study_id}",
    "/owner/board", "/owner/accounts", "/owner/invitations/{study_id}", "/owner/link/{token}",
}  # fmt: skip
"""What the owner looks at, which is not recorded."""

PERSON, REASON, MESSAGE = "5f8e0c1d2e3f405162738495", "was in a hurry", "please hurry"


@pytest.fixture
def study(database: Database) -> str:
    """The name of a study with a participant from a platform, who has answered."""
    set_owner(database)
    with database.writing() as session:
        study = list_studies(session)[0]
        person = participants.enrol(
            session, study.id, now=NOW, source="prolific", external_id=PERSON
        )
        participants.consent(person, now=NOW)
    Seat(database, person.id).answer_until(3)
    return study.name


@pytest.fixture
def owner(app: FastAPI, database: Database, study: str) -> Iterator[TestClient]:
    with browser_of(app) as client:
        assert log_in(client).status_code == 303
        yield client


def log(database: Database) -> list[dict[str, Any]]:
    with database.reading() as session:
        return [facts(entry) for entry in entries(session, Selection())]


def test_every_route_of_the_owner_is_listed(app: FastAPI) -> None:
    routes = {
        (method, path)
        for path, methods in paths_of(app).items()
        for method in methods - {"HEAD"}
        if path.startswith("/owner")
    }
    pages = {("GET", path) for path in PAGES}
    assert routes == RECORDED.keys() | pages | {("POST", "/owner/link/{token}")}


def requested(client: TestClient, method: str, path: str) -> int:
    """The status of a request that does what the route is for."""
    place = path.format(study_id=1, kind="hp", file_format="jsonl")
    if path.endswith("/edit"):
        form = content(client.get(place).text) | {"text:study.title": "Which?", "action": "store"}
        return int(client.post(place, files={n: (None, v) for n, v in form.items()}).status_code)
    data = {"text": MESSAGE, "participant": "p1", "password": PASSWORD, "count": "2"}
    if path == "/owner/accounts":
        data = {"action": "invite", "name": "Kim", "role": "analyst"}
    sent = client.get(place) if method == "GET" else client.post(place, data=data)
    return int(sent.status_code)


def test_each_change_and_download_is_recorded(
    owner: TestClient, database: Database, study: str
) -> None:
    about = {
        Action.ACCOUNT_INVITE: "kim: analyst",
        Action.STUDY_INVITE: "2 invitations",
        Action.STUDY_MESSAGE: "p1",
        Action.STUDY_EDIT: "text version 2",
        Action.DATA_EXPORT: f"{study}-hp 0.0.0",
    }
    for (method, path), action in sorted(RECORDED.items(), key=lambda row: row[1] == "logout"):
        before = log(database)
        assert requested(owner, method, path) in (200, 303), path
        (entry,) = log(database)[len(before) :]
        assert (entry["actor"], entry["action"]) == (OWNER.name, action), path
        is_general = action in ("login", "logout", "account.invite")
        assert entry["study"] == (None if is_general else study), path
        if action != Action.AUDIT_EXPORT:
            assert entry["about"] == about.get(action, ""), path
        assert entry["outcome"] == "done"


def test_each_button_is_recorded(owner: TestClient, database: Database, study: str) -> None:
    events = Events(owner)
    for prefix, names in (("person", actions.PERSON), ("study", actions.STUDY)):
        person = [PERSON, REASON] if prefix == "person" else []
        for name in sorted(names, key=lambda name: name == "open"):
            before = log(database)
            asked = events.call(f"{prefix}-{name}", "click", study, *person)
            assert len(log(database)) == len(before), "asking changes nothing"
            events.call("yes", "click", asked[4], study)
            (entry,) = log(database)[len(before) :]
            kind = "participant" if person else "study"
            about = "p1" if person else ""
            assert entry["action"] == f"{kind}.{name}"
            assert (entry["actor"], entry["study"], entry["about"]) == (OWNER.name, study, about)
    text = json.dumps(log(database))
    assert PERSON not in text
    assert REASON not in text


def test_a_refused_login_is_recorded_without_the_password(
    app: FastAPI, database: Database, study: str
) -> None:
    with browser_of(app) as client:
        assert log_in(client, "a wrong password").status_code == 401
    (entry,) = log(database)
    assert (entry["actor"], entry["action"], entry["outcome"]) == (NOBODY.name, "login", "refused")
    assert entry["study"] is None
    assert "wrong" not in json.dumps(entry)


def test_each_account_is_named(owner: TestClient, app: FastAPI, database: Database) -> None:
    with database.writing() as session:
        now = datetime.now(UTC)
        token = access.invite(session, "kim", Role.ANALYST, now + timedelta(days=1))
    before = log(database)
    with browser_of(app) as client:
        passwords = {"password": PASSWORD, "repeated": PASSWORD}
        assert client.post(f"/owner/link/{token}", data=passwords).status_code == 303
        assert client.get("/owner/export/1/hp").status_code == 200
        assert client.get("/owner/audit/1").status_code == 403
    new = log(database)[len(before) :]
    assert [entry["action"] for entry in new] == ["password.set", "login", "data.export"]
    assert {entry["actor"] for entry in new} == {"kim"}
    assert token not in json.dumps(new)


def test_nothing_leaves_without_an_entry(owner: TestClient, database: Database) -> None:
    """No file is sent if the entry cannot be stored."""
    with database.writing() as session:
        session.connection().exec_driver_sql(
            "CREATE TRIGGER full BEFORE INSERT ON audit_entries "
            "BEGIN SELECT RAISE(FAIL, 'no more'); END"
        )
    before = log(database)
    for path in ("/owner/export/1/hp", "/owner/audit/1/csv"):
        with pytest.raises(Exception, match="no more"):
            owner.get(path)
    assert log(database) == before


def test_an_export_is_not_sent_to_an_account_that_was_disabled_meanwhile(
    app: FastAPI, database: Database, study: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An export of a large study takes minutes."""
    zipped = downloads.zipped

    def disabled(source: Source) -> Any:
        with database.writing() as session:
            access.disable(session, "ana")
        return zipped(source)

    add_account(database, "ana", Role.ANALYST)
    with browser_of(app) as client:
        assert log_in(client, name="ana").status_code == 303
        before = log(database)
        monkeypatch.setattr(downloads, "zipped", disabled)
        assert client.get("/owner/export/1/hp").status_code == 401
    assert log(database) == before


def test_page_and_file_show_the_study(owner: TestClient, database: Database, study: str) -> None:
    with database.writing() as session:
        record(session, Actor("=1+1 <b>ann</b>"), Action.STUDY_OPEN, study=study)
        record(session, OWNER, Action.STUDY_CLOSE, study="another")
    page = owner.get("/owner/audit/1").text
    assert "&lt;b&gt;ann&lt;/b&gt;" in page
    assert page.index("study.open") < page.index("<td>login</td>")  # newest first
    assert "another" not in page
    for path in ("99", "99/csv", "1/pdf"):
        assert owner.get(f"/owner/audit/{path}").status_code == 404
    response = owner.get("/owner/audit/1/csv")
    name = f'attachment; filename="audit-{study}'
    assert response.headers["Content-Disposition"].startswith(name)
    rows = csv.DictReader(io.StringIO(response.text))
    actions = [(row["actor"], row["action"]) for row in rows]
    assert actions == [("owner", "login"), ("'=1+1 <b>ann</b>", "study.open")]


def test_page_in_a_browser(server: ThreadServer, context: BrowserContext, tmp_path: Path) -> None:
    database = server.database
    set_owner(database)
    with database.writing() as session:
        study = list_studies(session)[0]
        for number in range(3):
            record(
                session, Actor("command line: ann"), Action.PARTICIPANT_FORGET, study=study.name,
                about=f"p{number}",
            )  # fmt: skip
    page = context.new_page()
    page.goto(f"{server.url}/owner/login")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button").click()
    page.get_by_role("link", name="Audit log").click()
    rows = page.get_by_role("row")
    expect(rows).to_have_count(5)
    expect(rows.nth(1)).to_contain_text("login")
    with page.expect_download() as download:
        page.get_by_role("link", name="Download .csv").click()
    path = tmp_path / "log.csv"
    download.value.save_as(path)
    assert path.read_text(encoding="utf-8").count("participant.forget") == 3
