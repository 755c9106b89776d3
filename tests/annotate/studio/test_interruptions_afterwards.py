"""After the launch: what was clicked when the server was killed or no reply came is done once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest
from playwright.sync_api import BrowserContext, Page, expect
from sqlalchemy import func, select

from hsfiq.audit import Selection, entries
from hsfiq.db.studio_tables import AnswerNote, Job
from hsfiq.db.tables import Message, Payment
from tests.annotate.owner.studies_in_progress import watched_study
from tests.annotate.served_studies import Place
from tests.annotate.studio.interrupting import (
    KillableServer,
    at,
    keep_as_it_is,
    log_in,
    lose_reply,
    unfold,
)

pytestmark = [pytest.mark.browser, pytest.mark.slow]

LOST = "No connection. Try again: nothing is done twice."


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KillableServer]:
    folder = tmp_path_factory.mktemp("watched")
    place = Place(folder)
    watched_study(place).close()
    yield from KillableServer.serving(folder, place.url)


def rows(server: KillableServer, table: type) -> int:
    with server.database.reading() as session:
        return session.scalar(select(func.count()).select_from(table)) or 0


def without_reply(page: Page, place: str, server: KillableServer | None = None) -> None:
    """Click twice: the first time, the act is performed, and no reply comes."""
    keep_as_it_is(page)
    lose_reply(page, server)
    page.locator(place).first.click()
    expect(page.locator("#said")).to_contain_text(LOST)
    if server is not None:
        server.start()
    page.locator(place).first.click(force=True)
    expect(page.locator("#said")).not_to_contain_text(LOST)
    expect(page.locator("#said")).not_to_be_empty()
    page.unroute_all()


def watch(context: BrowserContext, server: KillableServer, query: str = "") -> Page:
    page = at(context, f"{server.address}/study/1/watch{query}")
    page.on("dialog", lambda dialog: dialog.accept())
    return page


def test_notes_are_kept_while_they_are_written_and_are_made_once(
    context: BrowserContext, server: KillableServer
) -> None:
    log_in(context, server)
    page = watch(context, server, "?person=p1")
    note = page.locator('form[data-act="note"][data-about="p1"] textarea')
    note.fill("Looks at every image")
    note.blur()
    with page.expect_response(page.url):
        pass  # the page refreshes itself
    expect(note).to_have_value("Looks at every image")
    page.reload()
    expect(note).to_have_value("Looks at every image")
    unfold(page)
    without_reply(page, 'form[data-act="note"][data-about="p1"] button')
    assert rows(server, AnswerNote) == 1
    expect(note).to_have_value("")
    page.reload()
    expect(note).to_have_value("")


def test_a_decision_is_made_once(context: BrowserContext, server: KillableServer) -> None:
    log_in(context, server)
    page = watch(context, server, "?person=p1")
    page.locator('input[name="pay"][value="approve"]').check(force=True)
    without_reply(page, "#do", server)
    expect(page.locator("#decided-p1")).to_contain_text("To be paid.")
    assert rows(server, Payment) == 1
    page = watch(context, server, "?person=p2")
    page.locator('input[name="pay"][value="ask"]').check(force=True)
    page.locator('textarea[name="message"]').fill("Please look at the images again.")
    without_reply(page, "#do", server)
    assert rows(server, Message) == 1
    without_reply(page, '[data-act="pay-all"]')
    assert rows(server, Payment) == 2
    page = watch(context, server, "?person=p1")
    without_reply(page, '[data-act="undecide"]')
    assert rows(server, Payment) == 1


def test_results_are_opened_made_and_shared_once(
    context: BrowserContext, server: KillableServer
) -> None:
    log_in(context, server)
    page = watch(context, server)
    without_reply(page, '[data-act="unblind"]')
    without_reply(page, '[data-act="status"][data-to="close"]', server)
    page = at(context, f"{server.address}/study/1/results")
    page.on("dialog", lambda dialog: dialog.accept())
    without_reply(page, '[data-act="compute"]', server)
    expect(page.locator('[data-act="share"]')).to_be_visible()
    without_reply(page, '[data-act="share"]')
    unfold(page)
    page.locator('form[data-act="make"] [name="name"]').fill("first")
    without_reply(page, 'form[data-act="make"] button', server)
    expect(page.get_by_text("Verified on")).to_have_count(2)  # one of each kind
    with server.database.reading() as session:
        assert list(session.scalars(select(Job.kind).order_by(Job.id))) == ["report", "release"]
        done = Counter(entry.action for entry in entries(session, Selection()))
    assert [done[name] for name in ("study.unblind", "study.close", "report.share")] == [1, 1, 1]
