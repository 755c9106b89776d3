"""Databases of both kinds, made for one test and dropped after it, and the real data."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import pytest
from playwright.sync_api import Browser, Error, sync_playwright
from sqlalchemy import Engine, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DBAPIError

from hsfiq.db.engine import Database, connect, open_database
from hsfiq.db.schema import upgrade

ROOT = Path(__file__).parent.parent
POSTGRES_VARIABLE = "HSFIQ_TEST_POSTGRES_URL"
POSTGRES_URL = "postgresql://postgres@127.0.0.1:5432/postgres"
SHARED_VARIABLE = "HSFIQ_SHARED"

# Test workers already use every core, and tests' tensors are small. Subprocesses inherit this.
os.environ["OMP_NUM_THREADS"] = "1"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put modules with slow tests first, so that no worker is left alone with one at the end."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


def do_without(reason: str) -> NoReturn:
    """Skip the test with this reason; where everything has to be there (CI), fail it."""
    if os.environ.get("CI") == "true":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


# ------------------------------------------------------------------------------------- PostgreSQL


class PostgresServer:
    """Databases of its own on a running server, their names known to nobody else."""

    def __init__(self, url: str) -> None:
        self.url = make_url(url)
        self.engine: Engine = connect(url).execution_options(isolation_level="AUTOCOMMIT")
        self.prefix = f"hsfiq_test_{secrets.token_hex(6)}"
        self.names: list[str] = []

    def make(self, template: str = "template0") -> str:
        """Make a database and return its URL."""
        name = f"{self.prefix}_{len(self.names)}"
        self.run(f'CREATE DATABASE "{name}" TEMPLATE "{template}"')
        self.names.append(name)
        return self.url.set(database=name).render_as_string(hide_password=False)

    def drop_all(self) -> None:
        """Drop whatever was made and close the connections."""
        for name in self.names:
            self.drop(name)
        self.engine.dispose()

    def drop(self, name: str | None) -> None:
        """Drop a database, whoever is still connected to it."""
        self.run(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')

    def run(self, statement: str) -> None:
        """Run one statement outside any transaction."""
        with self.engine.connect() as connection:
            connection.execute(text(statement))


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """The server that HSFIQ_TEST_POSTGRES_URL names; the test is skipped where none answers."""
    server = PostgresServer(os.environ.get(POSTGRES_VARIABLE, POSTGRES_URL))
    try:
        server.run("SELECT 1")
    except DBAPIError as error:
        server.engine.dispose()
        reason = str(error.orig).strip().splitlines()[0]
        do_without(f"no PostgreSQL at {server.url!r} ({POSTGRES_VARIABLE} names one): {reason}")
    yield server
    server.drop_all()


@pytest.fixture(scope="session")
def migrated_postgres(postgres_server: PostgresServer) -> str:
    """The name of a migrated PostgreSQL database that tests' own are copied from."""
    url = postgres_server.make()
    migrate(url)
    return str(make_url(url).database)


@pytest.fixture
def empty_postgres(postgres_server: PostgresServer) -> Iterator[str]:
    """The URL of a PostgreSQL database without any table."""
    url = postgres_server.make()
    yield url
    postgres_server.drop(make_url(url).database)


# ------------------------------------------------------------------------------------ both kinds


@pytest.fixture(scope="session")
def migrated_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated SQLite file that tests' own are copied from."""
    path = tmp_path_factory.mktemp("migrated") / "empty.db"
    migrate(f"sqlite:///{path}")
    return path


@pytest.fixture(
    params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)],
)
def kind(request: pytest.FixtureRequest) -> str:
    """Each kind of database in turn."""
    return str(request.param)


@pytest.fixture
def empty_url(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a database of each kind that has no table yet."""
    if kind == "sqlite":
        return f"sqlite:///{tmp_path / 'empty.db'}"
    return str(request.getfixturevalue("empty_postgres"))


@pytest.fixture
def database_url(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of a migrated, empty database of each kind, the test's own."""
    if kind == "sqlite":
        path = tmp_path / "test.db"
        shutil.copyfile(request.getfixturevalue("migrated_sqlite"), path)
        yield f"sqlite:///{path}"
        return
    server: PostgresServer = request.getfixturevalue("postgres_server")
    url = server.make(template=request.getfixturevalue("migrated_postgres"))
    yield url
    server.drop(make_url(url).database)


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    """A migrated, empty database of each kind, open."""
    opened = open_database(database_url)
    yield opened
    opened.close()


def migrate(url: str) -> None:
    """What `hsfiq db upgrade` does."""
    engine = connect(url)
    upgrade(engine)
    engine.dispose()


# ------------------------------------------------------------------------------- what tests need


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of the real data; mark tests that take it with `shared`."""
    folder = Path(os.environ.get(SHARED_VARIABLE, ROOT.parent / "shared"))
    if not (folder / "data").is_dir():
        do_without(f"the real data is not at {folder}; {SHARED_VARIABLE} names its folder")
    return folder


@pytest.fixture(scope="session")
def need() -> Callable[..., None]:
    """Skip a test (fail it in CI) unless these Python packages are installed."""

    def needed(*packages: str) -> None:
        from importlib.util import find_spec

        missing = [name for name in packages if find_spec(name) is None]
        if missing:
            do_without(f"{', '.join(missing)} not installed: pip install -e '.[dev]'")

    return needed


# ---------------------------------------------------------------------------------------- browser

QUIET = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--host-resolver-rules=MAP *.test 127.0.0.1",
]


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """A real Chromium, the system's or Playwright's own."""
    with sync_playwright() as playwright:
        installed = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
        try:
            browser = playwright.chromium.launch(executable_path=installed, args=QUIET)
        except Error as error:
            install = "`apt-get install chromium`, or `playwright install chromium`"
            do_without(f"no Chromium found ({install}): {str(error).splitlines()[0]}")
        yield browser
        browser.close()
