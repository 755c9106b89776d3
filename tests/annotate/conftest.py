"""A small study, a browser's HTTP client for it, and a real browser."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from playwright.sync_api import (
    Browser,
    BrowserContext,
    Page,
    Route,
    TimeoutError,  # noqa: A004 (its name there)
    ViewportSize,
    expect,
)

from hsfiq.annotate.app import build_app
from hsfiq.db.engine import Database, open_database
from tests.annotate.question_page import OpenPage
from tests.annotate.served_studies import (
    Place,
    PlaceOfKind,
    ReusedStudy,
    Serve,
    Server,
    ServeStudy,
    ThreadServer,
    Visit,
    browser_of,
    enrol,
    make_study,
    newcomer,
    plain_browser,
)
from tests.browser import TIMEOUT_MS, new_context_of

expect.set_options(timeout=TIMEOUT_MS)

FIRST_TRY_MS = 30_000


@pytest.fixture(scope="session")
def usual_study(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """The usual study, made once: tests copy its database and share its images."""
    place = Place(tmp_path_factory.mktemp("study"))
    make_study(place, image_width=300).close()
    return place


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.fixture(scope="session")
def reused_study(usual_study: Place, tmp_path_factory: pytest.TempPathFactory) -> ReusedStudy:
    """The copy of the usual study that the tests of this process use in turn."""
    return ReusedStudy(usual_study, tmp_path_factory.mktemp("reused"))


@pytest.fixture
def copied(reused_study: ReusedStudy) -> Place:
    """The usual study, in its first state."""
    reused_study.restore()
    return reused_study.place


@pytest.fixture
def database(reused_study: ReusedStudy, copied: Place) -> Database:
    """The usual study, open."""
    return reused_study.database


@pytest.fixture
def app(reused_study: ReusedStudy, database: Database) -> FastAPI:
    """The app of the usual study; modules that do not need Gradio use `plain_app` instead."""
    return reused_study.app


@pytest.fixture
def new_browser(app: FastAPI) -> Iterator[TestClient]:
    """A browser without a cookie."""
    with browser_of(app) as client:
        yield client


@pytest.fixture
def annotator(new_browser: TestClient, database: Database) -> TestClient:
    """A browser that has reached the first question."""
    return enrol(new_browser, database)


@pytest.fixture
def visit(place: Place) -> Iterator[Visit]:
    """A new browser for a study made for the test, and the study's database."""
    with ExitStack() as opened:

        def start(**options: Any) -> tuple[TestClient, Database]:
            database = make_study(place, **options)
            opened.callback(database.close)
            return plain_browser(database), database

        yield start


# ------------------------------------------------------------------------------ a real browser


@contextmanager
def running(server: ThreadServer) -> Iterator[ThreadServer]:
    server.start()
    yield server
    server.stop()


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Serve a study for the length of a test."""
    with ExitStack() as servers:

        def start(place: Place) -> ThreadServer:
            database = open_database(place.url)
            server = ThreadServer(place, database, build_app(database))
            return servers.enter_context(running(server))

        yield start


@pytest.fixture
def serve_study(place: Place, serve: Serve) -> ServeStudy:
    """Make a study with these options, and serve it for the length of a test."""

    def start(**options: Any) -> ThreadServer:
        make_study(place, **options).close()
        return serve(place)

    return start


@pytest.fixture
def server(reused_study: ReusedStudy, copied: Place) -> Iterator[ThreadServer]:
    """The usual study, served."""
    with running(reused_study.server()) as server:
        yield server


@pytest.fixture
def process_server(copied: Place) -> Iterator[Server]:
    """The usual study, served by a process that can be killed."""
    server = Server(copied)
    server.start()
    yield server
    server.kill()


@pytest.fixture
def server_of_kind(database_url: str, tmp_path: Path) -> Iterator[Server]:
    """A study on each kind of database, served by a process that can be killed."""
    place = PlaceOfKind(tmp_path / "study", database_url)
    make_study(place).close()
    server = Server(place)
    server.start()
    yield server
    server.kill()


def requests_to_other_hosts(home: str, address: str) -> list[str]:
    """The address as a list if it belongs to another host, else an empty list."""
    return [] if address.startswith((f"{home}/", "data:", "blob:")) else [address]


def go_to(page: Page, address: str) -> None:
    """Open an address, a second time if the first does not end.

    Chromium may send the request on a connection that it has opened to the server of an earlier
    test at this address, and that nobody reads any more.
    """
    try:
        page.goto(address, timeout=FIRST_TRY_MS)
    except TimeoutError:
        page.goto(address)


@pytest.fixture
def open_page(chromium: Browser, context: BrowserContext) -> Iterator[OpenPage]:
    """A new participant's page; checks that no script fails and no other host is requested.

    It is at the first question, or at the participant's position after following their link.
    `images` handles the requests for images: it may block, delay or replace them. With
    `is_clock_stopped`, tests move the page's clock on. The first page of a test is in the reused
    context, unless the test changes more than the size of the window.
    """
    errors: list[str] = []
    contexts: list[BrowserContext] = []
    unused = [context]

    def begin(
        server: ThreadServer | Server,
        width: int = 1280,
        height: int = 720,
        *,
        is_ready: bool = True,
        is_clock_stopped: bool = False,
        images: Callable[[Route], None] | None = None,
        **options: Any,
    ) -> Page:
        viewport: ViewportSize = {"width": width, "height": height}
        if unused and not (options or images or is_clock_stopped):
            page = unused.pop().new_page()
            page.set_viewport_size(viewport)
        else:
            contexts.append(new_context_of(chromium, viewport=viewport, **options))
            page = contexts[-1].new_page()
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on(
            "request",
            lambda request: errors.extend(requests_to_other_hosts(server.url, request.url)),
        )
        if is_clock_stopped:
            page.clock.install()
        if images is not None:
            page.route("**/image/*", images)
        go_to(page, f"{server.url}/start/{newcomer(server.place, is_ready=is_ready)}")
        page.locator('.page:not([data-step="loading"])').wait_for()
        if images is None:
            expect(page.locator(".next.waiting")).to_have_count(0)
        return page

    yield begin
    for own in contexts:
        own.close()
    assert errors == []


@pytest.fixture
def page(server: ThreadServer, open_page: OpenPage) -> Page:
    """The page of a new participant of the usual study."""
    return open_page(server)
