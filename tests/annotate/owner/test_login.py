"""The owner's login: throttling, cookies, and the routes that need them."""

from __future__ import annotations

import math
import re
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

from hsfiq.access import LOGIN_DURATION, matches, new_hash, set_owner_password
from hsfiq.annotate.app import build_app
from hsfiq.annotate.cookies import COOKIE as PARTICIPANT_COOKIE
from hsfiq.annotate.cookies import Signer, signer_of
from hsfiq.annotate.owner import login
from hsfiq.annotate.owner import login as login_throttle
from hsfiq.annotate.owner.login import COOKIE, LoginThrottle, is_owner_path
from hsfiq.annotate.serving.proxy import network_of
from hsfiq.db.engine import Database
from hsfiq.db.source_tables import Login, LoginAttempts
from hsfiq.db.types import digest_of
from hsfiq.live.client import certificates
from tests.annotate.owner.studies_in_progress import PASSWORD, log_in, set_owner
from tests.annotate.served_studies import Place, ThreadServer, enrol, gradio_page
from tests.annotate.test_cross_site import FOREIGN_HEADERS, OWN_HEADERS

HTML = {"Accept": "text/html"}


HOME, AWAY = "203.0.113.9", "198.51.100.7"
NAME = "owner"


@pytest.fixture
def locked(
    database: Database, new_browser: TestClient, monkeypatch: pytest.MonkeyPatch
) -> TestClient:
    """A browser of an app whose owner has a password; wrong attempts do not wait."""
    monkeypatch.setattr(login_throttle, "FIRST_DELAY", 0.0)
    set_owner(database)
    return new_browser


@pytest.fixture
def owner(locked: TestClient) -> TestClient:
    """A browser that has logged in."""
    answer = log_in(locked)
    assert answer.status_code == 303
    return locked


def gradio_paths(routes: list[Any]) -> set[str]:
    """The paths of these routes and of the routers among them, parameters filled in."""
    paths: set[str] = set()
    for route in routes:
        if hasattr(route, "original_router"):
            paths |= gradio_paths(route.original_router.routes)
        else:
            paths.add("/owner/board" + re.sub(r"\{.*?\}", "x", route.path))
    return paths


def board_paths(client: TestClient) -> set[str]:
    app: Any = client.app
    (mount,) = [route for route in app.routes if getattr(route, "path", "") == "/owner/board"]
    return gradio_paths(gradio_page(mount).app.routes)


# ------------------------------------------------------------------------------------ no password


def test_without_a_password_only_instructions_are_shown(new_browser: TestClient) -> None:
    for path in ("/owner", "/owner/login", "/owner/board/", "/owner/board/config", "/owner/x"):
        answer = new_browser.get(path, headers=HTML)
        assert answer.status_code == 503, path
        assert "hsfiq owner password" in answer.text
        assert "<form" not in answer.text
    for password in ("", "admin", "password"):
        assert log_in(new_browser, password).status_code == 503
    assert COOKIE not in new_browser.cookies


# ----------------------------------------------------------------------------------------- login


def test_the_right_password_logs_in(locked: TestClient) -> None:
    page = locked.get("/owner/login")
    assert page.status_code == 200
    assert 'type="password"' in page.text
    answer = log_in(locked)
    assert answer.status_code == 303
    assert answer.headers["location"] == "../owner/board/"
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert f"max-age={12 * 3600}" in cookie
    assert locked.get("/owner/board/").status_code == 200
    assert locked.get("/owner/board/config").status_code == 200
    assert locked.get("/owner").headers["location"] == "owner/board/"


@pytest.mark.parametrize("password", ["", "wrong", PASSWORD[:-1], PASSWORD + "x", "x" * 20_000])
def test_a_wrong_password_does_not(locked: TestClient, password: str) -> None:
    answer = log_in(locked, password)
    assert answer.status_code == 401
    assert "Wrong name or password." in answer.text
    assert COOKIE not in locked.cookies
    assert locked.get("/owner/board/").status_code == 401


def test_a_malformed_login_is_refused(locked: TestClient) -> None:
    for body in (b"", b"password", b"\xff\xfe", b"password=%ff%00", b"{}"):
        assert locked.post("/owner/login", content=body).status_code == 401
    assert COOKIE not in locked.cookies


