"""Pictures of every page of the annotation app, and those of the README.

`python -m docs.screenshots` serves the demo from a folder of its own and walks through a study in
English and in Korean, in a wide window, light and dark, and in a narrow one.
`python -m docs.screenshots http://127.0.0.1:7860` takes the picture of a running arena instead
(`make arena`).
"""

from __future__ import annotations

import shutil
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import uvicorn
from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright
from sqlalchemy import select

from hsfiq import access
from hsfiq.analysis.reports.report import report
from hsfiq.annotate.app import build_app, server_settings
from hsfiq.atomic_files import write_report
from hsfiq.collect import owner, participants
from hsfiq.db.engine import Database, open_database
from hsfiq.db.tables import Participant, Study
from hsfiq.demo.study import database_url, make_answered_study, make_study, served_design
from hsfiq.releases.export import export_releases
from hsfiq.study.filters import Filters

DOCS = Path(__file__).parent
FOLDER = DOCS / "screenshots"
PASSWORD = "correct horse battery"  # noqa: S105 (of a database that is deleted)
COLOURS = 256
"""Enough for pictures of pages, and a third of their size."""


@dataclass(frozen=True)
class Look:
    """A window and a colour scheme."""

    name: str
    width: int = 1280
    height: int = 720
    scheme: str = "light"


LOOKS = (Look("light"), Look("dark", scheme="dark"), Look("narrow", 390, 844))
LANGUAGES = ("en", "ko")
TITLES = {"en": "Which results match better?", "ko": "어느 결과가 더 잘 일치할까요?"}
REASON = {
    "en": "The first set keeps the shape and has the colour; the second does not.",
    "ko": "첫째 세트는 모양이 그대로이고 색도 맞지만, 둘째 세트는 그렇지 않습니다.",
}

COUNT_IS = "(count) => document.querySelector('.count').textContent === count"


class Album:
    """Where pictures go, named after language, page and look."""

    def __init__(self, page: Page, language: str, look: Look) -> None:
        self.page, self.language, self.look = page, language, look

    def take(self, name: str) -> None:
        """Take a picture of what is to be seen now."""
        self.page.wait_for_load_state("networkidle")
        self.page.mouse.move(0, 0)
        path = FOLDER / f"{self.language}-{name}-{self.look.name}.png"
        self.page.screenshot(path=path, animations="disabled")
        shrink(path)
        if path.name == "en-question-light.png":
            shutil.copyfile(path, DOCS / "question.png")


def shrink(path: Path) -> None:
    """Make the file small: pages have few colours."""
    with Image.open(path) as picture:
        small = picture.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    small.save(path, optimize=True)


@contextmanager
def served(database: Database) -> Iterator[str]:
    """Serve the app on a free port; its address."""
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = uvicorn.Server(server_settings(build_app(database), "127.0.0.1", port))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started and thread.is_alive():
        time.sleep(0.05)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join()


def set_up(database: Database, language: str) -> None:
    """Let the demo's study show all that a page can hold, in this language."""
    with database.writing() as session:
        study = session.scalars(select(Study)).one()
        tables = dict(study.design)
        study.title = title = TITLES[language]
        tables["study"] = tables.get("study", {"name": study.name}) | {
            "title": title,
            "languages": [language],
        }
        tables["design"] = tables["design"] | {"reason_every": 5, "preference_ties": True}
        tables["recruitment"] = tables.get("recruitment", {}) | {
            "completion_code": "C1QRS2024",
            "completion_url": "https://app.prolific.com/submissions/complete?cc=C1QRS2024",
        }
        study.design, study.ties_allowed = tables, True


def newcomer(database: Database, *, is_ready: bool) -> str:
    """The token of a new participant, who has agreed and practised if they are ready."""
    now = datetime.now(UTC)
    with database.writing() as session:
        study = session.scalars(select(Study)).one()
        participant = participants.enrol(session, study.id, now=now)
        if is_ready:
            participants.consent(participant, now=now)
            participant.practised_at = now
    return participant.token


def forget_all(database: Database) -> None:
    """Make room: what the participants before have left goes to those who come."""
    with database.writing() as session:
        for participant in session.scalars(select(Participant)):
            owner.forget(session, participant)


def press(page: Page, *keys: str) -> None:
    """Press keys one after the other."""
    for key in keys:
        page.keyboard.press(key)


def solve_sum(page: Page) -> None:
    """Type the right result."""
    page.keyboard.type(str(sum(numbers(page.locator(".sum label").inner_text()))))
    press(page, "Enter")


def numbers(text: str) -> tuple[int, int]:
    """The two numbers of a sum."""
    left, right = ("".join(c for c in part if c.isdigit()) for part in text.split("+"))
    return int(left), int(right)


