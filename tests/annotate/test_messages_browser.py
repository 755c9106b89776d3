"""A message of the owner in Chromium."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect
from sqlalchemy import select

from hsfiq.db.tables import MessageRecipient
from tests.annotate.question_page import OpenPage, answer, expect_step
from tests.annotate.served_studies import ThreadServer
from tests.annotate.test_messages import send

pytestmark = pytest.mark.browser


def test_a_message_is_read_once_and_no_answer_key_closes_it(
    server: ThreadServer, open_page: OpenPage
) -> None:
    page = open_page(server, 390, 844)
    send(server.database, "**We restart** the server at noon.")
    answer(page)
    expect_step(page, "question", "2 / 6")
    message = page.locator("dialog.message")
    expect(message).to_contain_text("We restart the server at noon.")
    page.keyboard.press("1")
    page.keyboard.press("Enter")
    expect(message).to_be_visible()
    with page.expect_response("**/messages-seen"):
        message.locator(".close").click()
    expect(message).to_be_hidden()
    answer(page)
    expect_step(page, "question", "3 / 6")
    expect(message).to_be_hidden()
    with server.database.reading() as session:
        assert session.scalars(select(MessageRecipient.seen_at)).one() is not None
