"""`hsfiq doctor`: what browsers meet at the public URL, behind nginx over TLS."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from fastapi import FastAPI
from sqlalchemy import text

from hsfiq.annotate.app import plain_app
from hsfiq.annotate.handlers import Services
from hsfiq.annotate.security import StudyMiddleware
from hsfiq.annotate.serving.proxy import PublicAddress
from hsfiq.db.engine import Database
from hsfiq.db.schema import head_revision
from hsfiq.doctor import Finding, examine_proxy
from hsfiq.public_url import parsed_url
from tests.annotate.serving.proxies import SERVER, documented, free_port, make_certificate, nginx
from tests.live_servers import serving

pytestmark = pytest.mark.parametrize("kind", ["sqlite"])

BARE = SERVER.format(location="location / { proxy_pass http://127.0.0.1:7860; }")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tls")
    make_certificate(folder)
    return folder


@pytest.fixture
def trusted(certificate: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """This process trusts the certificate."""
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate / "study.pem"))
    return certificate


@pytest.fixture
def proxied(database: Database, tmp_path: Path, certificate: Path) -> Iterator[Callable[..., str]]:
    """Serve the app behind nginx; the public URL with this path."""
    with ExitStack() as stack:

        def start(server: str, path: str = "", *, knows_its_address: bool) -> str:
            port = free_port()
            public = parsed_url(f"https://localhost:{port}{path}", "--public-url")
            app: FastAPI = plain_app(Services.of(database))
            app.add_middleware(StudyMiddleware, pages={})
            app.add_middleware(PublicAddress, public=public if knows_its_address else None)
            upstream = stack.enter_context(serving(app))
            stack.enter_context(nginx(tmp_path, certificate, server, upstream, port))
            return str(public)

        yield start


def examined(url: str) -> list[Finding]:
    return list(examine_proxy(parsed_url(url, "--public-url")))


@pytest.mark.parametrize(("number", "path"), [(0, ""), (1, "/hsfiq")])
def test_the_documented_configurations_are_well(
    proxied: Callable[..., str], trusted: Path, number: int, path: str
) -> None:
    answer, expiry = examined(proxied(documented()[number], path, knows_its_address=True))
    assert answer.status == "ok"
    assert answer.what.endswith("answers, and knows its address")
    # The test's certificate is valid for two days.
    assert (expiry.status, expiry.check) == ("warning", "proxy")
    assert "the certificate ends at" in expiry.what


def test_a_server_that_is_not_ready_is_found_through_the_proxy(
    proxied: Callable[..., str], trusted: Path, database: Database
) -> None:
    url = proxied(documented()[0], knows_its_address=True)
    with database.writing() as session:
        session.execute(text("UPDATE alembic_version SET version_num = '0001'"))
    try:
        answer, readiness, _ = examined(url)
    finally:
        with database.writing() as session:
            session.execute(text(f"UPDATE alembic_version SET version_num = '{head_revision()}'"))
    assert answer.status == "ok"
    assert readiness.status == "problem"
    assert f"{url}readyz: answers 503: migrations: revision 0001, needed is" in readiness.what


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("", "refuses its own pages"),
        ("proxy_set_header Host $http_host;", "takes http://localhost:"),
    ],
)
def test_a_proxy_that_does_not_say_what_browsers_use(
    proxied: Callable[..., str], trusted: Path, setting: str, words: str
) -> None:
    server = BARE.replace("7860; }", f"7860; {setting} }}")
    url = proxied(server, knows_its_address=False)
    answer, clients, _ = examined(url)
    assert clients.status == "problem"
    assert answer.status == "problem"
    assert words in answer.what
    assert answer.fix == f"hsfiq serve --public-url {url}"


def test_a_proxy_that_hides_the_clients(
    proxied: Callable[..., str], trusted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = proxied(BARE, knows_its_address=True)
    answer, client, _ = examined(url)
    assert answer.status == "ok"
    assert client.status == "problem"
    assert client.what.startswith(f"{url}: all browsers count as one client, because the proxy")
    setting, _, _ = client.fix.partition(" in nginx")
    assert setting in documented()[0]
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", "192.0.2.1")
    server = BARE.replace("7860; }", f"7860; {setting} }}")
    _, client, _ = examined(proxied(server, knows_its_address=True))
    assert (client.status, "does not trust their" in client.what) == ("problem", True)
    monkeypatch.delenv("FORWARDED_ALLOW_IPS")
    answer, _ = examined(proxied(server, knows_its_address=True))
    assert answer.status == "ok"


def test_without_a_proxy_the_clients_are_known(database: Database) -> None:
    app: FastAPI = plain_app(Services.of(database))
    app.add_middleware(StudyMiddleware, pages={})
    with serving(app) as url:
        (answer,) = examined(url)
    assert answer.status == "ok"


def test_a_proxy_with_another_path_and_one_that_reaches_nothing(
    proxied: Callable[..., str], trusted: Path, tmp_path: Path
) -> None:
    url = proxied(BARE, knows_its_address=True)
    answer, _ = examined(f"{url}other")
    assert (answer.status, "answers 404: that is not hsfiq" in answer.what) == ("problem", True)
    port = free_port()
    with nginx(tmp_path, trusted, BARE, f"http://127.0.0.1:{free_port()}", port):
        answer, _ = examined(f"https://localhost:{port}")
    assert (answer.status, "answers 502: the proxy does not" in answer.what) == ("problem", True)


def test_a_certificate_that_browsers_refuse(proxied: Callable[..., str]) -> None:
    (answer,) = examined(proxied(BARE, knows_its_address=True))
    assert answer.status == "problem"
    assert "browsers refuse the certificate" in answer.what


def test_nothing_that_answers(kind: str) -> None:
    (answer,) = examined(f"http://127.0.0.1:{free_port()}")
    assert (answer.status, "nothing answers (Connection refused)" in answer.what) == (
        "problem",
        True,
    )
