"""What tests of several packages need: databases of both kinds, the real data, a browser."""

from __future__ import annotations

import gc
import json
import os
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

import pytest
from hypothesis import HealthCheck, settings
from playwright.sync_api import Browser, BrowserContext, Error, sync_playwright
from sqlalchemy.exc import DBAPIError

from hsfiq.db.engine import Database
from tests.browser import new_context_of
from tests.databases import PostgresServer, ReusedPostgres, ReusedSqlite, share_statements
from tests.drawings import share_fonts, share_pictures
from tests.opened_tables import opened_quickly
from tests.processes import started_server, use_server

ROOT = Path(__file__).parent.parent
POSTGRES_VARIABLE = "HSFIQ_TEST_POSTGRES_URL"
POSTGRES_URL = "postgresql://postgres@127.0.0.1:5432/postgres"
SHARED_VARIABLE = "HSFIQ_SHARED"
FORKED_WORKER = ROOT / "tests" / "forked_worker.py"
CONNECTION = pytest.StashKey[dict[str, Any]]()
"""How workers connect to the server that they fork from."""

# Collecting the tests imports every library and keeps what it makes: two million objects, which the
# garbage collector would examine again and again. It starts when they are all there, without them.
gc.disable()

# Test workers already use every core, and tests' tensors are small. Subprocesses inherit this.
os.environ["OMP_NUM_THREADS"] = "1"

# SQLite waits for the disk at each commit.
MEMORY = Path("/dev/shm")
if MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > 8 * 2**30:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))  # where pytest makes its folders

share_statements()
share_pictures()

# A busy machine is no failure.
settings.register_profile("any load", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any load")


def pytest_xdist_auto_num_workers() -> int:
    """One worker more than cores, because tests wait for disks, databases and browsers."""
    return (os.cpu_count() or 1) + 1


@pytest.hookimpl(optionalhook=True)  # of pytest-xdist
def pytest_xdist_setupnodes(config: pytest.Config, specs: Sequence[Any]) -> None:
    """Let all workers, and the processes that they start, fork from one server.

    When coverage is measured, workers import the modules themselves, since that counts, too.
    """
    is_measured = bool(getattr(config.option, "cov_source", None))
    server = started_server([] if is_measured else ["tests.imported_modules"])
    words = (sys.executable, FORKED_WORKER, json.dumps(server))
    config.stash[CONNECTION] = server
    for spec in [] if is_measured else specs:
        spec.python = shlex.join(map(str, words))


@pytest.hookimpl(optionalhook=True)  # of pytest-xdist
def pytest_configure_node(node: Any) -> None:
    node.workerinput["forkserver"] = node.config.stash[CONNECTION]


def pytest_configure(config: pytest.Config) -> None:
    if worker := getattr(config, "workerinput", None):
        use_server(worker["forkserver"])


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run a module's tests in one worker, and start with the modules that have slow tests.

    Modules that share expensive fixtures name one group: `pytest.mark.xdist_group("...")`.
    """
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)
    for item in items:
        if not item.get_closest_marker("xdist_group"):
            item.add_marker(pytest.mark.xdist_group(item.path.relative_to(ROOT).as_posix()))


def pytest_collection_finish() -> None:
    share_fonts()
    gc.freeze()
    gc.enable()


def do_without(reason: str) -> NoReturn:
    """Skip the test with this reason; where everything has to be there (CI), fail it."""
    if os.environ.get("CI") == "true":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


# -------------------------------------------------------------------------------------- databases


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
def reused_postgres(postgres_server: PostgresServer) -> Iterator[ReusedPostgres]:
    """The PostgreSQL database that the tests of this process use in turn."""
    database = ReusedPostgres(postgres_server)
    yield database
    database.close()


@pytest.fixture(scope="session")
def reused_sqlite(tmp_path_factory: pytest.TempPathFactory) -> ReusedSqlite:
    """The SQLite file that the tests of this process use in turn."""
    return ReusedSqlite(tmp_path_factory.mktemp("reused") / "test.db")


@pytest.fixture
def empty_postgres(postgres_server: PostgresServer) -> Iterator[str]:
    """The URL of a PostgreSQL database without any table."""
    url = postgres_server.make()
    yield url
    postgres_server.drop(url)


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
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
def reused(kind: str, request: pytest.FixtureRequest) -> Iterator[ReusedSqlite | ReusedPostgres]:
    """A migrated, empty database of each kind, emptied again after the test."""
    names = {"sqlite": "reused_sqlite", "postgresql": "reused_postgres"}
    database: ReusedSqlite | ReusedPostgres = request.getfixturevalue(names[kind])
    yield database
    database.clean()


@pytest.fixture
def database_url(reused: ReusedSqlite | ReusedPostgres) -> str:
    """The URL of a migrated, empty database of each kind."""
    return reused.url


@pytest.fixture
def database(reused: ReusedSqlite | ReusedPostgres) -> Database:
    """A migrated, empty database of each kind, open."""
    return Database(reused.engine)


# ------------------------------------------------------------------------------- what tests need


@pytest.fixture(scope="session", autouse=True)
def opened_tables() -> Iterator[None]:
    with opened_quickly():
        yield


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
    "--disable-gpu-compositing",
    "--disable-gpu-rasterization",
    "--in-process-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--process-per-site",  # a page starts in the process of `reused_context`'s first page
    "--host-resolver-rules=MAP *.test 127.0.0.1",
]

FIRST_PAGE = "http://127.0.0.1/"
"""No server has to be there. A site is a scheme and a host, whatever the port."""


def installed_chromium() -> str | None:
    """The system's Chromium, None for Playwright's own."""
    names = ("chromium-headless-shell", "chromium", "chromium-browser")
    return next(filter(None, map(shutil.which, names)), None)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """A real Chromium, the system's or Playwright's own.

    The headless shell needs less than half of the time of the whole browser.
    """
    with sync_playwright() as playwright:
        try:
            browser = playwright.chromium.launch(executable_path=installed_chromium(), args=QUIET)
        except Error as error:
            install = "`apt-get install chromium-headless-shell`, or `playwright install chromium`"
            do_without(f"no Chromium found ({install}): {str(error).splitlines()[0]}")
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def reused_context(chromium: Browser) -> Iterator[BrowserContext]:
    """The context that the tests of this process use in turn.

    Its first page stays open, so that the process of the study's pages does, too.
    """
    context = new_context_of(chromium)
    page = context.new_page()
    page.route(FIRST_PAGE, lambda route: route.fulfill(content_type="text/html", body="open"))
    page.goto(FIRST_PAGE)
    yield context
    context.close()


@pytest.fixture
def context(reused_context: BrowserContext) -> Iterator[BrowserContext]:
    """A context without pages and cookies, which has Gradio's scripts in its cache.

    Fetching and compiling them takes half of the time that a page needs.
    """
    yield reused_context
    for page in reused_context.pages[1:]:
        page.close()
    reused_context.clear_cookies()
    reused_context.set_offline(offline=False)
