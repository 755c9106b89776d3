"""Accounts and their roles: links, logins that end at once, and who sees what of the studio."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from playwright.sync_api import BrowserContext, Page, expect
from sqlalchemy import select
from starlette.types import Message, Receive, Scope, Send

from hsfiq.access import change_role, disable, invite, new_hash, reset
from hsfiq.actors import Role
from hsfiq.annotate.app import trust_header
from hsfiq.annotate.owner import login
from hsfiq.annotate.serving.proxy import (
    RemoteUser,
    TrustedHeader,
    checked_header,
    remote_user,
    trusted_proxies,
)
from hsfiq.cli import run
from hsfiq.db.engine import Database
from hsfiq.db.source_tables import Account
from hsfiq.db.tables import Study
from hsfiq.db.types import digest_of
from hsfiq.errors import UnreadableInput
from hsfiq.http_server import server_settings
from tests.annotate.axe import faults
from tests.annotate.owner.studies_in_progress import (
    PASSWORD,
    add_account,
    log_in,
    set_owner,
)
from tests.annotate.served_studies import (
    Place,
    Server,
    ThreadServer,
    browser_of,
    the_one,
    usual_portal,
)
from tests.annotate.test_signed_images import statements_of
from tests.hsfiq.samples import hsfiq

PROXY, ELSEWHERE = "127.0.0.1", "203.0.113.9"
OTHER_PASSWORD = "another long password"
NAME, STATUS = "telltale-study", select(Study.status)
SECRET = "0123456789abcdef"


@pytest.fixture(autouse=True)
def owner(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """The owner has a password; wrong attempts do not wait."""
    monkeypatch.setattr(login, "FIRST_DELAY", 0.0)
    set_owner(database)


@pytest.fixture
def helper(new_browser: TestClient, database: Database) -> TestClient:
    return logged_in(new_browser, database, "hana", Role.HELPER)


@pytest.fixture
def analyst(new_browser: TestClient, database: Database) -> TestClient:
    return logged_in(new_browser, database, "ana", Role.ANALYST)


def logged_in(browser: TestClient, database: Database, name: str, role: Role) -> TestClient:
    add_account(database, name, role)
    assert log_in(browser, name=name).status_code == 303
    return browser


def invited(database: Database, name: str = "kim", role: Role = Role.ANALYST, days: int = 7) -> str:
    """The path of a new account's link."""
    with database.writing() as session:
        return f"/owner/link/{invite(session, name, role, datetime.now(UTC) + timedelta(days))}"


def new_password(password: str = OTHER_PASSWORD, repeated: str | None = None) -> dict[str, str]:
    return {"password": password, "repeated": password if repeated is None else repeated}


def status_of_studio(browser: TestClient) -> int:
    return browser.get("/owner/").status_code


# ------------------------------------------------------------------------------------------ links


def test_a_link_sets_a_password_once(new_browser: TestClient, database: Database) -> None:
    link = invited(database)
    page = new_browser.get(link)
    assert page.status_code == 200
    assert "You log in as kim, in the role analyst." in page.text
    assert page.headers["cache-control"] == "no-store"
    assert new_browser.post(link, data=new_password()).headers["location"].endswith("owner/")
    assert status_of_studio(new_browser) == 200
    for answer in (new_browser.get(link), new_browser.post(link, data=new_password(PASSWORD))):
        assert answer.status_code == 404
        assert "This link is not valid" in answer.text
    assert log_in(new_browser, PASSWORD, "kim").status_code == 401
    assert log_in(new_browser, OTHER_PASSWORD, " KIM ").status_code == 303


def test_a_link_stays_valid_until_the_password_is_good(
    new_browser: TestClient, database: Database
) -> None:
    link = invited(database)
    for fields, message in (
        (new_password("short"), "5 characters"),
        (new_password(OTHER_PASSWORD, "another"), "differ"),
        ({}, "0 characters"),
    ):
        answer = new_browser.post(link, data=fields)
        assert (answer.status_code, message in answer.text) == (422, True)
    headers = {"Sec-Fetch-Site": "cross-site"}
    assert new_browser.post(link, data=new_password(), headers=headers).status_code == 403
    assert new_browser.post(link, data=new_password()).status_code == 303


