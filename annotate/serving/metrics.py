"""`/metrics`: numbers of this server for Prometheus, for whoever has the token.

No label and no value tells of a person: routes are templates, and counts are of everybody.
"""

from __future__ import annotations

import hmac
import platform
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

import anyio
from anyio import CapacityLimiter
from fastapi import FastAPI, Request, Response
from sqlalchemy import func, select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import QueuePool

from hsfiq import __version__
from hsfiq.annotate.handlers import Services
from hsfiq.annotate.serving.requests import AnsweredRequest
from hsfiq.db.engine import Database
from hsfiq.db.schema import head_revision
from hsfiq.db.tables import Participant
from hsfiq.db.tables import Response as Answer
from hsfiq.errors import Unavailable

if TYPE_CHECKING:
    from prometheus_client.metrics_core import GaugeMetricFamily, Metric

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
    """Of the whole database, so that they are the same in each process."""

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
    """What is read when Prometheus asks."""

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


class Metrics:
    """The numbers of one app, or of all workers that write theirs to files in one folder.

    Those of a worker that has ended still count, but for its connections.
    """

    def __init__(self, services: Services, folder: Path | None = None) -> None:
        from prometheus_client import (  # noqa: PLC0415 (only with metrics)
            CollectorRegistry,
            Counter,
            Gauge,
            Histogram,
            ProcessCollector,
        )
        from prometheus_client.multiprocess import MultiProcessCollector  # noqa: PLC0415 (only with metrics)

        self._services, self._n_told = services, 0
        self.registry = CollectorRegistry()
        self.registry.register(ServerCollector(services.database))
        if folder is None:
            ProcessCollector(registry=self.registry)
        else:
            MultiProcessCollector(self.registry, str(folder))  # type: ignore[no-untyped-call]
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
        """Write what is read from the services; the event loop calls it, one call at a time."""
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
