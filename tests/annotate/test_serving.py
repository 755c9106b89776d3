"""Starting the server on an address that cannot be used, and what runs in it all the time."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import httpx
import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from gradio.routes import App
from starlette.routing import Mount

from hsfiq.annotate.app import build_app
from hsfiq.annotate.gradio_page import GradioPage
from hsfiq.cli import run
from hsfiq.db.engine import Database
from tests.annotate.served_studies import Place, gradio_page

T = TypeVar("T")


def test_a_taken_port_is_reported_in_one_line(
    copied: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        assert run(["serve", "--port", str(port), "--database", copied.url]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"hsfiq: 127.0.0.1:{port}: cannot be used (Address already")


def test_an_address_of_another_machine_is_reported_in_one_line(
    copied: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["serve", "--host", "192.0.2.1", "--database", copied.url]) == 2
    assert "--host: 192.0.2.1 is no address of this machine" in capsys.readouterr().err
    assert run(["serve", "--host", "999.1.1.1", "--database", copied.url]) == 2
    assert "--host: 999.1.1.1 is no address" in capsys.readouterr().err


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The apps that Gradio makes."""
    apps: list[Any] = []
    create_app = App.create_app

    def counted(*arguments: Any, **options: Any) -> Any:
        apps.append(create_app(*arguments, **options))
        return apps[-1]

    monkeypatch.setattr(App, "create_app", counted)
    return apps


def dashboard_of(app: FastAPI) -> GradioPage:
    """The app's only page of Gradio."""
    (mount,) = [route for route in app.routes if isinstance(route, Mount)]
    return gradio_page(mount)


def test_the_dashboard_is_made_when_it_is_first_needed(database: Database, made: list[Any]) -> None:
    app = build_app(database)
    with TestClient(app) as client:
        assert client.get("/").status_code == 200
        assert made == []


def test_requests_at_once_make_the_dashboard_once(database: Database, made: list[Any]) -> None:
    page = dashboard_of(build_app(database))

    async def request() -> int:
        transport = httpx.ASGITransport(app=page)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            return (await client.get("/config")).status_code

    async def request_at_once() -> list[int]:
        return await asyncio.gather(*(request() for _ in range(5)))

    assert run_apart(request_at_once()) == [401] * 5
    assert made[-1] is page.app
    n_made = len(made)
    assert run_apart(request_at_once()) == [401] * 5
    assert len(made) == n_made


@pytest.mark.parametrize("is_made_before", [False, True])
def test_gradio_looks_for_no_queued_events(database: Database, *, is_made_before: bool) -> None:
    """Its queues would look a thousand times a second; no event of our pages is queued."""
    app = build_app(database)
    page = dashboard_of(app)
    if is_made_before:
        assert page.app

    def tasks_of_queues() -> list[asyncio.Task[Any]]:
        return [task for task in asyncio.all_tasks() if "Queue." in repr(task.get_coro())]

    async def serve() -> None:
        async with app.router.lifespan_context(app):
            await page.events()
            assert tasks_of_queues()  # started by Gradio, they end at once
            while tasks_of_queues():
                await asyncio.sleep(0.01)

    run_apart(serve())


def run_apart(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run it in a thread: the browser of other tests keeps an event loop running in this one."""
    with ThreadPoolExecutor(max_workers=1) as thread:
        return thread.submit(asyncio.run, coroutine).result()