def test_the_cookie_of_an_https_login_is_secure(locked: TestClient) -> None:
    answer = locked.post("https://testserver/owner/login", data={"password": PASSWORD})
    assert "secure" in answer.headers["set-cookie"].lower()


class Clock:
    """The time of the throttle's database, which passes when a test says so."""

    def __init__(self) -> None:
        self.now = datetime.now(UTC)

    def pass_seconds(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(login_throttle, "time_of", lambda _session: clock.now)
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


def test_right_passwords_do_not_wait(throttle: LoginThrottle) -> None:
    for _ in range(5):
        assert throttle.delay_for(HOME, NAME) == 0
        throttle.succeeded(HOME)


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
def test_delays_double_up_to_the_longest(
    throttle: LoginThrottle, monkeypatch: pytest.MonkeyPatch, longest_delay: float
) -> None:
    monkeypatch.setattr(login_throttle, "LONGEST_DELAY", longest_delay)
    monkeypatch.setattr(login_throttle, "LONGEST_QUEUE", math.inf)
    waits = [throttle.delay_for(HOME, NAME) or 0.0 for _ in range(15)]
    gaps = [later - earlier for earlier, later in pairwise(waits)]
    doubled = [login.FIRST_DELAY * 2**n for n in range(14)]
    assert gaps == [min(delay, longest_delay) for delay in doubled]


def test_a_refused_client_can_try_again_after_the_wait_that_it_is_told(
    throttle: LoginThrottle, clock: Clock
) -> None:
    while throttle.delay_for(HOME, NAME) is not None:
        pass
    clock.pass_seconds(login.RETRY_AFTER)
    assert throttle.delay_for(HOME, NAME) == login.LONGEST_DELAY


def attempts_in(database: Database) -> list[LoginAttempts]:
    with database.reading() as session:
        return list(session.scalars(select(LoginAttempts)))


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


def test_one_clients_attempts_do_not_delay_another(throttle: LoginThrottle) -> None:
    while throttle.delay_for(HOME, NAME) is not None:
        pass
    assert throttle.delay_for(AWAY, NAME) == 0
    throttle.succeeded(AWAY)
    assert throttle.delay_for(HOME, NAME) is None


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
    monkeypatch.setattr(login_throttle, "LONGEST_QUEUE", -1.0)
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
    monkeypatch.setattr(
        login_throttle, "LONGEST_QUEUE", 0.1
    )  # the second try of a client is too many
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
    monkeypatch.setattr(login_throttle, "LONGEST_QUEUE", 2.0)  # so that the test ends soon
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


def test_logout(owner: TestClient) -> None:
    assert owner.post("/owner/logout").headers["location"] == "../owner/login"
    assert COOKIE not in owner.cookies
    assert owner.get("/owner/board/").status_code == 401


# ---------------------------------------------------------------------------------------- cookies


def test_every_route_requires_the_login(locked: TestClient) -> None:
    paths = board_paths(locked)
    for expected in ("config", "gradio_api/queue/join", "gradio_api/upload", "gradio_api/run/x"):
        assert f"/owner/board/{expected}" in paths, expected
    owner_paths = ["/owner", "/owner/", "/owner/board", "/owner/board//", "/owner/export/1/hs",
            "/owner/export/x/y", "/owner/logout", "/owner/board/gradio_api/file=/etc/passwd",
            "/owner/board/%2e%2e/config", "/owner/login/", "/owner/nothing"]  # fmt: skip
    for path in [*paths, *owner_paths]:
        for method in ("GET", "POST"):
            answer = locked.request(method, path)
            assert answer.status_code == 401, f"{method} {path}: {answer.status_code}"


def test_a_browser_is_shown_the_login_page(locked: TestClient) -> None:
    answer = locked.get("/owner/board/", headers=HTML)
    assert answer.status_code == 401
    assert 'action="../../owner/login"' in answer.text


def test_unused_routes_are_refused_even_to_the_owner(owner: TestClient) -> None:
    assert owner.get("/owner/board/").status_code == 200
    for path in ("upload", "file=/etc/passwd", "file/etc/passwd", "queue/join", "runs",
                 "proxy=http://x/", "call/x", "stream/x", "dev/reload"):  # fmt: skip
        for method in ("GET", "POST"):
            answer = owner.request(method, f"/owner/board/gradio_api/{path}")
            assert answer.status_code == 404, path


@pytest.mark.parametrize("forge", [
    lambda cookie: cookie[:-1] + ("0" if cookie[-1] != "0" else "1"),
    lambda cookie: "9" + cookie,
    lambda cookie: cookie.rpartition(".")[0],
    lambda cookie: cookie.rpartition(".")[0] + ".",
    lambda cookie: cookie[:0],
])  # fmt: skip
def test_a_forged_owner_cookie_is_refused(owner: TestClient, forge: Any) -> None:
    cookie = owner.cookies[COOKIE]
    owner.cookies.clear()
    for path in ("/owner/board/", "/owner/board/config", "/owner/export/1/hs"):
        assert owner.get(path, headers={"Cookie": f"{COOKIE}={cookie}"}).status_code != 401
        forged = {"Cookie": f"{COOKIE}={forge(cookie)}"}
        assert owner.get(path, headers=forged).status_code == 401


def test_a_login_ends_after_half_a_day(owner: TestClient, database: Database) -> None:
    assert owner.get("/owner/board/config").status_code == 200
    with database.writing() as session:
        (login,) = session.scalars(select(Login)).all()
        left = login.expires_at - datetime.now(UTC)
        assert timedelta(hours=11) < left <= LOGIN_DURATION
        login.expires_at = datetime.now(UTC)
    assert owner.get("/owner/board/config").status_code == 401


def test_a_logout_ends_the_login_on_the_server(owner: TestClient, database: Database) -> None:
    headers = {"Cookie": f"{COOKIE}={owner.cookies[COOKIE]}"}
    assert owner.post("/owner/logout").status_code == 303
    owner.cookies.clear()
    assert owner.get("/owner/board/config", headers=headers).status_code == 401
    with database.reading() as session:
        assert session.scalars(select(Login)).all() == []


def test_the_database_holds_no_token_of_a_login(owner: TestClient, database: Database) -> None:
    token = owner.cookies[COOKIE].strip('"').rpartition(".")[0]
    with database.reading() as session:
        stored = session.scalars(select(Login.token_hash)).all()
    assert stored == [digest_of(token)]


def test_a_new_password_ends_every_login(owner: TestClient, database: Database) -> None:
    with database.writing() as session:
        set_owner_password(session, new_hash(PASSWORD))
    assert owner.get("/owner/board/config").status_code == 401


def test_an_annotators_cookie_is_not_accepted(locked: TestClient, database: Database) -> None:
    enrol(locked, database)
    value = locked.cookies[PARTICIPANT_COOKIE]
    assert locked.get("/question").status_code == 200
    assert locked.get("/owner/board/config").status_code == 401
    headers = {"Cookie": f"{COOKIE}={value}"}
    assert locked.get("/owner/board/config", headers=headers).status_code == 401


def test_the_owner_cookie_is_not_valid_for_annotators(owner: TestClient) -> None:
    assert owner.get("/question").status_code == 401
    assert owner.get("/study/").status_code == 401


# ------------------------------------------------------------------------------------------- CSRF


def test_requests_from_other_sites_are_refused(owner: TestClient) -> None:
    for headers in FOREIGN_HEADERS:
        for path in ("/owner/login", "/owner/logout", "/owner/board/gradio_api/run/predict"):
            answer = owner.post(path, data={"password": PASSWORD}, headers=headers)
            assert answer.status_code == 403, (path, headers)
        assert owner.get("/owner/export/1/hs", headers=headers).status_code == 403


def test_requests_from_the_same_site_are_accepted(locked: TestClient) -> None:
    for headers in OWN_HEADERS:
        answer = locked.post("/owner/login", data={"password": PASSWORD}, headers=headers)
        assert answer.status_code == 303, headers


def test_the_pages_are_neither_framed_nor_cached(owner: TestClient) -> None:
    for path in ("/owner/login", "/owner/board/", "/owner/board/config"):
        headers = owner.get(path).headers
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert headers["cache-control"] == "no-store"
        assert headers["referrer-policy"] == "same-origin"
    assert owner.get("/owner/board/theme.css").headers.get("cache-control") != "no-store"


def test_which_paths_belong_to_the_owner() -> None:
    assert is_owner_path("/owner")
    assert is_owner_path("/owner/x")
    assert not is_owner_path("/owners")
    assert not is_owner_path("/study/owner")
