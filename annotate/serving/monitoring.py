"""Monitoring of requests: `/metrics` for Prometheus, logs as JSON, and slow statements."""

from __future__ import annotations

import hmac
import json
import logging
import os
import platform
import re
import secrets
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from logging import getLogger
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, perf_counter
from typing import TYPE_CHECKING, Any

import anyio
from anyio import CapacityLimiter
from fastapi import FastAPI, Request, Response
from sqlalchemy import Connection, Engine, event, func, select
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import QueuePool
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hsfiq import __version__
from hsfiq.annotate.handlers import Services
from hsfiq.atomic_files import locked
from hsfiq.db.engine import Database
from hsfiq.db.schema import head_revision
from hsfiq.db.tables import Participant
from hsfiq.db.tables import Response as Answer
from hsfiq.errors import Unavailable, UnreadableInput

if TYPE_CHECKING:
    from prometheus_client.metrics_core import GaugeMetricFamily, Metric


# What is told about each request that was answered: never its path, its sender or its content.

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")

NO_ROUTE = "(none)"
"""For requests without a route, or requests refused before routing."""

HUNG_UP = "(none)"
"""For requests whose client did not wait for an answer."""

request_id: ContextVar[str | None] = ContextVar("request_id", default=None)
"""The id of the request that is being answered."""


@dataclass(frozen=True, slots=True)
class AnsweredRequest:
    """`route` is the template, such as `/start/{token}`."""

    id: str
    method: str
    route: str
    status: str
    seconds: float


class RequestObserver:
    """ASGI middleware that reports each request, and gives it an id."""

    def __init__(self, app: ASGIApp, tell: Sequence[Callable[[AnsweredRequest], None]]) -> None:
        self._app, self._tell = app, tell

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun, status = perf_counter(), HUNG_UP
        new_id, root = secrets.token_hex(8), scope.get("root_path", "")
        request_id.set(new_id)  # also for what the server logs after this middleware has ended

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = str(message["status"])
                MutableHeaders(scope=message)["X-Request-ID"] = new_id
            await send(message)

        try:
            await self._app(scope, receive, send_with_id)
        except Exception:
            status = "500"
            raise
        finally:
            method = scope["method"] if scope["method"] in METHODS else "(other)"
            answered = AnsweredRequest(
                new_id, method, route_of(scope, root), status, perf_counter() - begun
            )
            for tell in self._tell:
                tell(answered)


def route_of(scope: Scope, root: str) -> str:
    """The template of the route that took a request; `root` is the path before routing."""
    path = getattr(scope.get("route"), "path", None)
    if path is None:
        return NO_ROUTE
    mount = str(scope.get("root_path", "")).removeprefix(root)
    return f"{mount}{path}"


# The log as JSON, a line for each record and each answered request.

REQUESTS = "hsfiq.requests"

request_logger = logging.getLogger(REQUESTS)


class JsonFormatter(logging.Formatter):
    """Time, level, logger, message, the id of the request, and further fields of a record."""

    def format(self, record: logging.LogRecord) -> str:
        facts: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if (id_of_request := request_id.get()) is not None:
            facts["request_id"] = id_of_request
        facts |= getattr(record, "facts", {})
        if record.exc_info:
            facts["traceback"] = self.formatException(record.exc_info)
        return json.dumps(facts, ensure_ascii=False)


def log_as_json() -> None:
    """From now on, everything that this process logs to standard error is JSON."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter())
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(logging.WARNING)
    logging.captureWarnings(capture=True)
    request_logger.setLevel(logging.INFO)


def log_request(request: AnsweredRequest) -> None:
    facts = {
        "method": request.method,
        "route": request.route,
        "status": request.status,
        "seconds": round(request.seconds, 4),
    }
    request_logger.info("request", extra={"facts": facts})


PATH = "/metrics"

ACTIVE = timedelta(minutes=5)
"""Participants with a request in this time are active."""

COUNTED_SECONDS = 10.0
"""The answers of the database are counted again after this time."""

SCRAPE_SECONDS = 8.0
"""Prometheus gives up after 10 seconds."""

BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


@dataclass(frozen=True, slots=True)
class Counts:
    """Counts of the whole database, so that they are the same in each process."""

    answers: int
    active: int


class StoredCounts:
    """Counts the database's rows, at most every few seconds."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._counts: Counts | None = None
        self._counted_at = -COUNTED_SECONDS

    def now(self) -> Counts | None:
        """None if the database cannot be read."""
        if self._counts is None or monotonic() - self._counted_at > COUNTED_SECONDS:
            self._counts = self._read()
            self._counted_at = monotonic()
        return self._counts

    def _read(self) -> Counts | None:
        now = datetime.now(UTC)
        active = select(func.count()).where(Participant.seen_at.between(now - ACTIVE, now + ACTIVE))
        try:
            with self._database.reading() as session:
                answers = session.scalar(select(func.count()).select_from(Answer))
                return Counts(answers or 0, session.scalar(active) or 0)
        except (Unavailable, SQLAlchemyError):
            return None


