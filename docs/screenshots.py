"""Pictures of every page of the annotation app: `python -m docs.screenshots`.

Serves the demo from a folder of its own and walks through a study in English and in Korean, in a
wide window, light and dark, and in a narrow one.
"""

from __future__ import annotations

import shutil
import socket
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

from hsfiq.annotate.app import build_app, server_settings
from hsfiq.collect import owner, participants
from hsfiq.db.engine import Database, open_database
from hsfiq.db.tables import Participant, Study
from hsfiq.demo.study import database_url, make_study, served_design

DOCS = Path(__file__).parent
FOLDER = DOCS / "screenshots"
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
NAMES = {
    "en": ("Which shop understood you?", ["Shopping Mall 1", "Shopping Mall 2"]),
    "ko": ("어느 쇼핑몰이 더 잘 찾았을까요?", ["쇼핑몰 1", "쇼핑몰 2"]),
}
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
        if path.name == "en-question-light.png":
            shutil.copyfile(path, DOCS / "question.png")
        shrink(path)


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
        title, set_names = NAMES[language]
        study.title = title
        tables["study"] = tables.get("study", {"name": study.name}) | {
            "title": title,
            "languages": [language],
            "set_names": set_names,
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


def main() -> None:
    """Take all pictures anew."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir()
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        database = open_database(database_url(Path(folder)))
        make_study(database, Path(folder), served_design(0), 12, simulated=False)
        names = ("chromium-headless-shell", "chromium", "chromium-browser")
        chromium = next(filter(None, map(shutil.which, names)), None)
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        with served(database) as address:
            for language in LANGUAGES:
                set_up(database, language)
                for look in LOOKS:
                    walk(browser, address, database, language, look)
        browser.close()
        database.close()


if __name__ == "__main__":
    main()
