"""A page that is open while its texts are corrected, in Chromium."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.annotate.page_requests import stored
from tests.annotate.question_page import TEXT, OpenPage, answer, expect_step, press
from tests.annotate.served_studies import ThreadServer
from tests.annotate.test_text_versions import correct

pytestmark = pytest.mark.browser


def test_the_next_question_has_the_corrected_texts(
    server: ThreadServer, open_page: OpenPage
) -> None:
    page = open_page(server)
    expect_step(page, "question", "1 / 6")
    correct(server.database, guidelines="# Corrected", set_names=("Left shop", "Right shop"))
    answer(page)
    expect_step(page, "question", "2 / 6")
    expect(page.locator(".set h3").first).to_contain_text("Left shop")
    expect(page.locator(".notice-text")).to_have_text(TEXT["guidelines_changed"])
    page.locator(".notice-action").click()
    expect(page.locator(".guidelines-text")).to_contain_text("Corrected")
    page.locator(".guidelines .close").click()
    answer(page)
    expect_step(page, "question", "3 / 6")
    expect(page.locator(".notice")).to_be_hidden()
    assert [row.text_version for row in stored(server.database)] == [1, 2]


def test_what_was_entered_survives_a_correction_and_a_reload(
    server: ThreadServer, open_page: OpenPage
) -> None:
    page = open_page(server)
    expect_step(page, "question", "1 / 6")
    press(page, "4", "Shift+Digit2")
    correct(server.database, set_names=("Left shop", "Right shop"))
    page.reload()
    expect(page.locator(".set h3").first).to_contain_text("Left shop")
    expect(page.locator("[name=score_1][value='4']")).to_be_checked()
    expect(page.locator("[name=score_2][value='2']")).to_be_checked()
    press(page, "q", "Enter")
    expect_step(page, "question", "2 / 6")
    expect(page.locator("input:checked")).to_have_count(0)
    (row,) = stored(server.database)
    assert (row.score_1, row.score_2, row.text_version) == (4, 2, 2)
