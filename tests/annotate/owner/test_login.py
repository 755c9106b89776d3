"""The owner's login: passwords, throttling, cookies, and the routes that need them."""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import httpx
import pytest
from fastapi.testclient import TestClient
from sqlalchemy import select
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from hsfiq.access import LOGIN_DURATION, matches, new_hash, owner_password, set_owner_password
from hsfiq.annotate.app import build_app
from hsfiq.annotate.cookies import COOKIE as PARTICIPANT_COOKIE
from hsfiq.annotate.cookies import Signer, signer_of
from hsfiq.annotate.owner import login
from hsfiq.annotate.owner.login import COOKIE, LoginThrottle, is_owner_path
from hsfiq.annotate.serving.proxy import network_of
from hsfiq.annotate.studio.shell import VERSION
from hsfiq.cli import run
from hsfiq.db.engine import Database
from hsfiq.db.source_tables import Login, LoginAttempts
from hsfiq.db.types import digest_of
from hsfiq.errors import UnreadableInput
from hsfiq.live.client import certificates
from tests.annotate.owner.studies_in_progress import PASSWORD, log_in, set_owner
from tests.annotate.served_studies import Place, ThreadServer, all_of, enrol
from tests.annotate.test_security import FOREIGN_HEADERS, FORGERIES, OWN_HEADERS

HTML = {"Accept": "text/html"}


HOME, AWAY = "203.0.113.9", "198.51.100.7"
NAME = "owner"


@pytest.fixture
def locked(
    database: Database, new_browser: TestClient, monkeypatch: pytest.MonkeyPatch
) -> TestClient:
    """A browser of an app whose owner has a password; wrong attempts do not wait."""
    monkeypatch.setattr(login, "FIRST_DELAY", 0.0)
    set_owner(database)
    return new_browser


@pytest.fixture
def owner(locked: TestClient) -> TestClient:
    """A browser that has logged in."""
    answer = log_in(locked)
    assert answer.status_code == 303
    return locked


# ------------------------------------------------------------------------------------ no password


def test_without_a_password_only_instructions_are_shown(new_browser: TestClient) -> None:
    for path in ("/owner", "/owner/login", "/owner/", "/owner/board/", "/owner/x"):
        answer = new_browser.get(path, headers=HTML)
        assert answer.status_code == 503, path
        assert "hsfiq account password" in answer.text
        assert "<form" not in answer.text
    for password in ("", "admin", "password"):
        assert log_in(new_browser, password).status_code == 503
    assert COOKIE not in new_browser.cookies


# ----------------------------------------------------------------------------------------- login


def test_the_right_password_logs_in(locked: TestClient) -> None:
    page = locked.get("/owner/login")
    assert (page.status_code, 'type="password"' in page.text) == (200, True)
    over_tls = locked.post("https://testserver/owner/login", data={"password": PASSWORD})
    assert "secure" in over_tls.headers["set-cookie"].lower()
    answer = log_in(locked)
    assert (answer.status_code, answer.headers["location"]) == (303, "../owner/")
    cookie = answer.headers["set-cookie"].lower()
    for part in ("httponly", "samesite=strict", f"max-age={12 * 3600}"):
        assert part in cookie
    assert locked.get("/owner/").status_code == 200
    assert locked.get("/owner").headers["location"] == "owner/"


def test_the_address_before_the_studio_leads_to_it(owner: TestClient) -> None:
    for address, target in (("/owner/board", "../owner/"), ("/owner/board/", "../../owner/")):
        answer = owner.get(address)
        assert (answer.status_code, answer.headers["location"]) == (303, target)


