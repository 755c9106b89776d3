"""Behind nginx over TLS: the documented configurations, and those that people start with."""

from __future__ import annotations

import re
import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, expect

from hsfiq.access import new_hash, set_owner_password
from hsfiq.annotate.app import build_app
from hsfiq.annotate.cookies import COOKIE
from hsfiq.db.engine import Database
from hsfiq.public_url import parsed_url
from tests.annotate.page_requests import answer_body, stored
from tests.annotate.question_page import answer as answer_by_keys
from tests.annotate.question_page import expect_step
from tests.annotate.served_studies import Place, ThreadServer, newcomer
from tests.annotate.serving.proxies import SERVER, documented, free_port, make_certificate, nginx
from tests.browser import new_context_of
from tests.conftest import QUIET, installed_chromium

LOCATIONS = {
    "bare": "location / {{ proxy_pass http://127.0.0.1:7860; }}",
    # Debian's /etc/nginx/proxy_params has `Host $http_host`; many guides have `$host`.
    "host without port": (
        "location / {{ proxy_pass http://127.0.0.1:7860; proxy_set_header Host $host; "
        "proxy_set_header X-Forwarded-Proto http; }}"
    ),
    "path cut off": "location /hsfiq/ {{ proxy_pass http://127.0.0.1:7860/; }}",
}

PASSWORD = "the owner's password"


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a certificate for localhost, study.pem and study.key."""
    folder = tmp_path_factory.mktemp("tls")
    make_certificate(folder)
    return folder


@pytest.fixture
def proxied(
    copied: Place, database: Database, tmp_path: Path, certificate: Path
) -> Iterator[Callable[..., tuple[str, ThreadServer]]]:
    """Serve the study behind nginx: the address for browsers, the server, nginx's folder."""
    with ExitStack() as stack:

        def start(server: str, path: str, *, says: str | None = "") -> tuple[str, ThreadServer]:
            port = free_port()
            origin = f"https://localhost:{port}"
            public = None if says is None else parsed_url(says or f"{origin}{path}", "--public-url")
            # A new app for each: it tells of a wrong proxy only once.
            upstream = ThreadServer(copied, database, build_app(database, public=public))
            upstream.start()
            stack.callback(upstream.stop)
            stack.enter_context(nginx(tmp_path, certificate, server, upstream.url, port))
            return f"{origin}{path}", upstream

        yield start


def browser_client(home: str, certificate: Path) -> httpx.Client:
    context = ssl.create_default_context(cafile=certificate / "study.pem")
    return httpx.Client(base_url=f"{home}/", verify=context, timeout=60, trust_env=False)


@pytest.mark.parametrize("name", [*LOCATIONS, "documented host", "documented path"])
def test_enrolment_answers_and_the_login_work(
    proxied: Callable[..., tuple[str, ThreadServer]], name: str, certificate: Path
) -> None:
    servers = {
        **{key: SERVER.format(location=text.format()) for key, text in LOCATIONS.items()},
        **dict(zip(("documented host", "documented path"), documented()[:2], strict=True)),
    }
    path = "/hsfiq" if "path" in name else ""
    home, server = proxied(servers[name], path)
    with server.database.writing() as session:
        set_owner_password(session, new_hash(PASSWORD))
    own = {"Origin": httpx.URL(home).copy_with(path="/").__str__().rstrip("/")}
    with browser_client(home, certificate) as client:
        assert client.get("").status_code == 200
        started = client.get(f"start/{newcomer(server.place)}")
        assert started.status_code == 303
        cookie = started.headers["set-cookie"]
        assert "; Secure" in cookie
        assert f"; Path={path or '/'};" in cookie
        page = client.get("study/")
        assert page.status_code == 200
        (script,) = re.findall(r'import\("\.\./(page/\w+/page\.js)"\)', page.text)
        assert client.get(script).status_code == 200
        answer = client.post("submit", json=answer_body(view_below(client)), headers=own)
        assert answer.status_code == 200
        assert len(stored(server.database)) == 1
        refused = client.post("enrol", data={"study": 1}, headers={"Origin": "https://evil.test"})
        assert refused.status_code == 403
        login = client.post("owner/login", data={"password": PASSWORD}, headers=own)
        assert login.status_code == 303
        assert "; Secure" in login.headers["set-cookie"]
        assert client.get("owner/").status_code == 200
        logout = client.post("owner/logout", headers=own)
        assert f"; Path={path or '/'};" in logout.headers["set-cookie"]
        assert client.get("owner/").status_code == 401


def view_below(client: httpx.Client) -> dict[str, object]:
    answer = client.get("question")
    assert answer.status_code == 200
    content: dict[str, object] = answer.json()
    return content


def test_a_page_below_a_path_is_answered_in_a_browser(
    proxied: Callable[..., tuple[str, ThreadServer]], chromium: Browser
) -> None:
    home, server = proxied(documented()[1], "/hsfiq")
    # With `ignore_https_errors` of a context, each connection's requests begin again, and under
    # load Chromium gives some up: ERR_TOO_MANY_RETRIES.
    flags = [*QUIET, "--ignore-certificate-errors"]
    browser = chromium.browser_type.launch(executable_path=installed_chromium(), args=flags)
    context = new_context_of(browser)
    page = context.new_page()
    failed: list[str] = []
    page.on("requestfailed", lambda request: failed.append(request.url))
    page.on("response", lambda reply: reply.status >= 400 and failed.append(reply.url))
    page.goto(f"{home}/start/{newcomer(server.place)}")
    page.locator('.page[data-step="question"]').wait_for()
    expect(page.locator(".next.waiting")).to_have_count(0)
    cookies = {cookie["name"]: cookie for cookie in context.cookies()}
    assert cookies[COOKIE]["path"] == "/hsfiq"
    assert cookies[COOKIE]["secure"]
    answer_by_keys(page)
    expect_step(page, "question", "2 / 6")
    assert len(stored(server.database)) == 1
    assert failed == []
    browser.close()


@pytest.mark.parametrize(
    ("says", "line"),
    [
        (None, "but the proxy reports http://127.0.0.1:"),
        ("https://other.example/", "but --public-url is https://other.example/"),
    ],
)
def test_a_wrong_proxy_is_told_in_one_line(
    proxied: Callable[..., tuple[str, ThreadServer]],
    certificate: Path,
    caplog: pytest.LogCaptureFixture,
    says: str | None,
    line: str,
) -> None:
    home, _ = proxied(SERVER.format(location=LOCATIONS["bare"].format()), "", says=says)
    browsers = {"Sec-Fetch-Site": "same-origin", "Referer": f"{home}/study/", "Origin": home}
    with browser_client(home, certificate) as client:
        for _ in range(3):
            client.get("", headers=browsers)
    (record,) = caplog.records
    assert f"browsers use {home}" in record.getMessage()
    assert line in record.getMessage()


def test_a_proxy_that_passes_on_the_path_is_told_in_one_line(
    proxied: Callable[..., tuple[str, ThreadServer]],
    certificate: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    kept = "location /hsfiq/ { proxy_pass http://127.0.0.1:7860; }"
    home, _ = proxied(SERVER.format(location=kept), "/hsfiq")
    with browser_client(home, certificate) as client:
        assert [client.get(path).status_code for path in ("", "healthz", "study/")] == [404] * 3
    (record,) = caplog.records
    assert "configure the proxy to strip that path" in record.getMessage()
