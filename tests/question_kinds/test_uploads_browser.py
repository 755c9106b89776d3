"""Starting a search from a picture of one's own, in Chromium: by keyboard, and on a phone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image
from playwright.sync_api import BrowserContext, FileChooser, Locator, Page, expect
from sqlalchemy import select

from hsfiq.db.search_tables import SearchUpload
from tests.annotate.axe import faults
from tests.annotate.question_page import TEXT
from tests.browser import TIMEOUT_MS
from tests.drawn_retriever import DrawnRetriever
from tests.question_kinds.conftest import PHONE
from tests.question_kinds.drawn_catalogue import Catalogue
from tests.question_kinds.search_pages import create_search, image_names
from tests.question_kinds.test_search_browser import expect_list, opened, stored, write

expect.set_options(timeout=TIMEOUT_MS)

PATIENCE_MS = 500
"""After this, Enter is pressed again: a browser under load may not have taken it for a user's."""


@pytest.fixture(scope="module")
def retriever(catalogue: Catalogue) -> Iterator[DrawnRetriever]:
    made = DrawnRetriever(image_names(catalogue), accepts_images=True)
    yield made
    made.stop()


def pick(page: Page, control: Locator, file: Path) -> None:
    """Go to the control with Tab, and open the browser's list of files with Enter."""
    choosers: list[FileChooser] = []

    def keep(chooser: FileChooser) -> None:
        choosers.append(chooser)

    page.on("filechooser", keep)
    for _ in range(TIMEOUT_MS // PATIENCE_MS):
        # The page may be busy with the last picture, and take the focus away when it answers.
        expect(page.locator(".busy")).to_have_count(0)
        while not control.evaluate("control => control === document.activeElement"):
            page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        page.wait_for_timeout(PATIENCE_MS)
        if choosers:
            break
    page.remove_listener("filechooser", keep)
    choosers[0].set_files(file)


def test_a_picture_is_picked_by_keyboard(
    catalogue: Catalogue, retriever: DrawnRetriever, context: BrowserContext, tmp_path: Path
) -> None:
    study = create_search(catalogue, retriever, "upload-keys", "own-wish", "uploads = true")
    photo, note = tmp_path / "photo.jpg", tmp_path / "note.jpg"
    Image.new("RGB", (600, 800), "teal").save(photo)
    note.write_text("no picture")
    with opened(catalogue, context, study) as page:
        control = page.get_by_label(TEXT["search_upload"])
        expect(control).to_be_visible()
        assert list(faults(page)) == []
        for file, told in ((note, TEXT["search_upload_unreadable"]), (photo, "")):
            pick(page, control, file)
            if told:
                expect(page.locator(".notice-text")).to_have_text(told)
        expect(page.locator(".search-target figcaption")).to_have_text(TEXT["search_upload_start"])
        expect(page.locator(".notice")).to_be_hidden()
        expect(control).to_be_hidden()
        shown = page.locator(".search-target img")
        assert shown.evaluate("image => image.decode().then(() => image.naturalWidth)") == 600
        assert list(faults(page)) == []
        page.reload()
        expect(page.locator(".search-target figcaption")).to_have_text(TEXT["search_upload_start"])
        write(page, "is red")
        expect_list(page, 1)
        about = page.locator(".search-turns img")
        assert about.evaluate("image => image.decode().then(() => image.naturalWidth)") == 600
    assert stored(catalogue, study) == (["is red"], [])
    with catalogue.database.reading() as session:
        newest = select(SearchUpload.width).order_by(SearchUpload.uploaded_at.desc())
        assert session.scalars(newest).first() == 600


def test_a_phone_uploads_a_picture(
    catalogue: Catalogue, retriever: DrawnRetriever, phone: BrowserContext, tmp_path: Path
) -> None:
    study = create_search(catalogue, retriever, "upload-phone", "own-wish", "uploads = true")
    photo = tmp_path / "photo.png"
    Image.new("RGB", (900, 600), "teal").save(photo)
    with opened(catalogue, phone, study) as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
        box = page.locator(".search-upload .button").bounding_box()
        assert box is not None
        assert box["height"] >= 44
        with page.expect_file_chooser() as chooser:
            page.locator("#hsfiq-search-upload").tap()
        chooser.value.set_files(photo)
        expect(page.locator(".search-upload")).to_be_hidden()
        expect(page.locator(".search-target img")).to_be_visible()
        page.locator("#hsfiq-search-text").fill("is red")
        page.locator(".search-send").tap()
        expect_list(page, 1)
