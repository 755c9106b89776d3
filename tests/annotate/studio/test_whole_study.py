"""A study in the browser alone: from an empty database to a report, a pay list and a release.

With `HSFIQ_SCREENSHOTS=DIR`, pictures of every page are kept, 1440 and 390 pixels wide.
"""

from __future__ import annotations

import csv
import io
import os
import re
import signal
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from benchmarks.browsing import free_port
from benchmarks.serving import Annotator
from hsfiq.releases.verify import verify
from tests.annotate.studio.conftest import TITLE, write_own_data
from tests.browser import TIMEOUT_MS
from tests.processes import start_with_jobs

PASSWORD = "a sentence that is long"
WIDE, NARROW = {"width": 1440, "height": 900}, {"width": 390, "height": 844}
PEOPLE = 4


@contextmanager
def new_server(folder: Path) -> Iterator[str]:
    """`hsfiq serve` without a database; what it prints has the link of the first visit."""
    port, log = free_port(), folder / "server.log"
    options = ("serve", "--port", str(port), "--database", f"sqlite:///{folder}/new.db")
    server = start_with_jobs(*options, log=log)
    try:
        yield first_link(log)
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait()


def first_link(log: Path) -> str:
    until = time.monotonic() + TIMEOUT_MS / 1000
    while time.monotonic() < until:
        found = re.search(r"http\S+/owner/link/\S+", log.read_text() if log.exists() else "")
        if found:
            return found[0]
        time.sleep(0.1)
    raise AssertionError(f"no link was printed: {log.read_text()}")


def own_files(folder: Path) -> dict[str, Path]:
    """An archive of images, a table of queries and two files of ranked lists."""
    write_own_data(folder, 24)
    archive = folder / "garments.zip"
    with zipfile.ZipFile(archive, "w") as content:
        for image in sorted((folder / "images").iterdir()):
            content.write(image, image.name)
    return {path.name: path for path in (archive, *folder.glob("*.csv"), *folder.glob("*.json"))}


class Owner:
    """Somebody who sets up a study with the mouse and the keyboard only."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.n_pictures = 0
        pictures = os.environ.get("HSFIQ_SCREENSHOTS")
        self.pictures = Path(pictures) if pictures else None

    def keep(self, name: str) -> None:
        if self.pictures is None:
            return
        self.n_pictures += 1
        for size in (NARROW, WIDE):
            self.page.set_viewport_size({"width": size["width"], "height": size["height"]})
            file = self.pictures / f"{self.n_pictures:02d}-{name}-{size['width']}.png"
            self.page.screenshot(path=file, full_page=True)

    def go_on(self, title: str) -> None:
        self.page.get_by_role("link", name=f"Next: {title}").click()
        expect(self.page.get_by_role("heading", name=title, level=1)).to_be_visible()

    def drop(self, *files: Path) -> None:
        self.page.wait_for_load_state("load")  # the scripts of the page have run
        self.page.wait_for_load_state("networkidle")
        self.page.set_input_files("input[type=file]:not([webkitdirectory])", [*files])

    def enter(self, key: str, value: str) -> None:
        """Fill a field and wait until it is saved."""
        field = self.page.locator(f'[data-save="{key}"]').first
        field.fill(value)
        field.blur()
        expect(self.page.locator("#saved")).to_contain_text("Saved at")


@pytest.mark.browser
@pytest.mark.slow
def test_a_whole_study_without_a_terminal(context: BrowserContext, tmp_path: Path) -> None:
    files = own_files(tmp_path / "own")
    with new_server(tmp_path) as link:
        owner = Owner(context.new_page())
        first_visit(owner, link)
        set_up(owner, files)
        tokens = launch(owner)
        answer(tokens, int(re.findall(r":(\d+)/", link)[0]))
        watch_and_close(owner)
        publish(owner, tmp_path)


def first_visit(owner: Owner, link: str) -> None:
    page = owner.page
    page.goto(link)
    owner.keep("set-up-link")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_label("Enter it again").fill(PASSWORD)
    page.get_by_role("button", name="Set the password").click()
    expect(page.get_by_role("heading", name="Ask people which results they prefer")).to_be_visible()
    owner.keep("first-visit")
    page.get_by_role("button", name="New study").click()


def set_up(owner: Owner, files: dict[str, Path]) -> None:
    page = owner.page
    expect(page.get_by_role("heading", name="Images and queries", level=1)).to_be_visible()
    owner.drop(files["garments.zip"], files["queries.csv"])
    expect(page.get_by_text("All can be shown")).to_be_visible()
    expect(page.get_by_text("All are ready")).to_be_visible()
    owner.keep("images")
    owner.go_on("Systems")
    owner.drop(files["mine.json"], files["theirs.json"])
    expect(page.get_by_label("Name of system 2")).to_be_visible()
    owner.keep("systems")
    owner.go_on("Question")
    owner.enter("study.title", TITLE)
    owner.keep("question")
    owner.go_on("Design")
    page.locator("#n-people").fill(str(PEOPLE))
    page.locator("#n-people").blur()
    expect(page.get_by_role("navigation", name="Steps")).to_contain_text(f"{PEOPLE} people")
    owner.keep("design")
    # There are too few images for it, as the last step would say.
    page.get_by_label("One question with an obvious answer").uncheck()
    owner.go_on("People and consent")
    owner.enter("study.institution", "Example University")
    owner.enter("study.contact", "study@example.org")
    owner.enter("study.ethics", "ERB 2026-1")
    owner.keep("people")
    owner.go_on("Rehearse and launch")


def launch(owner: Owner) -> list[str]:
    """Rehearse, open the study and make links; the links' tokens."""
    page = owner.page
    expect(page.get_by_text("Nothing is missing")).to_be_visible()
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.get_by_role("link", name="Open the report")).to_be_visible()
    owner.keep("rehearsed")
    page.get_by_role("button", name="Open the study").click()
    expect(page.get_by_role("heading", name="The study is open to people")).to_be_visible()
    owner.keep("opened")
    page.get_by_role("main").get_by_role("link", name="People and consent").last.click()
    with page.expect_download() as download:
        page.get_by_role("button", name="Make links and download them").click()
    rows = csv.DictReader(io.StringIO(download.value.path().read_text(encoding="utf-8-sig")))
    return [row["link"].rpartition("/")[2] for row in rows]