def test_a_link_ends(new_browser: TestClient, database: Database) -> None:
    expired, replaced = invited(database, days=0), invited(database, "lee")
    with database.writing() as session:
        reset(session, "lee", datetime.now(UTC) + timedelta(1))
    gone = invited(database, "mia")
    with database.writing() as session:
        disable(session, "mia")
    for link in (expired, replaced, gone, "/owner/link/x"):
        assert new_browser.get(link).status_code == 404
        assert new_browser.post(link, data=new_password()).status_code == 404
    assert status_of_studio(new_browser) == 401


def test_the_database_holds_no_token_of_a_link(database: Database) -> None:
    token = invited(database).rpartition("/")[2]
    stored = the_one(database, select(Account.link_hash).where(Account.name == "kim"))
    assert stored == digest_of(token)


# ----------------------------------------------------------------------------------------- logins


def test_a_disabled_account_is_out_at_once(analyst: TestClient, database: Database) -> None:
    assert status_of_studio(analyst) == 200
    with database.writing() as session:
        disable(session, "ana")
    assert status_of_studio(analyst) == 401
    assert log_in(analyst, name="ana").status_code == 401


def test_a_reset_ends_logins_and_the_password(analyst: TestClient, database: Database) -> None:
    with database.writing() as session:
        token = reset(session, "ana", datetime.now(UTC) + timedelta(1))
    assert status_of_studio(analyst) == 401
    assert log_in(analyst, name="ana").status_code == 401
    assert analyst.post(f"/owner/link/{token}", data=new_password()).status_code == 303
    assert status_of_studio(analyst) == 200


def test_a_role_changes_in_logins_that_exist(analyst: TestClient, database: Database) -> None:
    assert analyst.get("/owner/study/1/watch").status_code == 200
    with database.writing() as session:
        change_role(session, "ana", Role.HELPER)
    assert analyst.get("/owner/study/1/watch").status_code == 403
    assert analyst.get("/owner/study/1/people.csv").status_code == 403
    assert analyst.get("/owner/study/1/recruiting").status_code == 200


@pytest.mark.parametrize("is_disabled", [True, False])
def test_a_preview_ends_with_its_account(
    analyst: TestClient, new_browser: TestClient, database: Database, *, is_disabled: bool
) -> None:
    link = analyst.get("/owner/preview/1").headers["location"].removeprefix("../..")
    assert analyst.get(link).status_code == 303
    assert analyst.post("/preview/consent", json={"agrees": True}).status_code == 200
    with statements_of(database) as statements:
        assert analyst.get("/preview/image/x").status_code == 404
    asked = [statement for statement in statements if "accounts" in statement]
    assert asked
    assert all(re.search(r"FROM accounts\s+WHERE accounts\.id = ", each) for each in asked)
    with database.writing() as session:
        if is_disabled:
            disable(session, "ana")
        else:
            change_role(session, "ana", Role.HELPER)
    for path in ("opening", "question", "image/x", "study/"):
        assert analyst.get(f"/preview/{path}").status_code == 401, path
    assert analyst.post("/preview/next-step", json={}).status_code == 401
    assert new_browser.get(link).status_code == 404


def test_names_and_passwords_do_not_mix(new_browser: TestClient, database: Database) -> None:
    add_account(database, "ana", Role.ANALYST)
    invited(database)
    refused = [("ana", OTHER_PASSWORD), ("nobody", PASSWORD), ("kim", PASSWORD), ("kim", ""),
               ("\x00", PASSWORD), ("x" * 500, PASSWORD)]  # fmt: skip
    pages = set()
    for name, password in refused:
        answer = log_in(new_browser, password, name)
        assert answer.status_code == 401, name
        pages.add(re.sub(r'value="[^"]*"', "", answer.text))
    assert len(pages) == 1


