"""A lab's server: 300 people, three studies, three workers behind nginx, on PostgreSQL.

People think for 15 seconds on average and fetch each image once, as browsers do. At half time a
worker is killed; with `--full`, nginx is killed and started again later, and then PostgreSQL is
silent for ten seconds and refuses connections for ten more. People repeat what was not
acknowledged. In the end each acknowledged answer must be stored in one row, and no pair may have
more answers than the design requires. `connections` and `memory_mb` are those of all workers at the
end of each tenth of the run: they must not grow. `answers` are those acknowledged in each tenth.

`benchmarks.lab` says what it needs.
"""

from __future__ import annotations

import os
import resource
import signal
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from sqlalchemy import Engine, func, select, text

from benchmarks.browsing import quantiles, wait_until
from benchmarks.lab import (
    PostgresPlace,
    cpu_of,
    cpu_seconds,
    memory_mb,
    new_database,
    proxied,
    workers_of,
)
from benchmarks.nginx import Nginx
from benchmarks.serving import Annotator, Server, make_study
from benchmarks.soak import Ledger, retry
from benchmarks.tcp_proxy import TcpProxy, postgres_behind_proxy
from hsfiq.collect.protocol import SubmitPayload
from hsfiq.db.engine import connect
from hsfiq.db.tables import Question, Response, Study

STUDIES, WORKERS = 3, 3
THINKING = 15.0
"""Seconds between two answers of a person, on average."""

PARTS = 10
WORKER_ENDS, NGINX_ENDS, OUTAGE = 5, 7, 8
"""The faults come when so many tenths are over."""


@dataclass(frozen=True, slots=True)
class Size:
    people: int
    seconds: float
    thinking: float = THINKING
    outage: float = 0.0
    """Seconds without PostgreSQL; 0 for a run in which only a worker is killed."""

    @property
    def questions(self) -> int:
        """More than a person can answer."""
        return round(2 * self.seconds / self.thinking) + 10


SIZE, FULL_SIZE = Size(300, 120), Size(300, 1200, outage=20)


@dataclass(slots=True)
class Watch:
    """What the workers used, sample by sample."""

    memory_mb: list[float] = field(default_factory=list)
    connections: list[int] = field(default_factory=list)
    answers: list[int] = field(default_factory=list)


@dataclass(slots=True)
class Lab:
    """The workers, nginx in front of them, and the proxy between them and PostgreSQL."""

    server: Server
    nginx: Nginx
    postgres: TcpProxy
    faults: list[str] = field(default_factory=list)
    cpu_of_killed: float = 0.0

    def cause_fault(self, tenths: int, outage: float) -> None:
        """What is due after so many tenths of the run."""
        if tenths == WORKER_ENDS:
            self.kill_worker()
        elif tenths == NGINX_ENDS and outage:
            self.restart_nginx()
        elif tenths == OUTAGE and outage:
            self.cut_postgres(outage)

    def kill_worker(self) -> None:
        killed = workers_of(self.server)[0]
        self.cpu_of_killed += cpu_of(killed)
        os.kill(killed, signal.SIGKILL)
        self.faults.append("worker")

    def restart_nginx(self) -> None:
        self.nginx.stop(signal.SIGKILL)
        self.nginx.start()
        self.faults.append("nginx")

    def cut_postgres(self, seconds: float) -> None:
        self.postgres.fall_silent()
        time.sleep(seconds / 2)
        self.postgres.reset()
        time.sleep(seconds / 2)
        self.postgres.recover()
        self.faults.append("postgresql")


def run(seed: int, full: bool) -> dict[str, Any]:
    """Answer for two minutes, or for twenty with `full`."""
    return soak(FULL_SIZE if full else SIZE, seed)