def answer(tokens: list[str], port: int) -> None:
    """Everybody who was invited answers all questions."""
    assert len(tokens) == PEOPLE
    for number, token in enumerate(tokens):
        person = Annotator(port, token, Random(number))
        person.enter()
        person.pass_checks()
        while person.view["step"] == "question":
            person.cycle()
            person.pass_checks()
        assert person.is_done
        person.browser.close()


def watch_and_close(owner: Owner) -> None:
    page = owner.page
    page.get_by_role("link", name="Watch").first.click()
    expect(page.get_by_text(f"{PEOPLE} of {PEOPLE}").first).to_be_visible()
    owner.keep("watch")
    page.get_by_role("link", name="p1", exact=True).first.click()
    owner.keep("person")
    # They answered in no time and failed a check, so the page proposes to reject them.
    page.locator('input[name="pay"][value="approve"]').check(force=True)
    page.locator('input[name="answers"][value="count"]').check(force=True)
    page.locator("#do").click()
    expect(page.locator("#said")).to_contain_text("Undo")
    page.once("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name=re.compile(r"Pay \d+ people")).click()
    page.get_by_role("button", name="Close the study").click()
    expect(page.get_by_role("main").get_by_text("closed").first).to_be_visible()
    with page.expect_download() as download:
        page.get_by_role("link", name="Pay list (CSV)").click()
    rows = list(csv.DictReader(io.StringIO(download.value.path().read_text("utf-8-sig"))))
    assert len(rows) == PEOPLE


def publish(owner: Owner, folder: Path) -> None:
    page = owner.page
    page.get_by_role("link", name="Results").first.click()
    page.get_by_role("button", name="Compute it now").click()
    expect(page.get_by_role("link", name="Whole report")).to_be_visible()
    owner.keep("results")
    page.get_by_role("button", name="Make release 1.0.0").click()
    zipped = page.get_by_role("link", name=re.compile("zip", re.IGNORECASE)).first
    expect(zipped).to_be_visible()
    with page.expect_download() as download:
        zipped.click()
    with zipfile.ZipFile(download.value.path()) as archive:
        archive.extractall(folder / "downloaded")
    manifests = [*(folder / "downloaded").rglob("manifest.json")]
    assert manifests
    for manifest in manifests:
        assert verify(manifest.parent).first == []
    page.get_by_role("button", name="Make a link").click()
    expect(page.get_by_role("button", name="Revoke")).to_be_visible()
    owner.keep("released")