def walk(browser: Browser, address: str, database: Database, language: str, look: Look) -> None:
    """One participant's way, page by page."""
    forget_all(database)
    context = browser.new_context(
        viewport={"width": look.width, "height": look.height},
        color_scheme=look.scheme,  # type: ignore[arg-type]
        reduced_motion="reduce",
        locale=language,
        is_mobile=look.name == "narrow",
        has_touch=look.name == "narrow",
    )
    page = context.new_page()
    album = Album(page, language, look)
    page.goto(address)
    album.take("welcome")
    page.goto(f"{address}/start/nobody")
    album.take("unknown-link")
    page.goto(f"{address}/start/{newcomer(database, is_ready=False)}")
    page.locator(".consent").wait_for()
    album.take("consent")
    page.locator(".agree").click()
    page.locator(".guidelines").wait_for()
    album.take("guidelines")
    press(page, "Enter")
    album.take("practice")
    is_first = page.locator(".set").nth(0).locator('img[src$="/practice-1"]').count()
    right = ("5", "Shift+Digit2", "q") if is_first else ("2", "Shift+Digit5", "w")
    press(page, *right, "Enter")
    album.take("feedback")
    press(page, "Enter")
    answer_all(page, album)
    page.goto(f"{address}/start/{newcomer(database, is_ready=False)}")
    page.locator(".decline").click()
    page.locator(".leave").click()
    page.locator(".farewell").wait_for()
    album.take("declined")
    context.close()


def answer_all(page: Page, album: Album) -> None:
    """From the first question to the thanks."""
    number = 0
    while True:
        page.locator(".page:not(.busy)").wait_for()
        view = page.locator(".page").get_attribute("data-view")
        if view == "done":
            break
        if view == "check":
            album.take("sum")
            solve_sum(page)
            page.locator('.page[data-view="question"]').wait_for()
            continue
        number += 1
        page.locator(".next:not(.waiting)").wait_for()
        count = page.locator(".count").inner_text()
        press(page, "4", "Shift+Digit2", "q")
        if number == 1:
            album.take("question")
            press(page, "z")
            album.take("zoom")
            press(page, "Escape")
        if number == 4:
            press(page, "b")
            page.locator(".notice-action").wait_for()
            album.take("earlier-answer")
            page.locator(".notice-action").click()
            page.wait_for_function(COUNT_IS, arg=count)
        if page.locator(".reason.asked").count():
            press(page, "r")
            page.locator("#hsfiq-reason").fill(REASON[album.language])
            if number == 5:
                album.take("reason")
            press(page, "Escape")
        with page.expect_response("**/submit"):
            press(page, "Enter")
        page.locator(".page:not(.busy)").wait_for()
    album.take("done")


def picture_results(browser: Browser, folder: Path) -> None:
    """The page Watch and the report of a study with 600 simulated answers."""
    database = open_database(database_url(folder))
    make_answered_study(database, folder, 600, 4)
    with database.writing() as session:
        access.set_owner_password(session, access.new_hash(PASSWORD))
    page = browser.new_page(viewport={"width": 1280, "height": 720})
    with served(database) as address:
        page.goto(f"{address}/owner/")
        page.locator("[name=password]").fill(PASSWORD)
        press(page, "Enter")
        page.get_by_role("heading", name="Studies").wait_for()
        page.goto(f"{address}/owner/study/1/watch")
        page.wait_for_load_state("networkidle")
        keep(page, "watch")
    with database.reading() as session:
        study = session.scalars(select(Study)).one()
        *_, hp = export_releases(session, study, ["hp"], Filters(invalid=True), parent=folder)
    database.close()
    write_report(report(hp.folder, []).files(), folder / "report")
    page.goto((folder / "report" / "report.html").as_uri())
    keep(page, "report")
    page.close()


def picture_arena(browser: Browser, address: str) -> None:
    """The two lists of a running arena for a first text."""
    page = browser.new_page(viewport={"width": 1280, "height": 720})
    page.goto(address)
    page.locator("form button").first.click()
    page.locator(".agree").click()
    page.locator(".guidelines").wait_for()
    press(page, "Enter")
    page.locator(".guidelines").wait_for(state="hidden")
    page.locator("#hsfiq-search-text").fill("a red one with long sleeves")
    press(page, "Enter")
    page.get_by_text("Both equally good").first.wait_for()
    keep(page, "arena")
    page.close()


def keep(page: Page, name: str) -> None:
    """A picture in the folder of the documents, as the README shows it."""
    page.wait_for_timeout(1000)  # until the images are painted
    page.screenshot(path=DOCS / f"{name}.png", animations="disabled")
    shrink(DOCS / f"{name}.png")


def main(arena: str | None = None) -> None:
    """Take all pictures anew, or that of a running arena."""
    names = ("chromium-headless-shell", "chromium", "chromium-browser")
    chromium = next(filter(None, map(shutil.which, names)), None)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        if arena is not None:
            picture_arena(browser, arena)
        else:
            picture_all(browser)
        browser.close()


def picture_all(browser: Browser) -> None:
    with tempfile.TemporaryDirectory() as folder:
        picture_results(browser, Path(folder))
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir()
    with tempfile.TemporaryDirectory() as folder:
        database = open_database(database_url(Path(folder)))
        make_study(database, Path(folder), served_design(0), 12, simulated=False)
        with served(database) as address:
            for language in LANGUAGES:
                set_up(database, language)
                for look in LOOKS:
                    walk(browser, address, database, language, look)
        database.close()


if __name__ == "__main__":
    main(*sys.argv[1:2])
