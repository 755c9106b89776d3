"""A lab's server: 300 people, three studies, three workers behind nginx, on PostgreSQL.

People think for 15 seconds on average and fetch each image once, as a browser does. At half time a
worker is killed; people send what was not acknowledged again. In the end each acknowledged answer
must be stored in one row, and no pair may have more answers than the design requires. `connections`
and `memory_mb` are those of all workers, in each tenth of the run: they must not grow.

It needs nginx and a PostgreSQL server on which this user may create databases; HSFIQ_POSTGRES_URL
names another than `postgresql://postgres@127.0.0.1:5432/postgres`.
"""

from __future__ import annotations

import os
import resource
import secrets
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any, cast

from sqlalchemy import Engine, func, select, text
from sqlalchemy.engine import make_url

from benchmarks.browsing import answers, free_port, quantiles, wait_until
from benchmarks.serving import CATEGORY, GARMENTS, IMAGE_FOLDER, Annotator, Place, Server
from benchmarks.soak import Ledger, retry
from hsfiq.collect import participants
from hsfiq.collect.protocol import QuestionView, SubmitPayload
from hsfiq.db.engine import connect, open_database
from hsfiq.db.schema import upgrade
from hsfiq.db.tables import Question, Response, Study
from hsfiq.demo.lists import DrawnQuery, ruled_lists
from hsfiq.demo.study import store_queries
from hsfiq.drawn import catalogue, corpus, draw_split, generator
from hsfiq.drawn.pictures import write_images
from hsfiq.study.config import Checks, Design, Presentation, StudyConfig
from hsfiq.study.design import draw_study

POSTGRES = "postgresql://postgres@127.0.0.1:5432/postgres"
STUDIES, WORKERS = 3, 3
THINKING = 15.0
"""Seconds between two answers of a person, on average."""

PARTS = 10


@dataclass(frozen=True, slots=True)
class Size:
    people: int
    seconds: float
    thinking: float = THINKING

    @property
    def questions(self) -> int:
        """More than a person can answer."""
        return round(2 * self.seconds / self.thinking) + 10


SIZE, FULL_SIZE = Size(300, 120), Size(300, 1200)

NGINX = """
daemon off; pid {folder}/pid; error_log {folder}/error.log;
worker_processes 1;
events {{ worker_connections 2048; }}
http {{
    access_log off;
    client_body_temp_path {folder}/t1; proxy_temp_path {folder}/t2; fastcgi_temp_path {folder}/t3;
    uwsgi_temp_path {folder}/t4; scgi_temp_path {folder}/t5;
    upstream hsfiq {{ server 127.0.0.1:{upstream}; keepalive 64; }}
    server {{
        listen 127.0.0.1:{port};
        location / {{
            proxy_pass http://hsfiq;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
        }}
    }}
}}
"""


@dataclass(frozen=True, slots=True)
class PostgresPlace(Place):
    """A folder of images, with a database in PostgreSQL."""

    database_url: str

    @property
    def url(self) -> str:
        return self.database_url


@dataclass(slots=True)
class Watch:
    """What the workers used, sample by sample."""

    memory_mb: list[float] = field(default_factory=list)
    connections: list[int] = field(default_factory=list)


class Person(Annotator):
    """An annotator who fetches each image once, as a browser does."""

    def fetch_images(self, seen: set[str]) -> None:
        view = cast("QuestionView", self.view)
        images = [image for shown in view["sets"] for image in shown]
        if view["reference"]:
            images.append(view["reference"])
        for image in images:
            if not image["missing"] and image["token"] not in seen:
                self.browser.get(f"/image/{image['token']}")
                seen.add(image["token"])


def run(seed: int, full: bool) -> dict[str, Any]:
    """Answer for two minutes, or for twenty with `full`."""
    return soak(FULL_SIZE if full else SIZE, seed)


def soak(size: Size, seed: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as name, new_database() as url:
        place = PostgresPlace(Path(name), url)
        tokens = make_studies(place, size, seed)
        server = Server(place, free_port(), ("--workers", str(WORKERS), "--connections", "5"))
        server.start()
        try:
            with nginx(place.folder, server.port) as port:
                people = [Person(port, token, Random(n)) for n, token in enumerate(tokens)]
                return answer(place, server, people, size)
        finally:
            server.stop()


def answer(
    place: PostgresPlace, server: Server, people: list[Person], size: Size
) -> dict[str, Any]:
    ledger, watch, images = Ledger(), Watch(), [0]
    threads = [
        threading.Thread(target=answer_on, args=(person, ledger, size, images), daemon=True)
        for person in people
    ]
    used = cpu_seconds(server)
    begun = time.monotonic()
    for thread in threads:
        thread.start()
    engine = connect(place.url)
    for part in range(PARTS):
        time.sleep(max(0.0, begun + (part + 1) * size.seconds / PARTS - time.monotonic()))
        watch.memory_mb.append(memory_mb(server))
        watch.connections.append(n_connections(engine))
        if part + 1 == PARTS // 2:
            killed = workers_of(server)[0]
            used -= cpu_of(killed)
            os.kill(killed, signal.SIGKILL)
    ledger.over.set()
    wait_until(lambda: not any(thread.is_alive() for thread in threads), "every person", 300)
    seconds = time.monotonic() - begun
    used = cpu_seconds(server) - used
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
        "killed": 1,
        "images": images[0],
        "p50_ms": p50,
        "p95_ms": p95,
        "cores_of_workers": round(used / seconds, 2),
        "cores_of_people": round(resource.getrusage(resource.RUSAGE_SELF).ru_utime / seconds, 2),
        "memory_mb": watch.memory_mb,
        "connections": watch.connections,
        "cases": [],
    }


