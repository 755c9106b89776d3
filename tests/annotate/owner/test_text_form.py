"""The dashboard's form that corrects texts and codes, over HTTP."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import select

from hsfiq.annotate.owner import study_pages
from hsfiq.db.engine import Database
from hsfiq.db.tables import Study
from hsfiq.errors import Busy
from tests.annotate.owner.studies_in_progress import log_in, set_owner
from tests.annotate.reused_study import ReusedStudy
from tests.annotate.served_studies import browser_of

PATH = "/owner/texts/1/edit"
FIELD = re.compile(
    r'<input (?:type="hidden" )?name="([^"]+)" value="([^"]*)"'
    r'|<textarea name="([^"]+)"[^>]*>\n(.*?)</textarea>',
    re.DOTALL,
)


@pytest.fixture
def owner(reused_study: ReusedStudy, database: Database) -> Iterator[TestClient]:
    set_owner(database)
    with browser_of(reused_study.app) as client:
        assert log_in(client).status_code == 303
        yield client


def content(page: str) -> dict[str, str]:
    """The values of a page's form."""
    return {
        name or area: unescape(value if name else text)
        for name, value, area, text in FIELD.findall(page)
    }


def send(client: TestClient, values: dict[str, str], action: str) -> tuple[int, str]:
    files = {name: (None, value) for name, value in {**values, "action": action}.items()}
    response = client.post(PATH, files=files)
    return response.status_code, unescape(response.text)


def title_of(database: Database) -> tuple[str, int | None]:
    with database.reading() as session:
        study = session.scalars(select(Study)).one()
        return study.title, study.text_version


def test_changes_are_shown_before_they_are_stored(owner: TestClient, database: Database) -> None:
    form = content(owner.get(PATH).text)
    title, version = title_of(database)
    assert (form["text:study.title"], form["version"]) == (title, "1")
    changed = form | {"text:study.title": "Which <b>set</b>?", "text:study.guidelines": "# New"}
    status, page = send(owner, changed, "preview")
    assert (status, title_of(database)) == (200, (title, version))
    assert f"study.title:\n  -{title}\n  +Which <b>set</b>?" in page
    again = content(owner.post(PATH, files={n: (None, v) for n, v in changed.items()}).text)
    assert send(owner, again, "edit")[1].count("# New") == 1
    assert send(owner, again, "store")[0] == 303
    assert title_of(database) == ("Which <b>set</b>?", 2)
    history = unescape(owner.get("/owner/texts/1").text)
    assert "+Which <b>set</b>?" in history
    assert 'href="1/edit"' in history


def test_a_form_that_was_not_changed_changes_nothing(owner: TestClient) -> None:
    _, page = send(owner, content(owner.get(PATH).text), "preview")
    assert "No text or code differs." in page
    assert 'value="store"' not in page


def test_wrong_texts_and_conflicts_store_nothing(owner: TestClient, database: Database) -> None:
    before = title_of(database)
    form = content(owner.get(PATH).text)
    status, page = send(owner, form | {"text:study.set_names": "a\na"}, "store")
    assert status == 422
    assert "study.set_names: must be two different names" in page
    assert content(page)["text:study.set_names"] == "a\na"
    status, page = send(owner, form | {"version": "7", "text:study.title": "Mine"}, "store")
    assert (status, title_of(database)) == (409, before)
    assert "the texts are now version 1" in page
    assert content(page)["text:study.title"] == "Mine"
    for version in ("9" * 5_000, "-1", "x", ""):
        assert send(owner, form | {"version": version}, "store")[0] == 409
    assert title_of(database) == before


def test_a_locked_database_is_told_as_on_every_page(
    owner: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    form = content(owner.get(PATH).text) | {"text:study.title": "Mine"}

    def locked(*_: object) -> None:
        raise Busy("the database is busy; please try again")

    monkeypatch.setattr(study_pages, "perform_edit", locked)
    files = {name: (None, value) for name, value in {**form, "action": "store"}.items()}
    answer = owner.post(PATH, files=files)
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "5")


def test_only_the_owners_own_page_reaches_the_form(
    owner: TestClient, reused_study: ReusedStudy, database: Database
) -> None:
    files = {"action": (None, "store"), "text:study.title": (None, "Mine")}
    before = title_of(database)
    with browser_of(reused_study.app) as stranger:
        assert stranger.get(PATH).status_code == 401
        assert stranger.post(PATH, files=files).status_code == 401
    for headers in ({"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}):
        assert owner.post(PATH, files=files, headers=headers).status_code == 403
    assert owner.get("/owner/texts/999/edit").status_code == 404
    assert owner.post("/owner/texts/999/edit", files=files).status_code == 404
    with database.writing() as session:
        session.scalars(select(Study)).one().origin = "imported"
    assert "edit" not in owner.get("/owner/texts/1").text.split("</h1>")[1]
    assert owner.get(PATH).status_code == 404
    assert title_of(database) == before
