"""A small study, a browser's HTTP client for it, and a real browser."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from annotate_studies import NearServer, Place, Server, enrol, make_study
from fastapi.testclient import TestClient
from playwright.sync_api import Browser, Page

from annotate.app import build_app
from hsfiq.database import Database, open_database


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """The usual study, made once: tests take copies of its database and share its images."""
    place = Place(tmp_path_factory.mktemp("study"))
    make_study(place).close()
    return place


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.fixture
def copied(made: Place, place: Place) -> Place:
    """The usual study in a database of the test's own."""
    shutil.copyfile(made.file, place.file)
    return place


@pytest.fixture
def database(copied: Place) -> Iterator[Database]:
    """The usual study, open."""
    opened = open_database(copied.url)
    yield opened
    opened.close()


@pytest.fixture
def stranger(database: Database) -> Iterator[TestClient]:
    """A browser that has no cookie yet."""
    with TestClient(build_app(database), follow_redirects=False) as client:
        yield client


@pytest.fixture
def annotator(stranger: TestClient, database: Database) -> TestClient:
    """A browser that has pressed Begin."""
    return enrol(stranger, database)


# ------------------------------------------------------------------------------ a real browser


@pytest.fixture
def serve() -> Iterator[Callable[[Place], NearServer]]:
    """Serve a study for the length of a test."""
    servers: list[NearServer] = []

    def start(place: Place) -> NearServer:
        servers.append(NearServer(place))
        servers[-1].start()
        return servers[-1]

    yield start
    for server in servers:
        server.stop()


@pytest.fixture
def server(copied: Place, serve: Callable[[Place], NearServer]) -> NearServer:
    """The usual study, served."""
    return serve(copied)


@pytest.fixture
def far_server(copied: Place) -> Iterator[Server]:
    """The usual study, served by a process that can be killed."""
    server = Server(copied)
    server.start()
    yield server
    server.kill()


def elsewhere(home: str, address: str) -> list[str]:
    """The address, if it is another site's: the page tells nobody that it is open."""
    return [] if address.startswith((f"{home}/", "data:", "blob:")) else [address]


@pytest.fixture
def open_page(chromium: Browser) -> Iterator[Callable[..., Page]]:
    """A new participant's page, past the guidelines; no script fails, no other site is asked."""
    errors: list[str] = []
    contexts = []

    def begin(server: NearServer | Server, width: int = 1280, height: int = 720) -> Page:
        context = chromium.new_context(viewport={"width": width, "height": height})
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("request", lambda request: errors.extend(elsewhere(server.url, request.url)))
        page.goto(server.url)
        page.get_by_role("button", name="Begin").click()
        page.get_by_role("dialog", name="Guidelines").wait_for()
        page.keyboard.press("Enter")
        return page

    yield begin
    for context in contexts:
        context.close()
    assert errors == []
