"""A name from the proxy opens the studio only where the proxy checks passwords.

Every page of the owner's is requested through nginx and Caddy at addresses that programs read in
different ways, without the right password and with headers that a client made up.
"""

from __future__ import annotations

import ssl
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from http.client import HTTPConnection, HTTPSConnection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urljoin, urlsplit

import pytest
from fastapi import FastAPI
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hsfiq.annotate.app import build_app, trust_header
from hsfiq.annotate.serving.proxy import TrustedHeader, remote_user
from hsfiq.audit import Selection, entries
from hsfiq.db.engine import Database
from hsfiq.public_url import parsed_url
from tests.annotate.owner.studies_in_progress import set_owner
from tests.annotate.served_studies import Place, ReusedStudy, ThreadServer
from tests.annotate.serving.proxies import caddy, documented, free_port, make_certificate, nginx
from tests.annotate.test_routes import address_of, paths_of

HEADER = TrustedHeader("X-Remote-User", "0123456789abcdef0123456789abcdef")
RIGHT, WRONG = "right", "wrong"

HASH = "$2b$04$abcdefghijklmnopqrstuuFmEfrkTQnczNzw475xE2VhDrK1uwJiC"
"""Of the right password, with few rounds."""

CARELESS = """
server {
    listen 443 ssl;
    ssl_certificate /etc/ssl/study.pem;
    ssl_certificate_key /etc/ssl/study.key;
    proxy_set_header X-Remote-User $remote_user;
    include /etc/nginx/hsfiq-secret.conf;
    location /hsfiq/owner/ {
        auth_basic "hsfiq";
        auth_basic_user_file /etc/nginx/hsfiq-users;
        proxy_pass http://127.0.0.1:7860/owner/;
    }
    location /hsfiq/ { proxy_pass http://127.0.0.1:7860/; }
}
"""
"""Sends name and secret also where it does not check the password."""


class Named:
    """An ASGI app that notes which requests name a user, and which of the owner's it answers."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self.requests: list[str] = []
        self.opened: list[str] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = f"{scope['method']} {scope['raw_path'].decode()}"
        if remote_user(scope) is not None:
            self.requests.append(request)

        async def noted(message: Message) -> None:
            is_answered = message["type"] == "http.response.start" and message["status"] < 300
            if is_answered and "owner" in scope["path"].lower():
                self.opened.append(request)
            await send(message)

        await self._app(scope, receive, noted)


class Client:
    """Sends requests exactly as they are written, over one connection."""

    def __init__(self, connection: HTTPConnection) -> None:
        self._connection = connection

    def status(self, target: str, password: str | None, method: str = "GET") -> int:
        return self.reply(target, password, method)[0]

    def reply(self, target: str, password: str | None, method: str = "GET") -> tuple[int, str]:
        """Status and Location; with headers that only the proxy should send."""
        headers = {HEADER.name: "owner", "X-Auth-Secret": "guessed-by-somebody"}
        if password is not None:
            pair = b64encode(f"owner:{password}".encode()).decode()
            headers["Authorization"] = f"Basic {pair}"
        self._connection.request(method, target, headers=headers)
        answer = self._connection.getresponse()
        answer.read()
        return answer.status, answer.headers.get("Location", "")


Proxied = tuple[Client, Named, FastAPI]


@contextmanager
def nginx_before(folder: Path, site: str, upstream: str, port: int) -> Iterator[HTTPConnection]:
    make_certificate(folder)
    trusted = ssl.create_default_context(cafile=folder / "study.pem")
    with TemporaryDirectory() as shared, ExitStack() as stack:
        own = Path(shared)
        own.chmod(0o755)  # processes of another user read the passwords
        (own / "hsfiq-users").write_text(f"owner:{{PLAIN}}{RIGHT}\n")
        (own / "hsfiq-secret.conf").write_text(f"proxy_set_header X-Auth-Secret {HEADER.secret};\n")
        site = site.replace("/etc/nginx", shared)
        stack.enter_context(nginx(folder, folder, site, upstream, port))
        yield HTTPSConnection("localhost", port, context=trusted, timeout=60)


@contextmanager
def caddy_before(folder: Path, site: str, upstream: str, port: int) -> Iterator[HTTPConnection]:
    (folder / "hsfiq-secret").write_text(f"header_up X-Auth-Secret {HEADER.secret}\n")
    site = site.replace("/etc/caddy", str(folder)).replace("HASH", HASH)
    with caddy(folder, site, upstream, port):
        yield HTTPConnection("127.0.0.1", port, timeout=60)


def without_path(site: str) -> str:
    """The configuration of a path, changed as docs/hosting/proxy.md says to that of a host."""
    site = site.replace("redir /hsfiq /hsfiq/\n", "").replace("handle_path /hsfiq/*", "handle")
    return site.replace("/hsfiq/", "/")


PROXIES: dict[str, tuple[Callable[..., Any], Callable[[], str]]] = {
    "nginx": (nginx_before, lambda: documented()[2]),
    "careless nginx": (nginx_before, lambda: CARELESS),
    "caddy": (caddy_before, lambda: documented("caddy")[1]),
}


@pytest.fixture(params=PROXIES, scope="module")
def proxy(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=["", "/hsfiq"], scope="module")
def path(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def study(usual_study: Place, tmp_path_factory: pytest.TempPathFactory) -> ReusedStudy:
    return ReusedStudy(usual_study, tmp_path_factory.mktemp("study"))


@pytest.fixture(scope="module")
def served(
    study: ReusedStudy, tmp_path_factory: pytest.TempPathFactory, proxy: str, path: str
) -> Iterator[Proxied]:
    """The study behind a proxy, with the app and what it was told."""
    study.restore()
    database, tmp_path = study.database, tmp_path_factory.mktemp("proxy")
    set_owner(database)
    start, site = PROXIES[proxy]
    port = free_port()
    scheme = "http" if proxy == "caddy" else "https"
    host = "127.0.0.1" if proxy == "caddy" else "localhost"
    app = build_app(database, public=parsed_url(f"{scheme}://{host}:{port}{path}", "--public-url"))
    named = Named(app)
    server = ThreadServer(study.place, database, named)
    trust_header(server.server.config, HEADER)
    server.start()
    text = site() if path else without_path(site())
    with ExitStack() as stack:
        stack.callback(server.stop)
        connection = stack.enter_context(start(tmp_path, text, server.url, port))
        yield Client(stack.enter_context(closing(connection))), named, app


@pytest.fixture
def proxied(served: Proxied) -> Proxied:
    """The same; whatever it was told before is forgotten."""
    _, named, _ = served
    named.requests.clear()
    named.opened.clear()
    return served


@pytest.fixture
def database(study: ReusedStudy) -> Database:
    return study.database


def owners_addresses(app: FastAPI) -> list[str]:
    """The address of every route of the owner's, and a leaderboard, which some see only there."""
    addresses = [address_of(path) for path in paths_of(app) if path.startswith("/owner")]
    return [*addresses, "/leaderboard/telltale-study"]


