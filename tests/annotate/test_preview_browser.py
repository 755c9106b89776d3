"""The preview's page in Chromium."""

from __future__ import annotations

import pytest
from playwright.sync_api import BrowserContext, expect

from hsfiq.annotate.cookies import signer_of
from hsfiq.annotate.preview import new_preview, preview_path
from hsfiq.collect.studies import list_studies
from tests.annotate.page_requests import stored
from tests.annotate.question_page import TEXT, answer, expect_step, press
from tests.annotate.served_studies import ThreadServer

pytestmark = pytest.mark.browser


def test_the_owner_answers_in_a_preview_without_storing_anything(
    server: ThreadServer, context: BrowserContext
) -> None:
    with server.database.reading() as session:
        place = new_preview(session, list_studies(session)[0])
    page = context.new_page()
    page.set_viewport_size({"width": 390, "height": 844})
    failed: list[str] = []
    page.on("pageerror", lambda error: failed.append(str(error)))
    page.goto(server.url + preview_path(signer_of(server.database), place))
    expect(page.locator(".page")).to_have_attribute("data-step", "consent")
    expect(page.locator(".preview")).to_contain_text(TEXT["preview"])
    page.locator(".agree").click()
    page.locator(".guidelines .close").click()
    page.get_by_role("button", name=TEXT["preview_next"]).click()
    expect_step(page, "question", "1 / 6")
    answer(page)
    expect_step(page, "question", "2 / 6")
    page.reload()
    expect_step(page, "question", "2 / 6")
    press(page, "b")
    expect_step(page, "question", "1 / 6")
    steps = [("question", "3 / 6"), ("check", "3 / 6")]
    for step, count in (*steps, *(("question", f"{number} / 6") for number in (4, 5, 6))):
        page.get_by_role("button", name=TEXT["preview_next"]).click()
        expect_step(page, step, count)
    page.get_by_role("button", name=TEXT["preview_next"]).click()
    expect(page.locator(".page")).to_have_attribute("data-step", "done")
    expect(page.locator(".preview")).to_be_visible()
    expect(page.locator(".stored")).to_be_hidden()
    page.get_by_role("button", name=TEXT["preview_restart"]).click()
    expect(page.locator(".page")).to_have_attribute("data-step", "consent")
    assert stored(server.database) == []
    assert failed == []
