"""Starting and stopping a server, what runs in it all the time, and its backups."""

from __future__ import annotations

import shutil
import signal
import sqlite3
import stat
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import TypeVar
from unittest.mock import patch

import httpx
import pytest
from fastapi.testclient import TestClient
from playwright.sync_api import expect
from sqlalchemy import delete, func, select, update

from hsfiq.backup import back_up, restore
from hsfiq.db.engine import Database, open_database
from hsfiq.db.tables import Participant, Response
from hsfiq.db.types import DIGEST_LENGTH
from hsfiq.demo.study import DATABASE_FILE
from tests.annotate.page_requests import answer_body, view
from tests.annotate.question_page import (
    TEXT,
    OpenPage,
    answer,
    expect_step,
    press,
    press_next_when_ready,
)
from tests.annotate.served_studies import Place, Server, make_study, newcomer, the_one
from tests.processes import run_command_line

T = TypeVar("T")


def beside(file: Path) -> set[str]:
    """The names of a database's files."""
    return {path.name for path in file.parent.glob(f"{file.name}*") if path.is_file()}


def answers_in(file: Path) -> int:
    with closing(sqlite3.connect(file)) as connection:
        return int(connection.execute("SELECT count(*) FROM responses").fetchone()[0])


def answers_in_main_file(file: Path, tmp_path: Path) -> int:
    """How many answers a copy of the main file alone has."""
    copy = tmp_path / "copy.db"
    shutil.copyfile(file, copy)
    return answers_in(copy)


class Reviser(threading.Thread):
    """A participant who revises one answer until the server ends."""

    def __init__(self, server: Server) -> None:
        super().__init__()
        self.server, self.acknowledged = server, 0

    def run(self) -> None:
        address = self.server.url
        with (
            httpx.Client(base_url=address, timeout=60, trust_env=False) as client,
            suppress(httpx.TransportError),
        ):
            client.get(f"/start/{newcomer(self.server.place)}")
            shown = view(client)
            while True:
                body = answer_body(shown, f"{self.acknowledged:016}")
                assert client.post("/submit", json=body).status_code == 200
                self.acknowledged += 1
                shown = view(client, 1)


@pytest.mark.slow
def test_the_main_file_alone_has_every_acknowledged_answer_after_a_stop(
    process_server: Server, tmp_path: Path
) -> None:
    place, revisers = process_server.place, [Reviser(process_server) for _ in range(2)]
    for reviser in revisers:
        reviser.start()
    while answers_in(place.file) < 10 and all(reviser.is_alive() for reviser in revisers):
        time.sleep(0.05)
    assert process_server.stop(signal.SIGTERM) == 0
    for reviser in revisers:
        reviser.join()
    acknowledged = sum(reviser.acknowledged for reviser in revisers)
    # The acknowledgement of an answer may be lost on its way.
    assert acknowledged <= answers_in_main_file(place.file, tmp_path) <= acknowledged + 2
    assert beside(place.file) == {"study.db"}


def run_small_demo() -> None:
    """Do what the installed command does, with fewer garments to draw."""
    with patch("hsfiq.demo.study.GARMENTS_PER_CATEGORY", 40):
        run_command_line()