def variants(path: str, below: str) -> Iterator[str]:
    """Addresses of a page under a public path that a proxy and a server may read differently."""
    first, _, rest = below[1:].partition("/")
    rest = f"/{rest}" if rest else ""
    yield path + below
    yield path + path + below
    yield below
    yield f"{path}/owner{below}"
    yield from (f"{path}/{below}", f"/{path}{below}", path + below.replace("/", "//"))
    for before in ("/.", "/x/..", "/study/..", "/leaderboard/..", "/owner/..", "/x/y/../.."):
        yield path + before + below
    yield f"{path}/..{path}{below}"
    for dots in ("%2e%2e", ".%2e", "%2E%2E", "..%2f", "..%5c", "%252e%252e"):
        yield f"{path}/x/{dots}{below}"
    for slash in ("%2f", "%2F", "%252f", "%5c", "\\"):
        yield path + below.replace("/", slash)
        yield path + "/" + below[1:].replace("/", slash)
    letter = f"%{ord(first[0]):02x}"
    yield f"{path}/{letter}{first[1:]}{rest}"
    yield f"{path}/%25{letter[1:]}{first[1:]}{rest}"
    yield f"{path.replace('h', '%68')}{below}"
    yield f"{path.replace('h', '%68')}{path}{below}"
    yield f"{path}/{first.upper()}{rest}"
    yield f"{path}/{first.title()}{rest}"
    yield path.upper() + below
    for end in ("/", ".", "/.", "/..", "/../", "%20", "%00", ";x=1", "?x", "#x", "/%2e", "//"):
        yield path + below + end
    for end in (";x", ".", "%20", "%00", "%09", "#", "?", "%23", "%3f"):
        yield f"{path}/{first}{end}{rest}"
    yield f"http://localhost{path}{below}"


@pytest.mark.slow
def test_no_address_opens_an_owners_page_without_the_right_password(
    proxied: Proxied, path: str, database: Database
) -> None:
    client, named, app = proxied
    for below in owners_addresses(app):
        for target in sorted(set(variants(path, below))):
            # nginx passes on the name, unverified, where it checks no password.
            status = client.status(target, WRONG)
            assert status < 500, f"{target}: {status}"
    assert (named.requests, named.opened) == ([], [])
    with database.reading() as session:
        assert list(entries(session, Selection())) == []


@pytest.mark.slow
def test_no_page_opens_and_nothing_changes_without_the_right_password(
    proxied: Proxied, path: str, database: Database
) -> None:
    client, named, app = proxied
    for below in owners_addresses(app):
        client.status(path + below, None)
        for prefix in (path, path * 2, f"{path}/x/.."):
            client.status(prefix + below, WRONG, "POST")
    assert (named.requests, named.opened) == ([], [])
    with database.reading() as session:
        assert list(entries(session, Selection())) == []


def test_the_right_password_opens_every_page_of_the_owners_alone(
    proxied: Proxied, path: str
) -> None:
    client, named, app = proxied
    for below in ("/", "/study/", "/leaderboard/telltale-study", "/preview/study/", "/healthz"):
        client.status(path + below, RIGHT)
    assert named.requests == []
    paths = paths_of(app)
    for route in sorted(paths):
        if route.startswith("/owner/") and "GET" in paths[route]:
            status = client.status(path + address_of(route), RIGHT)
            assert status not in (401, 403), f"{route}: {status}"
            assert named.requests.pop() == f"GET {address_of(route)}"
    assert client.status(f"{path}/owner/accounts", RIGHT) == 200
    assert client.status(f"{path}/study/", RIGHT) == 401
    for start in (f"{path}/owner", f"{path}/owner/"):
        target, visited = start, []
        while (reply := client.reply(target, RIGHT))[0] // 100 == 3:
            visited.append(target)
            assert len(visited) < 4, visited
            target = urlsplit(urljoin(f"http://localhost{target}", reply[1])).path
        assert (reply[0], target) == (200, f"{path}/owner/")


def test_a_doubled_path_is_not_found(proxied: Proxied, path: str) -> None:
    client, named, _ = proxied
    for below in ("/owner/accounts", "/owner/", "/study/", "/healthz", ""):
        expected = 404 if path else None
        for password in (None, WRONG, RIGHT):
            status = client.status(f"{path}{path}{below}", password)
            assert expected in (None, status), below
    assert not path or named.requests == []
