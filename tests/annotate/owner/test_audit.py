"""The audit log of the studio: what each route records, its page and its file."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from playwright.sync_api import BrowserContext, expect

from hsfiq import access
from hsfiq.actors import NOBODY, OWNER, Action, Actor, Role
from hsfiq.audit import Selection, entries, facts, record
from hsfiq.collect import participants
from hsfiq.collect.owner import perform_edit, prepare_edit
from hsfiq.collect.studies import find_study, list_studies
from hsfiq.db.engine import Database
from hsfiq.study.config import config_of
from tests.annotate.owner.studies_in_progress import (
    PASSWORD,
    log_in,
    set_owner,
)
from tests.annotate.served_studies import ThreadServer, browser_of
from tests.annotate.test_routes import paths_of
from tests.studies import NOW, Seat

RECORDED = {
    ("POST", "/owner/login"): Action.LOGIN,
    ("POST", "/owner/logout"): Action.LOGOUT,
    ("POST", "/owner/accounts"): Action.ACCOUNT_INVITE,
    ("GET", "/owner/preview/{study_id}"): Action.STUDY_PREVIEW,
    ("GET", "/owner/audit/{study_id}/{file_format}"): Action.AUDIT_EXPORT,
    ("GET", "/owner/study/{study_id}/{table}.csv"): Action.DATA_EXPORT,
}
"""Requests that change or take out data."""

ACTS = {
    ("links", "2"): (Action.STUDY_INVITE, "2 invitations"),
    ("send", "p1"): (Action.STUDY_MESSAGE, "p1"),
    ("send", ""): (Action.STUDY_MESSAGE, "everybody"),
    ("person", "pause"): (Action.PARTICIPANT_PAUSE, "p1"),
    ("person", "resume"): (Action.PARTICIPANT_RESUME, "p1"),
    ("status", "pause"): (Action.STUDY_PAUSE, ""),
    ("status", "open"): (Action.STUDY_OPEN, ""),
}
"""What the page Recruiting does, with a value that it is sent."""

READING = {
    "/owner", "/owner/", "/owner/board", "/owner/board/", "/owner/accounts", "/owner/login",
    "/owner/link/{token}", "/owner/leaderboard/{study_id}", "/owner/upload",
    "/owner/image/{token}", "/owner/image/{token}/full", "/owner/files/{version}/{name}",
    *(f"/owner/study/{{study_id}}/{page}" for page in (
        "watch", "results", "history", "recruiting", "setup",
        "report/{job_id}/{path:path}", "release/{file}", "pay.csv", "texts",
    )),
    *(f"/owner/draft/{{token}}/{page}" for page in (
        "images", "systems", "question", "design", "people", "launch", "study.toml",
        "image/{name:path}", "rows.csv", "rehearsal/{path:path}", "preview", "texts/{tag}.json",
    )),
}  # fmt: skip
"""What the owner looks at, which is not recorded, or what was recorded when it was made."""

ACTING = {
    "/owner/", "/owner/link/{token}", "/owner/draft/{token}/upload",
    "/owner/draft/{token}/links.csv",
    *(f"/owner/study/{{study_id}}/{page}" for page in (
        "watch", "results", "history", "recruiting", "texts",
    )),
    *(f"/owner/draft/{{token}}/{page}" for page in (
        "images", "systems", "question", "design", "people", "launch",
    )),
}  # fmt: skip
"""Where acts are sent, which the tests of each page look for in the log."""

PERSON, MESSAGE = "5f8e0c1d2e3f405162738495", "please hurry"


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
    listed = {("GET", path) for path in READING} | {("POST", path) for path in ACTING}
    assert routes == RECORDED.keys() | listed


def requested(client: TestClient, method: str, path: str) -> int:
    """The status of a request that does what the route is for."""
    place = path.format(study_id=1, file_format="jsonl", table="people")
    data = {"password": PASSWORD}
    if path == "/owner/accounts":
        data = {"action": "invite", "name": "Kim", "role": "analyst"}
    sent = client.get(place) if method == "GET" else client.post(place, data=data)
    return int(sent.status_code)


def test_each_change_and_download_is_recorded(
    owner: TestClient, database: Database, study: str
) -> None:
    about = {Action.ACCOUNT_INVITE: "kim: analyst", Action.DATA_EXPORT: "people: 1 row"}
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


def test_each_act_is_recorded(owner: TestClient, database: Database, study: str) -> None:
    for (name, value), (action, about) in ACTS.items():
        before = log(database)
        given = {"act": name, "to": value, "count": value, "person": "p1", "text": MESSAGE}
        assert owner.post("/owner/study/1/recruiting", json=given).status_code == 200
        (entry,) = log(database)[len(before) :]
        assert (entry["actor"], entry["action"]) == (OWNER.name, action)
        assert (entry["study"], entry["about"]) == (study, about)
    text = json.dumps(log(database))
    assert PERSON not in text
    assert MESSAGE not in text


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
        assert client.get("/owner/study/1/people.csv").status_code == 200
        assert client.get("/owner/audit/1/csv").status_code == 403
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
    for path in ("/owner/study/1/people.csv", "/owner/audit/1/csv"):
        with pytest.raises(Exception, match="no more"):
            owner.get(path)
    assert log(database) == before


def test_page_and_file_show_the_study(owner: TestClient, database: Database, study: str) -> None:
    with database.writing() as session:
        record(session, Actor("=1+1 <b>ann</b>"), Action.STUDY_OPEN, study=study)
        record(session, OWNER, Action.STUDY_PAUSE, study=study)
        record(session, OWNER, Action.STUDY_CLOSE, study="another")
    page = owner.get("/owner/study/1/history").text
    assert "&lt;b&gt;ann&lt;/b&gt;" in page
    assert page.index("study.pause") < page.index("study.open")  # newest first
    assert "another" not in page
    for path in ("99/csv", "1/pdf"):
        assert owner.get(f"/owner/audit/{path}").status_code == 404
    response = owner.get("/owner/audit/1/csv")
    name = f'attachment; filename="audit-{study}'
    assert response.headers["Content-Disposition"].startswith(name)
    rows = csv.DictReader(io.StringIO(response.text))
    actions = [(row["actor"], row["action"]) for row in rows]
    assert actions == [
        ("owner", "login"), ("'=1+1 <b>ann</b>", "study.open"), ("owner", "study.pause"),
    ]  # fmt: skip


def test_the_versions_of_the_texts_are_on_the_page(
    owner: TestClient, database: Database, study: str
) -> None:
    with database.writing() as session:
        row = find_study(session, study)
        assert row is not None
        config = config_of(row)
        wanted = replace(config, study=replace(config.study, title="Which <b>set</b>?"))
        perform_edit(session, prepare_edit(row, wanted, row.text_version), NOW)
    text = unescape(owner.get("/owner/study/1/history").text)
    assert "+Which <b>set</b>?" in text
    assert "Version 2, " in text
    assert "2 answers" in text


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
    page.get_by_role("link", name="Watch").click()
    page.get_by_role("link", name="History").click()
    rows = page.get_by_role("row")
    expect(rows).to_have_count(4)
    expect(rows.nth(1)).to_contain_text("participant.forget")
    with page.expect_download() as download:
        page.get_by_role("link", name="CSV of this table").click()
    path = tmp_path / "log.csv"
    download.value.save_as(path)
    assert path.read_text(encoding="utf-8").count("participant.forget") == 3