@pytest.mark.slow
def test_other_signals_stop_the_server_too(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    server = Server(Place(tmp_path), "demo", "--dir", str(folder), command=run_small_demo)
    for number in (signal.SIGINT, signal.SIGHUP):
        server.start()
        modes = {path.name: f"{stat.S_IMODE(path.stat().st_mode):o}" for path in folder.iterdir()}
        assert {modes[f"{DATABASE_FILE}{suffix}"] for suffix in ("", "-wal", "-shm")} == {"600"}
        assert modes[f"{DATABASE_FILE}.thumbnails"] == "700"
        assert server.stop(number) == 0
        assert beside(folder / DATABASE_FILE) == {DATABASE_FILE}
        assert answers_in(folder / DATABASE_FILE) == 0


Restore = Callable[[], None]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A study of its own, because its file is replaced."""
    place = Place(tmp_path / "study")
    make_study(place).close()
    server = Server(place)
    server.start()
    yield server
    server.kill()


@pytest.fixture
def backup(server: Server, tmp_path: Path) -> Callable[[], Restore]:
    """Make a backup of the served study; the result restores it while the pages are open."""

    def make() -> Restore:
        file = tmp_path / "study.backup"
        back_up(server.place.url, file)

        def set_back() -> None:
            server.kill()
            for end in ("", "-wal", "-shm"):
                Path(f"{server.place.file}{end}").unlink(missing_ok=True)
            restore(file, server.place.url)
            server.start()

        return set_back

    return make


def test_a_page_says_that_the_study_was_set_back_and_goes_on(
    server: Server, open_page: OpenPage, backup: Callable[[], Restore]
) -> None:
    page = open_page(server)
    answer(page)
    expect_step(page, "question", "2 / 6")
    set_back = backup()
    answer(page)
    expect_step(page, "question", "3 / 6")
    press(page, "5", "Shift+Digit1", "q", "r")
    page.keyboard.type("The first set is closer.")
    press(page, "Escape")
    set_back()
    press(page, "Enter")
    expect(page.locator(".notice-text")).to_have_text(TEXT["set_back"])
    expect_step(page, "question", "2 / 6")
    answer(page)
    expect_step(page, "question", "3 / 6")
    expect(page.locator(".notice")).to_be_hidden()
    expect(page.locator('input[name="score_1"][value="5"]')).to_be_checked()
    expect(page.locator("#hsfiq-reason")).to_have_value("The first set is closer.")
    press_next_when_ready(page)
    expect_step(page, "check", "3 / 6")


def test_an_answer_to_a_question_that_is_not_reached_any_more_is_refused(
    annotator: TestClient, database: Database
) -> None:
    first = view(annotator)
    assert annotator.post("/submit", json=answer_body(first, "0" * 16)).status_code == 200
    second = answer_body(view(annotator), "1" * 16)
    again = answer_body(view(annotator, 1), "2" * 16)
    with database.writing() as session:
        session.execute(delete(Response))
    for body in (second, again):
        reply = annotator.post("/submit", json=body)
        assert (reply.status_code, reply.json()["set_back"]) == (403, True)
    assert view(annotator)["number"] == 1


def test_a_browser_whose_participants_are_not_stored_is_told_so(
    annotator: TestClient, database: Database
) -> None:
    body = answer_body(view(annotator), "0" * 16)
    with database.writing() as session:
        session.execute(update(Participant).values(token_hash="0" * DIGEST_LENGTH))
    reply = annotator.post("/submit", json=body)
    assert (reply.status_code, reply.json()["participant_unknown"]) == (401, True)
    assert annotator.get("/question").json()["participant_unknown"]
    annotator.cookies.clear()
    assert "participant_unknown" not in annotator.get("/question").json()


def test_who_began_after_the_backup_is_told_so_and_can_begin_again(
    server: Server, open_page: OpenPage, backup: Callable[[], Restore]
) -> None:
    set_back = backup()
    page = open_page(server)
    press(page, "5", "Shift+Digit1", "q", "r")
    page.keyboard.type("The first set is closer.")
    press(page, "Escape")
    set_back()
    press(page, "Enter")
    notice = page.locator(".notice-text")
    expect(notice).to_contain_text(TEXT["participant_unknown"])
    expect(notice).to_contain_text(TEXT["entered_is_kept"])
    expect(page.locator("#hsfiq-reason")).to_have_value("The first set is closer.")
    page.get_by_role("button", name=TEXT["to_welcome"]).click()
    page.wait_for_url(f"{server.url}/")
    page.goto(f"{server.url}/study/")
    expect(page.locator(".no-access")).to_contain_text(TEXT["participant_unknown"])


def revisions_at(url: str) -> int:
    database = open_database(url)
    count = the_one(database, select(func.count(Response.id))) or 0
    database.close()
    return count


@pytest.mark.slow
def test_a_backup_has_every_answer_acknowledged_before_it_began(
    server_of_kind: Server, kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    server = server_of_kind
    reviser = Reviser(server)
    reviser.start()
    before = 0
    for number in range(3):
        while reviser.acknowledged < before + 5:
            reviser.join(0.01)
            assert reviser.is_alive()
        before, file = reviser.acknowledged, tmp_path / f"{number}.backup"
        assert back_up(server.place.url, file).contents.answers == 1
    server.stop(signal.SIGKILL)
    reviser.join()
    if kind == "sqlite":
        new = f"sqlite:///{tmp_path / 'new.db'}"
    else:
        new = request.getfixturevalue("postgres_server").make()
    restore(file, new)
    assert before <= revisions_at(new) <= reviser.acknowledged + 1
    after = back_up(server.place.url, tmp_path / "after.backup")
    assert after.contents.rows["responses"] >= reviser.acknowledged
