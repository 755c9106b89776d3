"""`make demo` in a fresh checkout: answered in Chromium, killed, and started again."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect
from sqlalchemy import text

from benchmarks.browsing import free_port
from hsfiq.db.engine import open_database
from tests.annotate.question_page import (
    answer,
    answer_practice,
    expect_step,
    press_next_when_ready,
)
from tests.browser import TIMEOUT_MS
from tests.studies import ROOT

expect.set_options(timeout=TIMEOUT_MS)

INSTALLING, STARTING = 1500, 600
"""Seconds after which a start that has not answered counts as failed."""


@pytest.mark.browser
@pytest.mark.slow
def test_a_visitor_answers_and_continues_after_a_kill(tmp_path: Path, chromium: Browser) -> None:
    checkout = copy_of_project(tmp_path / "checkout")
    port = free_port()
    context = chromium.new_context(viewport={"width": 1280, "height": 720})
    context.set_default_timeout(STARTING * 1000)
    page = context.new_page()
    with served(checkout, port, INSTALLING):
        page.goto(f"http://127.0.0.1:{port}/")
        page.get_by_role("button", name="Begin").click()
        practise(page)
        expect_step(page, "question", "1 / 20")
        answer(page)
        expect_step(page, "question", "2 / 20")
    rows = answers(checkout)
    assert rows == [(4, 2, 1)]
    with served(checkout, port, STARTING):
        page.goto(f"http://127.0.0.1:{port}/study/")
        expect_step(page, "question", "2 / 20")
        answer(page)
        expect_step(page, "question", "3 / 20")
    assert len(answers(checkout)) == 2
    context.close()


def practise(page: Page) -> None:
    """Give consent, read the guidelines, and answer the practice question."""
    page.get_by_role("button", name="I agree to take part").click()
    page.get_by_role("dialog", name="Guidelines").wait_for()
    page.keyboard.press("Enter")
    answer_practice(page)
    press_next_when_ready(page)
    page.keyboard.press("Enter")


def answers(checkout: Path) -> list[tuple[int, int, int]]:
    database = open_database(f"sqlite:///{checkout}/hsfiq-demo/hsfiq.db")
    with database.reading() as session:
        rows = session.execute(text("select score_1, score_2, preferred from responses")).all()
    database.close()
    return [tuple(row) for row in rows]


def copy_of_project(folder: Path) -> Path:
    """Copy the files that git tracks or would track: a checkout with nothing built."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT, check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_symlink() or (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name, follow_symlinks=False)
    return folder


@contextmanager
def served(checkout: Path, port: int, timeout: float) -> Iterator[None]:
    """Run `make demo` within the block, then kill all its processes."""
    process = subprocess.Popen(
        ["make", "demo", f"ARGS=--port {port}"],
        cwd=checkout, start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    try:
        wait_for(f"http://127.0.0.1:{port}/", process, timeout)
        yield
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def wait_for(address: str, process: subprocess.Popen[bytes], timeout: float) -> None:
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        if process.poll() is not None:
            output = process.stdout.read().decode() if process.stdout else ""
            pytest.fail(f"make demo ended: {output[-2000:]}")
        try:
            with urllib.request.urlopen(address) as response:
                assert response.status == 200
                return
        except (urllib.error.URLError, ConnectionError):
            time.sleep(0.2)
    pytest.fail(f"{address} did not answer within {timeout} s")