def answer_on(person: Person, ledger: Ledger, size: Size, images: list[int]) -> None:
    """Answer until the run is over; each request is repeated until the server replies."""
    seen: set[str] = set()
    if ledger.over.wait(person.rng.uniform(0, size.thinking)):
        return
    retry(person, person.enter, ledger)
    while not ledger.over.is_set() and not person.is_done:
        retry(person, person.pass_checks, ledger)
        if person.view["step"] != "question":
            continue
        retry(person, lambda: person.fetch_images(seen), ledger)
        if ledger.over.wait(min(person.rng.expovariate(1 / size.thinking), 4 * size.thinking)):
            break
        body = person.submission()
        begun = time.perf_counter()

        def submit(body: SubmitPayload = body) -> None:
            person.view = person.post("/submit", body)["view"]

        if retry(person, submit, ledger):
            ledger.seconds.append(time.perf_counter() - begun)
            ledger.acknowledged.append(body["submit_key"])
    images[0] += len(seen)
    person.browser.close()


# ---------------------------------------------------------------------------------- the server


@contextmanager
def new_database() -> Iterator[str]:
    """The URL of a migrated database, which is dropped at the end."""
    server = make_url(os.environ.get("HSFIQ_POSTGRES_URL", POSTGRES))
    name = f"hsfiq_soak_{secrets.token_hex(6)}"
    engine = connect(server.render_as_string(hide_password=False))
    engine = engine.execution_options(isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(f'CREATE DATABASE "{name}"'))
        try:
            url = server.set(database=name).render_as_string(hide_password=False)
            empty = connect(url)
            upgrade(empty)
            empty.dispose()
            yield url
        finally:
            connection.execute(text(f'DROP DATABASE "{name}" WITH (FORCE)'))
    engine.dispose()


def make_studies(place: Place, size: Size, seed: int) -> list[str]:
    """Studies in which a third of the people each judge the same queries; all their tokens."""
    garments = corpus(catalogue(generator(seed, "catalogue"), GARMENTS), CATEGORY)
    write_images(garments, place.folder / IMAGE_FOLDER)
    n = size.questions
    triplets = draw_split(generator(seed, "triplets"), garments, CATEGORY, "val", n)
    queries = [DrawnQuery(triplet, is_reversed=False) for triplet in triplets]
    overlap = size.people // STUDIES
    tokens: list[str] = []
    database = open_database(place.url)
    with database.writing() as session:
        lists = ruled_lists(garments, queries, seed)
        keys = store_queries(session, place.folder, garments, queries, lists)
        for number in range(STUDIES):
            config = StudyConfig(
                study=Presentation(name=f"soak-{number}", title="Which shop understood you?"),
                design=Design(
                    questions_per_form=-(-n // 2), annotators_per_query=overlap, seed=seed + number
                ),
                checks=Checks(arithmetic=True),
            )
            study = draw_study(session, config, keys)
            people = participants.invite(session, study.id, overlap, now=datetime.now(UTC))
            tokens += [person.token for person in people]
    database.close()
    return tokens


@contextmanager
def nginx(folder: Path, upstream: int) -> Iterator[int]:
    """The port of an nginx in front of the server."""
    program = shutil.which("nginx", path="/usr/local/sbin:/usr/sbin:/usr/bin:/bin")
    if program is None:
        raise SystemExit("nginx is not installed: apt-get install nginx-light")
    port, settings = free_port(), folder / "nginx.conf"
    settings.write_text(NGINX.format(folder=folder, port=port, upstream=upstream))
    process = subprocess.Popen([program, "-p", folder, "-c", settings], stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: answers(port, "/healthz"), "nginx")
        yield port
    finally:
        process.terminate()
        process.wait()


# ------------------------------------------------------------------------------------- figures


def workers_of(server: Server) -> list[int]:
    """The processes that answer: the children of the server's children."""
    children = children_of(server.pid)
    return [worker for child in children for worker in children_of(child)]


def children_of(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def memory_mb(server: Server) -> float:
    """What the workers use together; pages that they share count once."""
    total = 0
    for pid in workers_of(server):
        with suppress(OSError):  # it has been killed
            for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
                if line.startswith("Pss:"):
                    total += int(line.split()[1])
    return round(total / 1024, 1)


def cpu_seconds(server: Server) -> float:
    return sum(cpu_of(pid) for pid in workers_of(server))


def cpu_of(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


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
