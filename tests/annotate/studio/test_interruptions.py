"""Reloads, several tabs, lost connections, killed servers: nothing typed is lost or done twice."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page, expect
from sqlalchemy import select

from benchmarks.browsing import answers, free_port, wait_until
from hsfiq.annotate.cookies import signer_of
from hsfiq.db.engine import open_database
from hsfiq.db.studio_tables import Draft
from tests.annotate.owner.studies_in_progress import PASSWORD, set_owner
from tests.processes import Fork, run_command_line

pytestmark = [pytest.mark.browser, pytest.mark.slow]

TITLE = '[data-save="study.title"]'


class KillableServer:
    """`hsfiq serve` at an address that stays, over an owner's database."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, free_port()
        self.url = f"sqlite:///{folder}/studies.db"
        database = open_database(self.url)
        signer_of(database)
        set_owner(database)
        database.close()
        self.start()

    def start(self) -> None:
        options = ("serve", "--port", str(self.port), "--database", self.url)
        self.process = Fork(run_command_line, options, self.folder / "server.log")
        wait_until(lambda: answers(self.port, "/healthz"), "hsfiq serve", timeout=180)

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        self.process.send_signal(number)
        self.process.wait()

    def contents(self) -> list[dict[str, object]]:
        database = open_database(self.url)
        with database.reading() as session:
            found = [dict(content) for content in session.scalars(select(Draft.content))]
        database.close()
        return found

    def title(self) -> object:
        (content,) = self.contents()
        config = content["config"]
        assert isinstance(config, dict)
        return config["study"]["title"]

    def wait_for_title(self, title: str) -> None:
        wait_until(lambda: self.title() == title, f"the title {title!r}", timeout=180)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[KillableServer]:
    made = KillableServer(tmp_path)
    yield made
    made.kill(signal.SIGTERM)


def logged_in(context: BrowserContext, server: KillableServer) -> Page:
    page = context.new_page()
    page.goto(f"http://127.0.0.1:{server.port}/owner/login")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("button", name="New study")).to_be_visible()
    page.wait_for_load_state("networkidle")
    return page


def at_question(context: BrowserContext, server: KillableServer) -> Page:
    """The step "Question" of a new study."""
    page = logged_in(context, server)
    page.get_by_role("button", name="New study").dblclick()
    page.wait_for_url("**/images")
    open_question(page)
    return page


def open_question(page: Page) -> None:
    page.goto(page.url.replace("/images", "/question"))
    page.wait_for_load_state("networkidle")


def test_a_double_click_makes_one_study(context: BrowserContext, server: KillableServer) -> None:
    at_question(context, server)
    assert len(server.contents()) == 1


def test_what_is_typed_while_the_server_is_away_is_saved_later(
    context: BrowserContext, server: KillableServer
) -> None:
    page = at_question(context, server)
    server.kill()
    page.locator(TITLE).fill("Typed while nobody listened")
    expect(page.locator("#saved")).to_have_text("Not saved yet: no connection")
    server.start()
    server.wait_for_title("Typed while nobody listened")
    expect(page.locator("#saved")).to_contain_text("Saved at")


def test_what_is_typed_before_a_page_is_closed_is_saved_when_it_is_opened_again(
    context: BrowserContext, server: KillableServer
) -> None:
    page = at_question(context, server)
    address = page.url
    server.kill()
    page.locator(TITLE).fill("Typed and gone")
    expect(page.locator("#saved")).to_have_text("Not saved yet: no connection")
    page.close()
    server.start()
    again = context.new_page()
    again.goto(address)
    server.wait_for_title("Typed and gone")
    expect(again.locator(TITLE)).to_have_value("Typed and gone")


def test_a_reload_just_after_typing_loses_nothing(
    context: BrowserContext, server: KillableServer
) -> None:
    page = at_question(context, server)
    page.locator(TITLE).fill("Typed just now")
    page.reload()
    server.wait_for_title("Typed just now")
    expect(page.locator(TITLE)).to_have_value("Typed just now")
    page.go_back()
    page.go_forward()
    expect(page.locator(TITLE)).to_have_value("Typed just now")


def test_an_older_tab_asks_before_it_overwrites(
    context: BrowserContext, server: KillableServer
) -> None:
    page = at_question(context, server)
    other = context.new_page()
    other.goto(page.url)
    other.wait_for_load_state("networkidle")
    other.locator(TITLE).fill("Of the other tab")
    server.wait_for_title("Of the other tab")
    page.locator(TITLE).fill("Of this tab")
    expect(page.get_by_text("Changed elsewhere at")).to_be_visible()
    time.sleep(1.5)  # it is not overwritten meanwhile
    assert server.title() == "Of the other tab"
    page.get_by_role("button", name="Keep mine").click()
    server.wait_for_title("Of this tab")
    other.locator(TITLE).fill("Of the other tab, again")
    other.get_by_role("button", name="Show it").click()
    expect(other.locator(TITLE)).to_have_value("Of this tab")
    assert server.title() == "Of this tab"
