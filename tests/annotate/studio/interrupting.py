"""A server that can be killed at any moment, and a browser whose requests get no reply."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from playwright.sync_api import BrowserContext, Page, Route
from sqlalchemy import select

from benchmarks.browsing import answers, free_port, wait_until
from hsfiq.actors import OWNER
from hsfiq.annotate.cookies import signer_of
from hsfiq.db.engine import Database, open_database
from hsfiq.db.studio_tables import Draft
from hsfiq.drafts import Content, change_draft, create_draft, draft_folder, new_content
from tests.annotate.owner.studies_in_progress import PASSWORD, set_owner
from tests.annotate.studio.conftest import StudioClient, fill
from tests.processes import start_with_jobs

LONGEST_SECONDS = 180


@dataclass(frozen=True)
class Place:
    """What `fill` needs of a studio."""

    database: Database


class KillableServer:
    """`hsfiq serve` at an address that stays, over the database of an owner."""

    def __init__(self, folder: Path, url: str = "") -> None:
        self.folder, self.port = folder, free_port()
        self.url = url or f"sqlite:///{folder}/studies.db"
        self.database = open_database(self.url)
        signer_of(self.database)
        set_owner(self.database)
        self.n_drafts = 0
        self.start()

    @classmethod
    def serving(cls, folder: Path, url: str = "") -> Iterator[KillableServer]:
        server = cls(folder, url)
        yield server
        server.kill(signal.SIGTERM)
        server.database.close()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}/owner"

    def start(self) -> None:
        options = ("serve", "--port", str(self.port), "--database", self.url)
        self.process = start_with_jobs(*options, log=self.folder / "server.log")
        wait_until(lambda: answers(self.port, "/healthz"), "hsfiq serve", LONGEST_SECONDS)

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        self.process.send_signal(number)
        self.process.wait()

    def new_draft(self, change: Callable[[Content], Content] = lambda content: content) -> str:
        """The token of a draft that could be opened, with this change."""
        self.n_drafts += 1
        name = f"study-{self.n_drafts}"
        with self.database.writing() as session:
            token = create_draft(session, OWNER, new_content(name, name)).token
        fill(cast("StudioClient", Place(self.database)), token)
        with self.database.writing() as session:
            change_draft(session, token, OWNER, change)
        return token

    def folder_of(self, token: str) -> Path:
        return draft_folder(self.database, token)

    def content(self, token: str) -> Content:
        with self.database.reading() as session:
            stored = session.scalar(select(Draft.content).where(Draft.token == token))
        return Content.model_validate(stored)

    def wait_for(self, token: str, text: str) -> None:
        """Wait until a draft has a text, as it is in JSON."""

        def is_there() -> bool:
            return text in json.dumps(self.content(token).model_dump(), ensure_ascii=False)

        wait_until(is_there, f"{text} in the draft", LONGEST_SECONDS)


def log_in(context: BrowserContext, server: KillableServer) -> None:
    given = {"name": "owner", "password": PASSWORD}
    reply = context.request.post(f"{server.address}/login", form=given, max_redirects=0)
    assert reply.status == 303


def at(context: BrowserContext, address: str) -> Page:
    """A page in a new tab, with everything in it unfolded."""
    page = context.new_page()
    page.goto(address)
    unfold(page)
    return page


def unfold(page: Page) -> None:
    page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")


def lose_reply(page: Page, server: KillableServer | None = None) -> None:
    """Let the next act be performed without a reply; a server is killed before it could send it."""
    lost: list[Route] = []

    def handle(route: Route) -> None:
        if route.request.method != "POST" or lost:
            route.fallback()
            return
        lost.append(route)
        route.fetch()
        if server is not None:
            server.kill()
        route.abort()
        page.unroute("**/*", handle)

    page.route("**/*", handle)


def keep_as_it_is(page: Page) -> None:
    """Let a page not refresh itself."""

    def handle(route: Route) -> None:
        is_refresh = route.request.method == "GET" and route.request.resource_type == "fetch"
        (route.abort if is_refresh else route.fallback)()

    page.route("**/*", handle)


def until(page: Page, is_ready: Callable[[], bool], name: str) -> None:
    """Wait for a condition while the requests of the page are handled."""

    def is_ready_now() -> bool:
        page.wait_for_timeout(100)
        return is_ready()

    wait_until(is_ready_now, name, LONGEST_SECONDS)
