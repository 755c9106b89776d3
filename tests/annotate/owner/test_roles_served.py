"""Roles in Chromium, and the proxy's header at a server as it runs."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import httpx
import pytest
from playwright.sync_api import BrowserContext, Page, expect

from hsfiq.access import invite
from hsfiq.actors import Role
from hsfiq.db.engine import open_database
from tests.annotate.axe import faults
from tests.annotate.owner.studies_in_progress import PASSWORD, add_account, set_owner
from tests.annotate.served_studies import Place, Server, ThreadServer

HEADER, SECRET = "X-Remote-User", "0123456789abcdef"


def enter(context: BrowserContext, server: ThreadServer, role: Role) -> Page:
    """Follow the link of a new account, and set its password."""
    with server.database.writing() as session:
        token = invite(session, "kim", role, datetime.now(UTC) + timedelta(days=1))
    page = context.new_page()
    page.goto(f"{server.url}/owner/link/{token}")
    assert list(faults(page)) == []
    for field in ("Password", "The same again"):
        page.get_by_label(field).fill(PASSWORD)
    page.keyboard.press("Enter")
    expect(page.locator(".tile").first).to_contain_text("Answered")
    expect(page.locator("div.who > p")).to_contain_text(f"kim {role}")
    return page


@pytest.mark.browser
def test_a_helper_has_the_buttons_of_recruiting_alone(
    context: BrowserContext, server: ThreadServer
) -> None:
    page = enter(context, server, Role.HELPER)
    for button in ("#person-pause", "#person-resume", "#study-open", "#study-pause"):
        expect(page.locator(button)).to_be_visible()
    for part in ("#person-exclude", "#study-close", "#question"):
        expect(page.locator(part)).to_be_hidden()
    page.get_by_role("link", name="Invitations").click()
    page.get_by_label("How many").fill("2")
    page.get_by_role("button", name="Make links").click()
    expect(page.locator("textarea")).to_have_value(re.compile("/start/"))
    assert list(faults(page)) == []


@pytest.mark.browser
def test_an_analyst_has_answers_and_no_buttons(
    context: BrowserContext, server: ThreadServer
) -> None:
    page = enter(context, server, Role.ANALYST)
    expect(page.locator("#question")).to_be_visible()
    expect(page.get_by_role("link", name="Scores (hs) .zip")).to_be_visible()
    for part in ("#participant", "#person-pause", "#study-pause", "#study-close"):
        expect(page.locator(part)).to_be_hidden()


@pytest.mark.browser
def test_an_owner_invites_on_the_page_of_accounts(
    context: BrowserContext, server: ThreadServer
) -> None:
    page = enter(context, server, Role.OWNER)
    page.get_by_role("link", name="Accounts").click()
    page.get_by_label("Name", exact=True).fill("lee")
    page.get_by_role("button", name="Make a link").click()
    expect(page.get_by_role("heading", name="Link for lee")).to_be_visible()
    assert list(faults(page)) == []


@pytest.mark.parametrize(
    ("proxies", "statuses"), [("127.0.0.1", [200, 403]), ("192.0.2.1", [401, 401])]
)
def test_a_server_believes_the_header_of_its_proxy_alone(
    copied: Place, monkeypatch: pytest.MonkeyPatch, proxies: str, statuses: list[int]
) -> None:
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", proxies)
    database = open_database(copied.url)
    set_owner(database)
    add_account(database, "ana", Role.ANALYST)
    database.close()
    secret = copied.folder / "auth-secret"
    secret.write_text(f"{SECRET}\n")
    secret.chmod(0o600)
    options = ("--auth-header", HEADER, "--auth-secret-file", str(secret))
    server = Server(copied, "serve", "--database", copied.url, *options)
    server.start()
    answers = [
        httpx.get(
            f"{server.url}/owner/accounts",
            headers={HEADER: name, "X-Auth-Secret": SECRET, "X-Forwarded-For": "192.0.2.1"},
            timeout=60,
            trust_env=False,
        ).status_code
        for name in ("owner", "ana")
    ]
    server.kill()
    assert answers == statuses
