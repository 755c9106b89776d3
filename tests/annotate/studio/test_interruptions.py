"""Reloads, several tabs, lost connections, killed servers: nothing typed is lost or done twice."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from os import urandom
from pathlib import Path
from typing import NamedTuple
from zipfile import ZIP_STORED

import pytest
from playwright.sync_api import BrowserContext, Page, Route, expect
from sqlalchemy import func, select

from hsfiq.collect.participants import by_token
from hsfiq.db.studio_tables import Draft, DraftChange, Job
from hsfiq.db.tables import Participant, Study
from hsfiq.drafts import Content
from hsfiq.uploads import uploads_of
from tests.annotate.studio.interrupting import (
    KillableServer,
    at,
    keep_as_it_is,
    log_in,
    lose_reply,
    until,
)
from tests.annotate.studio.uploading import picture, zip_of

pytestmark = [pytest.mark.browser, pytest.mark.slow]

TITLE = '[data-save="study.title"]'
LOST = "No connection. Try again: nothing is done twice."


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KillableServer]:
    yield from KillableServer.serving(tmp_path_factory.mktemp("server"))


class Field(NamedTuple):
    """A field of a step, what is typed there, and how the draft then has it, as JSON."""

    step: str
    place: str
    typed: str
    stored: str


FIELDS = {
    "name of a system": Field("systems", '[data-by="rename"]', "renamed", '/mine": "renamed"'),
    "title": Field("question", TITLE, "In a hurry", '"title": "In a hurry"'),
    "anchor": Field("question", '[data-save="wording.anchors.0"]', "Left", '"anchors": ["Left"'),
    "extra question": Field(
        "question", '[data-save="questionnaire.at_end.0.text"]', "How old?", '"text": "How old?"'
    ),
    "translation": Field("question", '[data-by="translate"]', "Frage", '"Frage"'),
    "people": Field("design", "#n-people", "7", '"participants": 7'),
    "pay": Field("design", "#n-pay", "12.5", '"per_hour": 12.5'),
    "contact": Field("people", '[data-save="study.contact"]', "a@b.org", '"contact": "a@b.org"'),
    "end": Field("people", '[data-by="end"]', "Thanks a lot", '"Thanks a lot"'),
    "limit": Field(
        *("people", '[data-save="recruitment.enrolments_per_address"]', "30"),
        '"enrolments_per_address": 30',
    ),
    "authors": Field("people", '[data-save="release.authors"]', "A\nB", '["A", "B"]'),
}
ONE_A_STEP = {name: FIELDS[name] for name in ("name of a system", "anchor", "people", "contact")}
each_field = pytest.mark.parametrize("field", ONE_A_STEP.values(), ids=ONE_A_STEP)


def with_all_fields(content: Content) -> Content:
    questions = [{"name": name, "text": f"{name}?", "type": "text"} for name in ("age", "town")]
    values = {"questionnaire.at_end": questions, "study.languages": ["en", "de"]}
    return content.with_values(values).with_value("recruitment.mode", "open")


def enter(page: Page, field: Field, typed: str = "") -> None:
    page.locator(field.place).first.fill(typed or field.typed)


def step_of(server: KillableServer, token: str, step: str) -> str:
    return f"{server.address}/draft/{token}/{step}"


def count(server: KillableServer, table: type, *conditions: object) -> int:
    with server.database.reading() as session:
        rows = session.scalar(select(func.count()).select_from(table).where(*conditions))  # type: ignore[arg-type]
    return rows or 0


# ------------------------------------------------------------------------------- what is typed


def test_what_is_typed_while_the_server_is_away_is_saved_later(
    context: BrowserContext, server: KillableServer
) -> None:
    """In each step, in tabs that stay open and in tabs that are closed meanwhile."""
    log_in(context, server)
    stays, closed = (server.new_draft(with_all_fields) for _ in range(2))
    tabs = [
        (at(context, step_of(server, token, field.step)), token, field)
        for token, fields in ((stays, FIELDS), (closed, ONE_A_STEP))
        for field in fields.values()
    ]
    server.kill()
    for page, token, field in tabs:
        enter(page, field)
        expect(page.locator("#saved")).to_have_text("Not saved yet: no connection")
        if token == closed:
            page.close()
    server.start()
    for page, token, field in tabs:
        if token == stays:
            server.wait_for(token, field.stored)
            expect(page.locator("#saved")).to_contain_text("Saved at")
    home = at(context, server.address)
    for field in ONE_A_STEP.values():
        server.wait_for(closed, field.stored)
    until(home, lambda: not home.evaluate("localStorage.length"), "nothing to send")


@each_field
def test_a_reload_just_after_typing_loses_nothing(
    context: BrowserContext, server: KillableServer, field: Field
) -> None:
    log_in(context, server)
    token = server.new_draft(with_all_fields)
    page = at(context, step_of(server, token, field.step))
    enter(page, field)
    page.reload()
    server.wait_for(token, field.stored)
    expect(page.locator(field.place).first).to_have_value(field.typed)
    page.goto(step_of(server, token, "launch"))
    page.go_back()
    expect(page.locator(field.place).first).to_have_value(field.typed)
    assert count(server, DraftChange, DraftChange.content_before.is_not(None)) > 0


@each_field
def test_a_lost_reply_is_no_change_elsewhere(
    context: BrowserContext, server: KillableServer, field: Field
) -> None:
    log_in(context, server)
    token = server.new_draft(with_all_fields)
    page = at(context, step_of(server, token, field.step))
    lose_reply(page)
    enter(page, field, "5")
    expect(page.locator("#saved")).to_have_text("Not saved yet: no connection")
    enter(page, field)
    expect(page.locator("#saved")).to_contain_text("Saved at")
    server.wait_for(token, field.stored)
    expect(page.get_by_text("Changed elsewhere")).to_have_count(0)


@each_field
def test_an_older_tab_asks_before_it_overwrites(
    context: BrowserContext, server: KillableServer, field: Field
) -> None:
    log_in(context, server)
    token = server.new_draft(with_all_fields)
    older, newer = (at(context, step_of(server, token, field.step)) for _ in range(2))
    enter(newer, field)
    server.wait_for(token, field.stored)
    before = server.content(token)
    enter(older, field, "6")
    expect(older.get_by_text("Changed elsewhere at")).to_be_visible()
    assert server.content(token) == before
    enter(newer, field, "8")  # another refresh of the page keeps the question
    older.get_by_role("button", name="Keep mine").click()
    expect(older.locator("#saved")).to_contain_text("Saved at")


# -------------------------------------------------------------------------------------- buttons


BUTTONS = {
    "add a question": ("question", '[data-act="add-question"]'),
    "remove a question": ("question", '[data-to="away"]'),
    "add a point": ("question", '[data-act="points"][data-by="1"]'),
    "write guidelines": ("question", '[data-act="guidelines"]'),
    "remove a language": ("question", '[data-act="language"][data-tag="de"]'),
    "undo": ("design", '.foot [data-act="undo"]'),
    "remove a system": ("systems", '[data-act="remove-system"]'),
    "remove images": ("images", '[data-name="garments"]'),
}


@pytest.mark.parametrize(("step", "place"), BUTTONS.values(), ids=BUTTONS)
def test_a_button_whose_reply_was_lost_does_nothing_twice(
    context: BrowserContext, server: KillableServer, step: str, place: str
) -> None:
    log_in(context, server)
    token = server.new_draft(with_all_fields)
    page = at(context, step_of(server, token, step))
    before = server.content(token)
    keep_as_it_is(page)
    lose_reply(page)
    button = page.locator(place).first
    button.click()
    expect(page.locator("#said")).to_contain_text(LOST)
    once = server.content(token)
    assert once != before
    button.click()
    expect(page.locator("#said")).not_to_contain_text(LOST)
    expect(page.locator("#said")).not_to_be_empty()
    assert server.content(token) == once


def test_undo_in_a_line_undoes_what_the_line_tells(
    context: BrowserContext, server: KillableServer
) -> None:
    log_in(context, server)
    token = server.new_draft(with_all_fields)
    page = at(context, step_of(server, token, "question"))
    page.locator('[data-to="away"]').first.click()
    expect(page.locator("#said")).to_contain_text("The question was removed.")
    page.locator(TITLE).fill("Typed since")
    server.wait_for(token, '"title": "Typed since"')
    expect(page.locator("#saved")).to_contain_text("Saved at")
    page.locator("#said").get_by_role("button", name="Undo").click()
    expect(page.locator("#said")).to_contain_text("the page has changed in the meantime")
    assert server.content(token).value("study.title") == "Typed since"


def test_a_new_study_is_made_once(context: BrowserContext, server: KillableServer) -> None:
    log_in(context, server)
    home = at(context, server.address)
    before = count(server, Draft)
    lose_reply(home, server)
    home.get_by_role("button", name="New study").click()
    expect(home.locator("#said")).to_contain_text(LOST)
    server.start()
    home.get_by_role("button", name="New study").dblclick()
    home.wait_for_url("**/images")
    assert count(server, Draft) == before + 1


# -------------------------------------------------------------------------------------- uploads

NOISY = zip_of({"a.png": picture(), "noise.txt": urandom(5 * 2**20)}, ZIP_STORED)
FILES = "input[type=file]:not([webkitdirectory])"


def before_part(page: Page, number: int, then: Callable[[Route], None]) -> None:
    """Do something in place of sending a part of an upload for the first time."""
    parts: list[Route] = []

    def handle(route: Route) -> None:
        parts.append(route)
        if len(parts) == number:
            then(route)
        else:
            route.fallback()

    page.route("**/upload?**", handle)


def test_an_upload_goes_on_after_a_kill_a_reload_and_back(
    context: BrowserContext, server: KillableServer, tmp_path: Path
) -> None:
    log_in(context, server)
    archive = tmp_path / "noisy.zip"
    archive.write_bytes(NOISY)
    token = server.new_draft(lambda content: content.without_file("garments"))
    page = at(context, step_of(server, token, "systems"))
    page.on("dialog", lambda dialog: dialog.accept())
    page.goto(step_of(server, token, "images"))

    def received() -> int:
        return sum(upload.received for upload in uploads_of(server.folder_of(token)))

    def killed(route: Route) -> None:
        server.kill()
        route.abort()

    before_part(page, 4, lambda _: None)  # this part never arrives
    page.set_input_files(FILES, archive)
    until(page, lambda: received() == 2 * 2**20, "two parts")
    page.go_back()
    page.unroute_all()
    page.go_forward()
    expect(page.get_by_text("Drop the file again")).to_be_visible()
    before_part(page, 2, killed)
    page.set_input_files(FILES, archive)
    until(page, lambda: server.process.poll() is not None, "the kill")
    assert received() == 2 * 2**20
    page.unroute_all()
    server.start()
    server.wait_for(token, '"name": "noisy.zip", "role": "images"')
    assert received() == 0


def test_two_tabs_that_send_the_same_file_bring_it_once(
    context: BrowserContext, server: KillableServer, tmp_path: Path
) -> None:
    log_in(context, server)
    archive = tmp_path / "noisy.zip"
    archive.write_bytes(NOISY)
    token = server.new_draft()
    tabs = [at(context, step_of(server, token, "images")) for _ in range(2)]
    for page in tabs:
        page.set_input_files(FILES, archive)
    for page in tabs:
        expect(page.get_by_role("button", name="Replace noisy.zip")).to_be_visible()
    names = [file.name for file in server.content(token).files]
    assert (names.count("noisy.zip"), uploads_of(server.folder_of(token))) == (1, [])


# --------------------------------------------------------------------------------------- launch


def launches(server: KillableServer, token: str) -> list[str]:
    of_draft = select(Job.state).join(Draft, Job.draft_id == Draft.id).where(Draft.token == token)
    with server.database.reading() as session:
        return list(session.scalars(of_draft.where(Job.kind == "launch").order_by(Job.id)))


def test_a_study_is_opened_once_and_its_links_are_made_once(
    context: BrowserContext, server: KillableServer
) -> None:
    log_in(context, server)
    token = server.new_draft()
    page, other = (at(context, step_of(server, token, "launch")) for _ in range(2))
    page.get_by_role("button", name="Open the study").dblclick()
    page.reload()
    other.reload()
    other.get_by_role("button", name="Cancel the opening").click()
    expect(other.locator("#said")).to_contain_text("Cancelled")
    expect(page.get_by_role("button", name="Open the study")).to_be_visible()
    assert launches(server, token) == ["stopped"]
    lose_reply(page, server)
    page.get_by_role("button", name="Open the study").click()
    expect(page.locator("#said")).to_contain_text(LOST)
    server.start()
    other.get_by_role("button", name="Open the study").click()
    expect(page.get_by_role("heading", name="The study is open to people")).to_be_visible()
    # The job ends shortly after the page shows what it did.
    until(page, lambda: launches(server, token) == ["stopped", "done"], "second launch")
    name = str(server.content(token).value("study.name"))
    assert count(server, Study, Study.name == name) == 1
    make_links(at(context, step_of(server, token, "people")), server)


def make_links(page: Page, server: KillableServer) -> None:
    button = page.get_by_role("button", name="Make links and download them")
    page.locator("input[name=count]").fill("3")
    lose_reply(page, server)
    button.click()
    expect(page.locator("#said")).to_contain_text(LOST)
    server.start()
    page.reload()
    expect(page.get_by_text("3 links have not been used yet")).to_be_visible()
    with page.expect_download() as saved:
        button.click()
    rows = list(csv.DictReader(saved.value.path().read_text(encoding="utf-8").splitlines()))
    assert len(rows) == count(server, Participant) == 3
    with server.database.reading() as session:
        for row in rows:
            person = by_token(session, row["link"].rpartition("/")[2])
            assert person is not None
            assert person.name == row["participant"]
    with page.expect_download():
        button.click()
    assert count(server, Participant) == 4
