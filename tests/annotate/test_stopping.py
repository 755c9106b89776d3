"""A server that a signal stops leaves one file with every answer."""

from __future__ import annotations

import shutil
import signal
import sqlite3
import stat
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from unittest.mock import patch

import httpx
import pytest

from hsfiq.demo.study import DATABASE_FILE
from tests.annotate.page_requests import answer_body, view
from tests.annotate.served_studies import Place, Server, newcomer
from tests.processes import run_command_line

MOST_REVISIONS = 2000
"""So that the test ends even if the server does not."""


@contextmanager
def browser(server: Server) -> Iterator[httpx.Client]:
    """A participant's browser at the first question."""
    with httpx.Client(base_url=server.url, timeout=60, trust_env=False) as client:
        assert client.get(f"/start/{newcomer(server.place)}").status_code == 303
        yield client


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


def revise(server: Server) -> int:
    """Revise one answer until the server stops; return how many revisions were acknowledged."""
    acknowledged = 0
    with browser(server) as client, suppress(httpx.TransportError):
        shown = view(client)
        while acknowledged < MOST_REVISIONS:
            reply = client.post("/submit", json=answer_body(shown, f"{acknowledged:016}"))
            assert reply.status_code == 200, reply.text
            acknowledged += 1
            shown = view(client, 1)
    return acknowledged


@pytest.mark.slow
def test_the_main_file_alone_has_every_acknowledged_answer_after_a_stop(
    process_server: Server, tmp_path: Path
) -> None:
    place, n_browsers = process_server.place, 2
    with ThreadPoolExecutor(n_browsers) as pool:
        counts = [pool.submit(revise, process_server) for _ in range(n_browsers)]
        while answers_in(place.file) < 10 and not any(count.done() for count in counts):
            time.sleep(0.05)
        assert process_server.stop(signal.SIGTERM) == 0
        acknowledged = sum(count.result() for count in counts)
    # The acknowledgement of an answer may be lost on its way.
    assert acknowledged <= answers_in_main_file(place.file, tmp_path) <= acknowledged + n_browsers
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