class Clock:
    """The time of the throttle's database, which passes when a test says so."""

    def __init__(self) -> None:
        self.now = datetime.now(UTC)

    def pass_seconds(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(login, "time_of", lambda _session: clock.now)
    return clock


@pytest.fixture
def throttle(database: Database, clock: Clock) -> LoginThrottle:
    return LoginThrottle(database, signer_of(database))


def test_each_failed_attempt_waits_longer(throttle: LoginThrottle) -> None:
    waits = [throttle.delay_for(HOME, NAME) or 0.0 for _ in range(5)]
    gaps = [later - earlier for earlier, later in pairwise(waits)]
    assert waits[0] == 0
    assert gaps == [0.25, 0.5, 1, 2]
    while (wait := throttle.delay_for(HOME, NAME)) is not None:
        assert wait < login.LONGEST_QUEUE


def test_a_right_password_does_not_end_the_wait_after_wrong_ones(
    throttle: LoginThrottle, clock: Clock
) -> None:
    """Or else somebody with an account could guess another's password quickly."""
    waits = []
    for _ in range(12):
        for is_right in (False, False, True):
            waits.append(throttle.delay_for(HOME, NAME) or 0.0)
            clock.pass_seconds(waits[-1])
            if is_right:
                throttle.succeeded(HOME)
    assert min(waits[8:]) >= login.LONGEST_DELAY / 2


@pytest.mark.parametrize("longest_delay", [1.0, 1000.0])
def test_delays_double_up_to_the_longest_unless_passwords_are_right(
    throttle: LoginThrottle, monkeypatch: pytest.MonkeyPatch, longest_delay: float
) -> None:
    monkeypatch.setattr(login, "LONGEST_DELAY", longest_delay)
    monkeypatch.setattr(login, "LONGEST_QUEUE", math.inf)
    for _ in range(5):
        assert throttle.delay_for(AWAY, NAME) == 0
        throttle.succeeded(AWAY)
    waits = [throttle.delay_for(HOME, NAME) or 0.0 for _ in range(15)]
    gaps = [later - earlier for earlier, later in pairwise(waits)]
    doubled = [login.FIRST_DELAY * 2**n for n in range(14)]
    assert gaps == [min(delay, longest_delay) for delay in doubled]


def test_a_refused_client_delays_no_other_and_can_try_again_after_its_wait(
    throttle: LoginThrottle, clock: Clock
) -> None:
    while throttle.delay_for(HOME, NAME) is not None:
        pass
    assert throttle.delay_for(AWAY, NAME) == 0
    throttle.succeeded(AWAY)
    assert throttle.delay_for(HOME, NAME) is None
    clock.pass_seconds(login.RETRY_AFTER)
    assert throttle.delay_for(HOME, NAME) == login.LONGEST_DELAY


def attempts_in(database: Database) -> list[LoginAttempts]:
    return all_of(database, select(LoginAttempts))


@pytest.mark.parametrize("passed", [timedelta(minutes=11), timedelta(days=1), timedelta(days=-1)])
def test_old_failures_are_forgotten_and_those_of_a_wrong_clock(
    throttle: LoginThrottle, clock: Clock, database: Database, passed: timedelta
) -> None:
    for address in (HOME, AWAY):
        while throttle.delay_for(address, NAME) is not None:
            pass
    clock.now += passed
    assert throttle.delay_for(HOME, NAME) == 0
    assert len(attempts_in(database)) == 1


@pytest.mark.parametrize("name", ["owner", "nobody"])
def test_clients_that_go_on_guessing_wait_for_each_other_at_one_account(
    throttle: LoginThrottle, clock: Clock, name: str
) -> None:
    """Each alone, a client would wait for two seconds."""
    guessers = [f"192.0.2.{n}" for n in range(24)]
    for address in guessers:
        own = [throttle.delay_for(address, name) for _ in range(login.OWN_ATTEMPTS)]
        assert own == [0, 0.25, 0.75]
    waits = [throttle.delay_for(address, name) for address in guessers]
    assert waits[:22] == [1.75, 1.75, *range(2, 21), None]
    assert throttle.delay_for(guessers[0], "another name") is not None
    # Nobody else is locked out, nor is a guesser for long.
    assert throttle.delay_for(HOME, name) == 0
    clock.pass_seconds(login.FORGET_AFTER.total_seconds() + 1)
    assert throttle.delay_for(guessers[0], name) == 0


def test_no_address_and_no_name_is_stored(throttle: LoginThrottle, database: Database) -> None:
    other_key = LoginThrottle(database, Signer(b"another key"))
    for each in (throttle, other_key):
        assert each.delay_for(HOME, NAME) == 0
        for _ in range(login.OWN_ATTEMPTS):
            assert each.delay_for(HOME, NAME) is not None
    keys = {attempts.client for attempts in attempts_in(database)}
    assert {len(key) for key in keys} == {64}
    assert len(keys) == 4


@pytest.mark.parametrize(
    ("address", "network"),
    [
        (HOME, HOME),
        (f"::ffff:{HOME}", HOME),
        ("2001:db8:1:2:3::4", "2001:db8:1::/48"),
        ("2001:db8:1:ffff::", "2001:db8:1::/48"),
        ("fe80::1%eth0", "fe80::/48"),
        ("::1", "::/48"),
        ("", ""),
        ("a name", "a name"),
    ],
)
def test_the_addresses_of_an_ipv6_network_are_one_client(address: str, network: str) -> None:
    assert network_of(address) == network


def test_too_many_attempts_are_refused_without_checking(
    locked: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(login, "LONGEST_QUEUE", -1.0)
    answer = log_in(locked)
    assert answer.status_code == 429
    assert answer.headers["retry-after"] == str(login.RETRY_AFTER)
    assert f"Wait {login.RETRY_AFTER} seconds" in answer.text
    assert COOKIE not in locked.cookies


@pytest.mark.parametrize(("peer", "owner_gets"), [("127.0.0.1", 303), (AWAY, 429)])
def test_behind_a_proxy_a_header_names_the_client(
    database: Database, monkeypatch: pytest.MonkeyPatch, peer: str, owner_gets: int
) -> None:
    """As uvicorn serves the app: it trusts only a proxy on its own machine."""
    # The second try of a client is too many.
    monkeypatch.setattr(login, "LONGEST_QUEUE", 0.1)
    set_owner(database)
    app: Any = ProxyHeadersMiddleware(build_app(database))  # type: ignore[arg-type]
    with TestClient(app, follow_redirects=False, client=(peer, 4)) as client:
        statuses = [
            client.post(
                "/owner/login", data={"password": password}, headers={"X-Forwarded-For": sender}
            ).status_code
            for sender, password in ((HOME, "wrong"), (HOME, PASSWORD), ("192.0.2.1", PASSWORD))
        ]
    assert statuses == [401, 429, owner_gets]


def test_the_owner_can_log_in_during_a_flood_from_other_addresses(
    copied: Place, serve: Callable[[Place], ThreadServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(login, "LONGEST_QUEUE", 2.0)  # so that the test ends soon
    at_once, highest, lock = 0, 0, threading.Lock()

    def counted(stored: str | None, password: str) -> bool:
        nonlocal at_once, highest
        with lock:
            at_once += 1
            highest = max(highest, at_once)
        try:
            return matches(stored, password)
        finally:
            with lock:
                at_once -= 1

    monkeypatch.setattr(login, "matches", counted)
    server = serve(copied)
    with server.database.writing() as session:
        set_owner_password(session, new_hash(PASSWORD))  # as slow as in use

    def send(address: str, password: str) -> int:
        return httpx.post(
            f"{server.url}/owner/login",
            data={"password": password},
            headers={"X-Forwarded-For": address},
            timeout=600,
            verify=certificates(),  # read once for all requests
        ).status_code

    with ThreadPoolExecutor(40) as flood:
        wrong_logins = [flood.submit(send, AWAY, f"wrong password {n}") for n in range(30)]
        wrong_logins += [flood.submit(send, f"192.0.2.{n}", "wrong") for n in range(8)]
        assert send(HOME, PASSWORD) == 303
        statuses = Counter(future.result() for future in wrong_logins)
    assert statuses.keys() == {401, 429}
    assert statuses[401] < 8 + 6
    assert highest == login.CHECKED_AT_ONCE
    assert send(HOME, "wrong") == 401


# ---------------------------------------------------------------------------------------- cookies


def test_unused_routes_are_refused_even_to_the_owner(owner: TestClient) -> None:
    assert owner.get("/owner/").status_code == 200
    for path in ("upload", "file=/etc/passwd", "file/etc/passwd", "queue/join", "runs",
                 "proxy=http://x/", "call/x", "stream/x", "dev/reload"):  # fmt: skip
        for place in ("/gradio_api", "/owner/gradio_api", "/owner/board/gradio_api"):
            for method in ("GET", "POST"):
                answer = owner.request(method, f"{place}/{path}")
                assert answer.status_code == 404, path


def test_a_forged_owner_cookie_is_refused(owner: TestClient) -> None:
    cookie = owner.cookies[COOKIE]
    owner.cookies.clear()
    for path in ("/owner/", "/owner/accounts", "/owner/audit/1/csv"):
        assert owner.get(path, headers={"Cookie": f"{COOKIE}={cookie}"}).status_code != 401
        for forge in FORGERIES:
            forged = {"Cookie": f"{COOKIE}={forge(cookie)}"}
            assert owner.get(path, headers=forged).status_code == 401


def test_a_login_ends_after_half_a_day(owner: TestClient, database: Database) -> None:
    assert owner.get("/owner/").status_code == 200
    with database.writing() as session:
        (login,) = session.scalars(select(Login)).all()
        left = login.expires_at - datetime.now(UTC)
        assert timedelta(hours=11) < left <= LOGIN_DURATION
        login.expires_at = datetime.now(UTC)
    assert owner.get("/owner/").status_code == 401


def test_a_logout_ends_the_login_on_the_server(owner: TestClient, database: Database) -> None:
    headers = {"Cookie": f"{COOKIE}={owner.cookies[COOKIE]}"}
    assert owner.post("/owner/logout").headers["location"] == "../owner/login"
    assert COOKIE not in owner.cookies
    assert owner.get("/owner/", headers=headers).status_code == 401
    assert all_of(database, select(Login)) == []


def test_the_database_holds_no_token_of_a_login(owner: TestClient, database: Database) -> None:
    token = owner.cookies[COOKIE].strip('"').rpartition(".")[0]
    stored = all_of(database, select(Login.token_hash))
    assert stored == [digest_of(token)]


def test_a_new_password_ends_every_login(owner: TestClient, database: Database) -> None:
    with database.writing() as session:
        set_owner_password(session, new_hash(PASSWORD))
    assert owner.get("/owner/").status_code == 401


def test_an_annotators_cookie_is_not_accepted(locked: TestClient, database: Database) -> None:
    enrol(locked, database)
    value = locked.cookies[PARTICIPANT_COOKIE]
    assert locked.get("/question").status_code == 200
    assert locked.get("/owner/").status_code == 401
    headers = {"Cookie": f"{COOKIE}={value}"}
    assert locked.get("/owner/", headers=headers).status_code == 401


# ------------------------------------------------------------------------------------------- CSRF


def test_requests_from_other_sites_are_refused(owner: TestClient) -> None:
    for headers in FOREIGN_HEADERS:
        for path in ("/owner/login", "/owner/logout", "/owner/"):
            answer = owner.post(path, data={"password": PASSWORD}, headers=headers)
            assert answer.status_code == 403, (path, headers)
        assert owner.get("/owner/audit/1/csv", headers=headers).status_code == 403
    for headers in OWN_HEADERS:
        answer = owner.post("/owner/login", data={"password": PASSWORD}, headers=headers)
        assert answer.status_code == 303, headers


def test_the_pages_are_neither_framed_nor_cached(owner: TestClient) -> None:
    for path in ("/owner/login", "/owner/", "/owner/accounts"):
        headers = owner.get(path).headers
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert headers["cache-control"] == "no-store"
        assert headers["referrer-policy"] == "same-origin"
    assert "immutable" in owner.get(f"/owner/files/{VERSION}/studio.css").headers["cache-control"]


def test_which_paths_belong_to_the_owner() -> None:
    assert is_owner_path("/owner")
    assert is_owner_path("/owner/x")
    assert not is_owner_path("/owners")
    assert not is_owner_path("/study/owner")


SCRYPT_HASH = (
    "scrypt$32768$8$1$000102030405060708090a0b0c0d0e0f$"
    "c72e940880b3f15bff3fa26a3a49140f80ce9a1c4dd2d5d27bab10014071ba94"
)
"""Of `PASSWORD`, as revisions before 0033 stored it."""


def test_a_password_is_kept_as_a_salted_hash_only() -> None:
    hashes = [new_hash(PASSWORD) for _ in range(2)]
    assert hashes[0] != hashes[1]
    for stored in hashes:
        assert stored.startswith("$argon2id$")
        assert PASSWORD not in stored
        assert matches(stored, PASSWORD)
        assert not matches(stored, PASSWORD + " ")
        assert not matches(stored, "")


def test_a_password_from_before_accounts_is_still_right() -> None:
    assert matches(SCRYPT_HASH, PASSWORD)
    assert not matches(SCRYPT_HASH, PASSWORD + " ")


def test_no_password_matches_where_none_is_stored() -> None:
    for password in ("", PASSWORD, "x" * 2000):
        assert not matches(None, password)


def test_composed_and_decomposed_characters_are_the_same_password() -> None:
    assert matches(new_hash("pass-w\u00f6rd-1234"), "pass-wo\u0308rd-1234")
    assert matches(new_hash("o\u0308" * 1000), "o\u0308" * 1000)


@pytest.mark.parametrize("password", ["", "123456789", "x" * 1001])
def test_short_and_very_long_passwords_are_refused(password: str) -> None:
    with pytest.raises(UnreadableInput, match="characters"):
        new_hash(password)


def test_the_command_takes_it_from_a_file(
    database: Database, tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    file, url = tmp_path / "password.txt", str(database.engine.url)
    file.write_text(f"{PASSWORD}\r\n", encoding="utf-8")
    assert run(["account", "password", "--from-file", str(file), "--database", url]) == 0
    assert "log in at /owner" in capsys.readouterr().out
    with database.reading() as session:
        assert matches(owner_password(session), PASSWORD)
    file.write_text("short\n", encoding="utf-8")
    assert run(["account", "password", "--from-file", str(file), "--database", url]) == 2
    assert "5 characters" in capsys.readouterr().err
    assert run(["account", "password", "--from-file", str(tmp_path / "no"), "--database", url]) == 2


def test_the_command_asks_twice_and_shows_nothing(
    database: Database, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    prompts: list[dict[str, Any]] = []

    def prompt(_text: str, **options: Any) -> str:
        prompts.append(options)
        return PASSWORD

    monkeypatch.setattr("typer.prompt", prompt)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    assert run(["account", "password", "--database", str(database.engine.url)]) == 0
    assert prompts == [{"hide_input": True, "confirmation_prompt": "Repeat it"}]
    assert PASSWORD not in capsys.readouterr().out


def test_a_wrong_or_malformed_login_is_refused(locked: TestClient) -> None:
    for password in ("", "wrong", PASSWORD[:-1], PASSWORD + "x", "x" * 20_000):
        answer = log_in(locked, password)
        assert answer.status_code == 401
        assert "Wrong name or password." in answer.text
    for body in (b"", b"password", b"\xff\xfe", b"password=%ff%00", b"{}"):
        assert locked.post("/owner/login", content=body).status_code == 401
    assert COOKIE not in locked.cookies
    assert locked.get("/owner/").status_code == 401
    shown = locked.get("/owner/", headers=HTML)
    assert (shown.status_code, 'action="../owner/login"' in shown.text) == (401, True)
    for path in ("/owner//", "/owner/audit/x/y", "/owner/%2e%2e/config",
                 "/owner/gradio_api/file=/etc/passwd", "/owner/login/",
                 "/owner/nothing"):  # fmt: skip
        for method in ("GET", "POST"):
            assert locked.request(method, path).status_code == 401, f"{method} {path}"