class ServerCollector:
    """The values that are read when Prometheus asks."""

    def __init__(self, database: Database) -> None:
        self._counts = StoredCounts(database)

    def collect(self) -> Iterator[Metric]:
        from prometheus_client.metrics_core import GaugeMetricFamily  # noqa: PLC0415 (only with metrics)

        counts = self._counts.now()
        yield gauge("hsfiq_database_up", "Whether the database can be read", counts is not None)
        if counts is not None:
            yield gauge(
                "hsfiq_answers", "Answers in the database, with all revisions", counts.answers
            )
            active = "Participants with a request in the last five minutes"
            yield gauge("hsfiq_participants_active", active, counts.active)
        build = GaugeMetricFamily(
            "hsfiq_build_info",
            "1, with the versions as labels",
            labels=["version", "python", "schema"],
        )
        build.add_metric([__version__, platform.python_version(), head_revision()], 1)
        yield build


def gauge(name: str, help_text: str, value: float) -> GaugeMetricFamily:
    from prometheus_client.metrics_core import GaugeMetricFamily  # noqa: PLC0415 (only with metrics)

    return GaugeMetricFamily(name, help_text, value)


class WorkersCollector:
    """The metrics that all workers have written to their files in one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def collect(self) -> Iterable[Metric]:
        from prometheus_client.multiprocess import MultiProcessCollector  # noqa: PLC0415 (only with metrics)

        # The library fails on a file that it has created in another process and not yet enlarged.
        files = [str(file) for file in self._folder.glob("*.db") if has_content(file)]
        metrics: Iterable[Metric] = MultiProcessCollector.merge(files)  # type: ignore[no-untyped-call]
        return metrics


def has_content(file: Path) -> bool:
    """False also for a file that was deleted in the meantime."""
    try:
        return file.stat().st_size > 0
    except FileNotFoundError:
        return False


class Metrics:
    """The numbers of one app, or of all workers that write theirs to files in one folder.

    The numbers of a worker that has ended still count, except its connections.
    """

    def __init__(self, services: Services, folder: Path | None = None) -> None:
        from prometheus_client import (  # noqa: PLC0415 (only with metrics)
            CollectorRegistry,
            Counter,
            Gauge,
            Histogram,
            ProcessCollector,
        )

        self._services, self._n_told = services, 0
        self.registry = CollectorRegistry()
        self.registry.register(ServerCollector(services.database))
        if folder is None:
            ProcessCollector(registry=self.registry)
        else:
            self.registry.register(WorkersCollector(folder))
        # The collector of the folder has what the others would tell of this worker alone.
        own = self.registry if folder is None else None
        self._requests = Counter(
            "hsfiq_requests",
            "Requests that were answered, by route and status",
            ["method", "route", "status"],
            registry=own,
        )
        self._seconds = Histogram(
            "hsfiq_request_seconds",
            "Time from a request to the end of its answer",
            ["route"],
            buckets=BUCKETS,
            registry=own,
        )
        self._thumbnails = Counter(
            "hsfiq_thumbnails_made", "Copies of images that were made", registry=own
        )
        self._connections = Gauge(
            "hsfiq_database_connections",
            "Connections of the processes that answer",
            ["state"],
            registry=own,
            multiprocess_mode="livesum",
        )
        workers = Gauge(
            "hsfiq_workers", "Processes that answer", registry=own, multiprocess_mode="livesum"
        )
        workers.set(1)

    def count(self, request: AnsweredRequest) -> None:
        self._requests.labels(request.method, request.route, request.status).inc()
        self._seconds.labels(request.route).observe(request.seconds)
        self.update()

    def update(self) -> None:
        """Write the values read from the services; the event loop calls it, one call at a time."""
        n_made = self._services.images.copies.n_made
        self._thumbnails.inc(n_made - self._n_told)
        self._n_told = n_made
        pool = self._services.database.engine.pool
        if isinstance(pool, QueuePool):
            self._connections.labels("in use").set(pool.checkedout())
            self._connections.labels("idle").set(pool.checkedin())


def add_metrics(
    app: FastAPI, services: Services, token: str, folder: Path | None = None
) -> Metrics:
    """Add the route, which answers only requests with the token.

    `folder` is that of the metrics of all workers, None if this process alone answers.
    """
    from prometheus_client.exposition import (  # noqa: PLC0415 (only with metrics)
        CONTENT_TYPE_LATEST,
        generate_latest,
    )

    metrics = Metrics(services, folder)
    threads = CapacityLimiter(1)
    expected = f"Bearer {token}".encode()

    @app.get(PATH)
    async def show(request: Request) -> Response:
        given = request.headers.get("authorization", "").encode()
        if not hmac.compare_digest(given, expected):
            headers = {"WWW-Authenticate": "Bearer", "Cache-Control": "no-store"}
            return Response(status_code=401, headers=headers)
        metrics.update()
        with anyio.move_on_after(SCRAPE_SECONDS):
            content = await anyio.to_thread.run_sync(
                generate_latest, metrics.registry, abandon_on_cancel=True, limiter=threads
            )
            headers = {"Cache-Control": "no-store"}
            return Response(content, media_type=CONTENT_TYPE_LATEST, headers=headers)
        return Response(status_code=503, headers={"Cache-Control": "no-store"})

    return metrics


# A line of the log for each statement that took long: its text, without values.

LONGEST_SHOWN = 2000

BEGUN = "hsfiq_statement_begun"

statement_logger = getLogger(__name__)


def log_slow_statements(engine: Engine, seconds: float) -> None:
    """From now on, log statements that take at least this time, including failed ones."""

    def begin(connection: Connection, *_: Any) -> None:
        connection.info[BEGUN] = perf_counter()

    def end(connection: Connection, _cursor: Any, statement: str, *_: Any) -> None:
        tell(connection, statement)

    def fail(context: ExceptionContext) -> None:
        if context.connection is not None and context.statement is not None:
            tell(context.connection, context.statement)

    def tell(connection: Connection, statement: str) -> None:
        took = perf_counter() - connection.info.pop(BEGUN, perf_counter())
        if took >= seconds:
            text = " ".join(statement.split())[:LONGEST_SHOWN]
            facts = {"seconds": round(took, 3), "statement": text}
            statement_logger.warning(
                "slow statement, %.3f s: %s", took, text, extra={"facts": facts}
            )

    event.listen(engine, "before_cursor_execute", begin)
    event.listen(engine, "after_cursor_execute", end)
    event.listen(engine, "handle_error", fail)


# What an administrator sees of a running server: numbers, a log of requests, slow statements.

TOKEN = re.compile(r"[!-~]{16,200}")

METRICS_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
"""Names the folder to prometheus_client, whose values are then in files that all workers read."""

METRICS_FOLDERS = "hsfiq-metrics-"

MAKE_ONE = "make one with `(umask 077; openssl rand -hex 32 > FILE)`"


@dataclass(frozen=True, slots=True)
class Watching:
    """The options for monitoring.

    Attributes:
        metrics_token: the token that Prometheus has to send; None: there is no `/metrics`.
        metrics_folder: where all workers write their metrics; None if there is one process.
        logs_json: whether the log is JSON and has a line for each request.
        slow_seconds: the duration from which a database statement is logged; None: never.
    """

    metrics_token: str | None = None
    metrics_folder: Path | None = None
    logs_json: bool = False
    slow_seconds: float | None = None


NOTHING = Watching()


def add_watching(app: FastAPI, services: Services, watching: Watching) -> None:
    tell: list[Callable[[AnsweredRequest], None]] = []
    if watching.metrics_token is not None:
        folder = watching.metrics_folder
        if folder is not None:
            os.environ[METRICS_VARIABLE] = str(folder)  # read when the library is imported
        # Only servers with metrics load the library.

        tell.append(add_metrics(app, services, watching.metrics_token, folder).count)
    if watching.logs_json:
        tell.append(log_request)
    if tell:
        app.add_middleware(RequestObserver, tell=tell)


@contextmanager
def shared_metrics(watching: Watching) -> Iterator[tuple[Watching, Callable[[int], None]]]:
    """The monitoring of each of several workers, and the function to call when a worker has ended.

    Their metrics are in a private folder, which is deleted at the end, or else by the next server.
    """
    if watching.metrics_token is None:
        yield watching, lambda _pid: None
        return
    clear_metrics()
    with TemporaryDirectory(prefix=METRICS_FOLDERS) as folder, locked(Path(folder)):

        def forget(pid: int) -> None:
            from prometheus_client.multiprocess import mark_process_dead  # noqa: PLC0415

            mark_process_dead(pid, folder)  # type: ignore[no-untyped-call]

        yield replace(watching, metrics_folder=Path(folder)), forget


def clear_metrics() -> None:
    """Delete the folders of servers that were killed; running ones have locked theirs."""
    if sys.platform == "win32":  # where nothing is locked
        return
    for folder in Path(tempfile.gettempdir()).glob(f"{METRICS_FOLDERS}*"):
        with suppress(OSError):
            if any(folder.iterdir()):  # it may be new, and not locked yet
                with locked(folder):
                    shutil.rmtree(folder)


def start_logs(engine: Engine, watching: Watching) -> None:
    if watching.logs_json:
        log_as_json()
    if watching.slow_seconds is not None:
        log_slow_statements(engine, watching.slow_seconds)


def token_in(file: Path) -> str:
    """The token in the first line of a file that only its owner or a group can read."""
    try:
        token = file.read_text(encoding="ascii").partition("\n")[0].strip()
        mode = file.stat().st_mode
    except OSError as error:
        raise UnreadableInput(str(file), f"cannot be read ({error.strerror})", MAKE_ONE) from error
    except UnicodeDecodeError as error:
        raise UnreadableInput(str(file), "holds no token", MAKE_ONE) from error
    if os.name == "posix" and mode & (stat.S_IRWXO | stat.S_IWGRP):
        raise UnreadableInput(str(file), "others can read or change it", f"chmod 600 {file}")
    if not TOKEN.fullmatch(token):
        what = "holds no token of 16 to 200 characters without spaces"
        raise UnreadableInput(str(file), what, MAKE_ONE)
    return token