def soak(size: Size, seed: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as name, new_database() as url:
        place = PostgresPlace(Path(name), url)
        tokens = make_study(
            place, size.people // STUDIES, size.questions, seed, checks=True, studies=STUDIES
        )
        with (
            postgres_behind_proxy(url) as (through, postgres),
            proxied(PostgresPlace(place.folder, through), WORKERS) as (server, nginx),
        ):
            people = [Annotator(nginx.port, token, Random(n)) for n, token in enumerate(tokens)]
            return answer(place, Lab(server, nginx, postgres), people, size)


def answer(place: PostgresPlace, lab: Lab, people: list[Annotator], size: Size) -> dict[str, Any]:
    ledger, watch = Ledger(), Watch()
    used = cpu_seconds(lab.server)
    begun = time.monotonic()
    threads = start(people, ledger, size.thinking)
    engine = connect(place.url)
    for part in range(PARTS):
        time.sleep(max(0.0, begun + (part + 1) * size.seconds / PARTS - time.monotonic()))
        watch.memory_mb.append(memory_mb(lab.server))
        watch.connections.append(n_connections(engine))
        watch.answers.append(len(ledger.acknowledged) - sum(watch.answers))
        lab.cause_fault(part + 1, size.outage)
    ledger.over.set()
    wait_until(lambda: not any(thread.is_alive() for thread in threads), "every person", 300)
    seconds = time.monotonic() - begun
    used = cpu_seconds(lab.server) + lab.cpu_of_killed - used
    counts = stored_counts(engine, ledger, size)
    engine.dispose()
    p50, p95 = quantiles(ledger.seconds)
    return {
        "name": "soak-workers",
        "people": len(people),
        "studies": STUDIES,
        "workers": WORKERS,
        "seconds": round(seconds),
        "acknowledged": len(ledger.acknowledged),
        **counts,
        "refused": len(ledger.refusals),
        "faults": lab.faults,
        "repeated": len(ledger.repeated),
        "images": sum(ledger.images),
        "p50_ms": p50,
        "p95_ms": p95,
        "cores_of_workers": round(used / seconds, 2),
        "cores_of_people": round(resource.getrusage(resource.RUSAGE_SELF).ru_utime / seconds, 2),
        "memory_mb": watch.memory_mb,
        "connections": watch.connections,
        "answers": watch.answers,
        "cases": [],
    }


def start(people: list[Annotator], ledger: Ledger, thinking: float) -> list[threading.Thread]:
    threads = [
        threading.Thread(target=answer_on, args=(person, ledger, thinking), daemon=True)
        for person in people
    ]
    for thread in threads:
        thread.start()
    return threads


def answer_on(person: Annotator, ledger: Ledger, thinking: float) -> None:
    """Answer until the run is over; each request is repeated until the server replies."""

    def fetch() -> None:
        ledger.images.append(person.fetch_images())

    if ledger.over.wait(person.rng.uniform(0, thinking)):
        return
    retry(person, person.enter, ledger)
    while not ledger.over.is_set() and not person.is_done:
        retry(person, person.pass_checks, ledger)
        if person.view["step"] != "question":
            continue
        retry(person, fetch, ledger)
        if ledger.over.wait(min(person.rng.expovariate(1 / thinking), 4 * thinking)):
            break
        body = person.submission()
        begun = time.perf_counter()

        def submit(body: SubmitPayload = body) -> None:
            person.view = person.post("/submit", body)["view"]

        if retry(person, submit, ledger):
            ledger.seconds.append(time.perf_counter() - begun)
            ledger.acknowledged.append(body["submit_key"])
    person.browser.close()


def n_connections(engine: Engine) -> int:
    """Connections to the database, but for the one that asks."""
    query = text(
        "SELECT count(*) FROM pg_stat_activity "
        "WHERE datname = current_database() AND pid <> pg_backend_pid() "
        "AND backend_type = 'client backend'"
    )
    with engine.connect() as connection:
        return int(connection.scalar(query) or 0)


def stored_counts(engine: Engine, ledger: Ledger, size: Size) -> dict[str, int]:
    """Compare acknowledged with stored answers, and these with the design."""
    with engine.connect() as connection:
        stored = set(connection.scalars(select(Response.submit_key)))
        rows = connection.execute(
            select(Question.pair_id, func.count(Response.id))
            .join(Response, Response.question_id == Question.id)
            .group_by(Question.pair_id, Question.id)
        ).all()
        n_studies = connection.scalar(select(func.count(Study.id)))
    assert n_studies == STUDIES
    judged = Counter(pair for pair, _ in rows)
    return {
        "stored": sum(count for _, count in rows),
        "lost": sum(key not in stored for key in ledger.acknowledged),
        "doubled": sum(count - 1 for _, count in rows),
        "overlap_exceeded": sum(count > size.people // STUDIES for count in judged.values()),
    }