def test_an_unknown_name_costs_as_much_as_a_known_one(
    new_browser: TestClient, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each attempt computes one hash with the same parameters, whatever is stored."""
    from argon2 import PasswordHasher

    verified = []
    verify = PasswordHasher.verify

    def counted(self: Any, stored: str, password: bytes) -> Any:
        verified.append(stored.split("$")[:4])
        return verify(self, stored, password)

    monkeypatch.setattr(PasswordHasher, "verify", counted)
    add_account(database, "ana", Role.ANALYST, new_hash(PASSWORD))
    invited(database)
    for name in ("ana", "kim", "nobody"):
        assert log_in(new_browser, OTHER_PASSWORD, name).status_code == 401
    assert len(verified) == 3
    assert verified[0] == verified[1] == verified[2]


# --------------------------------------------------------------------------------------- the studio


def test_an_analyst_reads_and_exports_and_changes_nothing(analyst: TestClient) -> None:
    text = analyst.get("/owner/").text + analyst.get("/owner/study/1/watch").text
    for shown in ("Checks failed", "people.csv", "preview/1"):
        assert shown in text, shown
    for hidden in ("recruiting", "/history", "/setup", "accounts", 'data-act="status"'):
        assert hidden not in text, hidden
    for act in ("status", "give", "unblind"):
        given = {"act": act, "to": "pause", "seen": "open", "person": "p1"}
        assert analyst.post("/owner/study/1/watch", json=given).status_code == 403


def test_the_owner_keeps_accounts_in_the_studio(
    new_browser: TestClient, database: Database, app: FastAPI
) -> None:
    log_in(new_browser)

    def change(**fields: str) -> Any:
        return new_browser.post("/owner/accounts", data=fields)

    page = change(action="invite", name="Kim", role="helper")
    (link,) = re.findall(r"http://testserver(/owner/link/[\w-]+)", page.text)
    assert browser_of(app).post(link, data=new_password()).status_code == 303
    assert "link/" not in new_browser.get("/owner/accounts").text
    assert change(action="role", name="kim", role="analyst").status_code == 200
    with database.reading() as session:
        kim = session.scalars(select(Account).where(Account.name == "kim")).one()
        assert (kim.role, kim.is_disabled, kim.password is not None) == ("analyst", False, True)
    assert change(action="disable", name="kim").status_code == 200
    assert "disabled" in new_browser.get("/owner/accounts").text
    assert "/owner/link/" in change(action="reset", name="kim").text
    for action, name, role, message in (
        ("invite", "kim", "helper", "already"), ("invite", "a b", "helper", "not a valid"),
        ("invite", "lee", "king", ""), ("disable", "owner", "", "cannot be changed"),
        ("role", "owner", "helper", "cannot be changed"), ("disable", "nobody", "", "nobody"),
        ("x", "kim", "", ""),
    ):  # fmt: skip
        answer = change(action=action, name=name, role=role)
        assert answer.status_code == 422, (action, name)
        assert 'role="alert"' in answer.text
        assert message in answer.text


# ------------------------------------------------------------------------------------ the commands


def account(database: Database, *arguments: str) -> int:
    return run(["account", *arguments, "--database", str(database.engine.url)])


def test_the_commands_keep_accounts(
    new_browser: TestClient, database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    assert account(database, "invite", "kim", "--role", "analyst", "--url", "https://x.org/h") == 0
    printed = capsys.readouterr().out
    (token,) = re.findall(r"^https://x\.org/h/owner/link/(\S+)$", printed, re.MULTILINE)
    assert account(database, "list") == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert rows[1:] == [["kim", "analyst", "invited"], ["owner", "owner", "active"]]
    assert new_browser.post(f"/owner/link/{token}", data=new_password()).status_code == 303
    assert account(database, "role", "kim", "helper") == 0
    assert account(database, "list") == 0
    assert capsys.readouterr().out.splitlines()[2].split() == ["kim", "helper", "active"]
    assert account(database, "disable", "kim") == 0
    assert status_of_studio(new_browser) == 401
    assert account(database, "reset", "kim", "--json") == 0
    assert account(database, "list", "--json") == 0
    assert '"state": "invited"' in capsys.readouterr().out


def test_what_cannot_be_done_is_said_in_one_line(database: Database) -> None:
    done = hsfiq("account", "reset", "owner", "--database", str(database.engine.url))
    assert done.code in (1, 2)
    assert ("hsfiq account password" in done.err, done.err.count("\n")) == (True, 1)


# ------------------------------------------------------------------------------- a proxy's header


def behind_proxy(app: FastAPI, peer: str) -> TestClient:
    """A browser whose requests come from `peer`, with the app as `hsfiq serve` wraps it."""
    settings = server_settings(app, "127.0.0.1", 0)
    trust_header(settings, TrustedHeader("X-Remote-User", SECRET))
    sent = {"X-Auth-Secret": SECRET}
    return TestClient(settings.loaded_app, follow_redirects=False, client=(peer, 4), headers=sent)


def test_the_proxys_header_names_the_account(app: FastAPI, database: Database) -> None:
    add_account(database, "ana", Role.ANALYST)
    with behind_proxy(app, PROXY) as browser:
        ana = {"X-Remote-User": "Ana", "X-Forwarded-For": ELSEWHERE}
        assert browser.get("/owner/", headers=ana).status_code == 200
        assert browser.get("/owner/accounts", headers=ana).status_code == 403
        owner = {"X-Remote-User": "owner"}
        assert browser.get("/owner/accounts", headers=owner).status_code == 200
        with database.writing() as session:
            disable(session, "ana")
        for name in ("Ana", "nobody", "", "owner,ana"):
            answer = browser.get("/owner/", headers={"X-Remote-User": name})
            assert answer.status_code == 403, name
        assert log_in(browser).status_code == 303
        assert browser.get("/owner/accounts").status_code == 200
        assert browser.get("/owner/accounts", headers=ana).status_code == 403
        foreign = owner | {"Sec-Fetch-Site": "cross-site"}
        assert browser.post("/owner/accounts", headers=foreign).status_code == 403
        assert browser.get("/owner/audit/1/csv", headers=foreign).status_code == 403


@pytest.mark.parametrize(
    ("peer", "proxies"),
    [(ELSEWHERE, PROXY), ("127.0.0.2", PROXY), ("a name", PROXY), (PROXY, "192.0.2.1")],
)
def test_the_header_of_anybody_else_counts_for_nothing(
    app: FastAPI, monkeypatch: pytest.MonkeyPatch, peer: str, proxies: str
) -> None:
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", proxies)
    headers = {"X-Remote-User": "owner", "X-Forwarded-For": PROXY}
    answer = behind_proxy(app, peer).get("/owner/", headers=headers)
    assert answer.status_code == 401


def test_the_header_counts_only_if_it_is_configured(app: FastAPI) -> None:
    browser = TestClient(app, client=(PROXY, 4), headers={"X-Remote-User": "owner"})
    assert browser.get("/owner/").status_code == 401


def test_two_headers_name_nobody(app: FastAPI) -> None:
    headers = [("X-Remote-User", "owner")] * 2
    answer = behind_proxy(app, PROXY).get("/owner/", headers=headers)
    assert answer.status_code == 403


@pytest.mark.parametrize("secrets", [[], [""], [f"{SECRET}x"], [SECRET.upper()], [SECRET, SECRET]])
def test_a_name_without_the_secret_names_nobody(
    app: FastAPI, caplog: pytest.LogCaptureFixture, secrets: list[str]
) -> None:
    with behind_proxy(app, PROXY) as browser:
        del browser.headers["X-Auth-Secret"]
        headers = [("X-Remote-User", "owner"), *(("X-Auth-Secret", each) for each in secrets)]
        for _ in range(2):
            assert browser.get("/owner/", headers=headers).status_code == 401
    (record,) = caplog.records
    assert SECRET not in record.getMessage()


@pytest.mark.parametrize(
    "path", ["/owner/accounts;x", "/owner//accounts", "/owner/./accounts", "/owner/x/../accounts",
             "/owner/%61ccounts", "/owner/accounts%2f", "/owner/accounts/..", "//owner/accounts"]
)  # fmt: skip
def test_a_path_that_a_proxy_may_read_differently_names_nobody(path: str) -> None:
    header = TrustedHeader("X-Remote-User", SECRET)
    told: list[object] = []

    async def see(scope: Scope, _receive: Receive, _send: Send) -> None:
        told.append(remote_user(scope))

    async def receive() -> Message:
        return {}

    async def send(_message: Message) -> None:
        """Nothing is sent."""

    sent = [(b"x-remote-user", b"owner"), (b"x-auth-secret", SECRET.encode())]
    for each in (path, "/owner/accounts"):
        scope = {"type": "http", "client": (PROXY, 4), "raw_path": each.encode(), "headers": sent}
        usual_portal().call(RemoteUser(see, header, "/owner/"), scope, receive, send)
    assert told == [None, "owner"]


@pytest.mark.parametrize("proxies", ["*", "", "a name"])
def test_trusted_proxies_are_named_by_address(
    monkeypatch: pytest.MonkeyPatch, proxies: str
) -> None:
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", proxies)
    with pytest.raises(UnreadableInput, match="FORWARDED_ALLOW_IPS"):
        trusted_proxies()


@pytest.mark.parametrize("header", ["", "X Remote", "Cookie", "Authorization", "X:Y"])
def test_a_header_that_cannot_name_users_is_refused(header: str) -> None:
    with pytest.raises(UnreadableInput, match="--auth-header"):
        checked_header(header)


def enter(context: BrowserContext, server: ThreadServer, role: Role) -> Page:
    """Follow the link of a new account, and set its password."""
    with server.database.writing() as session:
        token = invite(session, "kim", role, datetime.now(UTC) + timedelta(days=1))
    page = context.new_page()
    page.goto(f"{server.url}/owner/link/{token}")
    assert list(faults(page)) == []
    for field in ("Password", "Enter it again"):
        page.get_by_label(field).fill(PASSWORD)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Studies")).to_be_visible()
    expect(page.get_by_role("banner")).to_contain_text("kim")
    assert list(faults(page)) == []
    return page


@pytest.mark.browser
def test_owner_invites_on_page_of_accounts(context: BrowserContext, server: ThreadServer) -> None:
    page = enter(context, server, Role.OWNER)
    page.get_by_role("link", name="People and roles").click()
    page.get_by_label("Name", exact=True).fill("lee")
    page.get_by_role("button", name="Make a link").click()
    expect(page.get_by_role("heading", name="Link for lee")).to_be_visible()
    assert list(faults(page)) == []


def test_a_server_believes_the_header_of_its_proxy(copied: Place, database: Database) -> None:
    add_account(database, "ana", Role.ANALYST)
    secret = copied.folder / "auth-secret"
    secret.write_text(f"{SECRET}\n")
    secret.chmod(0o600)
    options = ("--auth-header", "X-Remote-User", "--auth-secret-file", str(secret))
    server = Server(copied, "serve", "--database", copied.url, *options)
    server.start()
    answers = [
        httpx.get(
            f"{server.url}/owner/accounts",
            headers={"X-Remote-User": name, "X-Auth-Secret": SECRET, "X-Forwarded-For": ELSEWHERE},
            timeout=60,
            trust_env=False,
        ).status_code
        for name in ("owner", "ana")
    ]
    server.kill()
    assert answers == [200, 403]
