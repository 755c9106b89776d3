"""The steps "Design" and "People and consent" in a browser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from hsfiq.actors import OWNER
from hsfiq.annotate.app import build_app
from hsfiq.drafts import draw
from tests.annotate.axe import faults
from tests.annotate.owner.studies_in_progress import PASSWORD
from tests.annotate.served_studies import Place, ThreadServer
from tests.annotate.studio.conftest import StudioClient, studio_in
from tests.annotate.studio.test_design import data, filled  # noqa: F401 (a fixture)
from tests.browser import new_context_of

pytestmark = pytest.mark.browser

Opened = tuple[Page, str, StudioClient, str]


@pytest.fixture
def opened(chromium: Any, tmp_path: Path, data: Path) -> Iterator[Opened]:  # noqa: F811
    """The browser of the owner of a draft, the draft's address, its studio and its token."""
    place = Place(tmp_path)
    studio = studio_in(place)
    token = filled(studio, data)
    server = ThreadServer(place, studio.database, build_app(studio.database))
    server.start()
    context = new_context_of(chromium, viewport={"width": 1280, "height": 900})
    page = context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(f"{server.url}/owner/login")
    page.fill("#password", PASSWORD)
    page.click("button[name=enter]")
    yield page, f"{server.url}/owner/draft/{token}", studio, token
    context.close()
    server.stop()
    assert errors == []


def test_sliders_and_numbers_change_the_figures(opened: Opened) -> None:
    page, address, _, _ = opened
    page.goto(f"{address}/design")
    live = page.locator("#live")
    expect(live).to_contain_text("± 9 points")
    slider = page.get_by_role("slider", name="People")
    slider.focus()
    page.keyboard.press("Home")
    expect(page.get_by_label("People, as a number")).to_have_value("2")
    expect(page.get_by_text("With fewer than 20 people")).to_be_visible()
    expect(slider).to_be_focused()
    number = page.get_by_label("People, as a number")
    number.fill("100")
    number.blur()
    expect(slider).to_have_value("100")
    expect(live).to_contain_text("± 7 points")
    expect(page.locator("#saved")).to_contain_text("Saved at")
    page.get_by_label("Pay per hour, in €, as a number").fill("12")
    page.get_by_label("Pay per hour, in €, as a number").blur()
    expect(live).to_contain_text("€340.00")
    page.get_by_role("button", name="Undo the last change").click()
    expect(live).to_contain_text("€0.00")
    page.reload()
    expect(page.get_by_label("People, as a number")).to_have_value("100")


def test_the_consent_follows_what_is_typed(opened: Opened) -> None:
    page, address, _, _ = opened
    page.goto(f"{address}/people")
    expect(page.locator("#consent mark.gap")).to_have_count(3)
    page.get_by_label("Ethics approval").fill("ERB 2025-0117")
    expect(page.locator("#consent")).to_contain_text("Ethics approval: ERB 2025-0117")
    expect(page.locator("#consent mark.gap")).to_have_count(2)
    expect(page.get_by_label("Ethics approval")).to_be_focused()
    page.get_by_label("Prolific").check()
    expect(page.get_by_label("Completion code")).to_have_value(re.compile("^C[0-9A-F]{8}$"))
    page.get_by_label("Another panel").check()
    page.get_by_label("Name of the panel").fill("Our panel")
    page.get_by_label("Name of the panel").blur()
    expect(page.locator("#consent")).to_contain_text("the IDs that Our panel sends")


def test_links_are_downloaded(opened: Opened) -> None:
    page, address, studio, token = opened
    draw(studio.database, token, OWNER)
    page.goto(f"{address}/people")
    page.get_by_label("New links").fill("3")
    with page.expect_download() as download:
        page.get_by_role("button", name="Make links and download them").click()
    lines = Path(download.value.path()).read_text().splitlines()
    assert len(lines) == 4
    page.reload()
    expect(page.get_by_text("3 links have not been used yet.")).to_be_visible()


@pytest.mark.parametrize("step", ["design", "people"])
def test_the_steps_have_no_fault_of_accessibility(opened: Opened, step: str) -> None:
    page, address, _, _ = opened
    page.goto(f"{address}/{step}")
    for details in page.locator("main details:not([data-open-wide]) > summary").all():
        details.click()
    assert list(faults(page)) == []
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") == 390
