"""Starting the server on an address that cannot be used, and what runs in it all the time."""

from __future__ import annotations

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import gradio
import pytest
from fastapi import FastAPI
from gradio.routes import App
from starlette.routing import Mount

from hsfiq.annotate.app import build_app
from hsfiq.cli import run
from hsfiq.db.engine import Database
from tests.annotate.served_studies import Place


def test_a_taken_port_is_reported_in_one_line(
    copied: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        assert run(["serve", "--port", str(port), "--database", copied.url]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert lines[-1].startswith(f"hsfiq: 127.0.0.1:{port}: cannot be used (Address already")
    assert len(lines) == 2  # the other says where it is going to be


def test_an_address_of_another_machine_is_reported_in_one_line(
    copied: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["serve", "--host", "192.0.2.1", "--database", copied.url]) == 2
    assert "--host: 192.0.2.1 is no address of this machine" in capsys.readouterr().err
    assert run(["serve", "--host", "999.1.1.1", "--database", copied.url]) == 2
    assert "--host: 999.1.1.1 is no address" in capsys.readouterr().err


def test_each_page_has_one_app_of_gradio(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One with all of Gradio's routes takes a tenth of a second, and it would make three."""
    made: list[Any] = []
    create_app = App.create_app

    def counted(*arguments: Any, **options: Any) -> Any:
        made.append(create_app(*arguments, **options))
        return made[-1]

    monkeypatch.setattr(App, "create_app", counted)
    pages = [route for route in build_app(database).routes if isinstance(route, Mount)]
    assert [page.app for page in pages] == made
    assert vars(gradio.blocks)["App"] is App


def test_gradio_looks_for_no_queued_events(app: FastAPI) -> None:
    """Its queues would look a thousand times a second; no event of our pages is queued."""

    def tasks_of_queues() -> list[asyncio.Task[Any]]:
        return [task for task in asyncio.all_tasks() if "Queue." in repr(task.get_coro())]

    async def serve() -> None:
        async with app.router.lifespan_context(app):
            assert tasks_of_queues()  # started by Gradio, they end at once
            while tasks_of_queues():
                await asyncio.sleep(0.01)

    # In a thread of its own: the browser of other tests keeps an event loop running in this one.
    with ThreadPoolExecutor(max_workers=1) as thread:
        thread.submit(lambda: asyncio.run(serve())).result()
