"""A lab's server: several workers behind nginx, on PostgreSQL; and what the workers use.

It needs nginx and a PostgreSQL server on which this user may create databases; HSFIQ_POSTGRES_URL
names another than `postgresql://postgres@127.0.0.1:5432/postgres`.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import text
from sqlalchemy.engine import make_url

from benchmarks.browsing import free_port
from benchmarks.nginx import INSTALL, Nginx, installed, nginx
from benchmarks.serving import Place, Server
from hsfiq.db.engine import connect
from hsfiq.db.schema import upgrade

POSTGRES = "postgresql://postgres@127.0.0.1:5432/postgres"

CONNECTIONS = 5
"""Connections of each worker to PostgreSQL."""

PROXY = """
    upstream hsfiq {{ server 127.0.0.1:{upstream}; keepalive 64; }}
    server {{
        listen 127.0.0.1:{port};
        location / {{
            proxy_pass http://hsfiq;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
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


@contextmanager
def proxied(place: Place, workers: int) -> Iterator[tuple[Server, Nginx]]:
    """A server with so many workers, and the nginx in front of it."""
    program = installed()
    if program is None:
        raise SystemExit(INSTALL)
    options = ("--workers", str(workers), "--connections", str(CONNECTIONS))
    server, port = Server(place, free_port(), options), free_port()
    server.start()
    try:
        blocks = PROXY.format(upstream=server.port, port=port)
        with nginx(program, place.folder, blocks, port) as proxy:
            yield server, proxy
    finally:
        server.stop()


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
    """What the processes that answer have used; with one worker, the server answers itself."""
    return sum(cpu_of(pid) for pid in workers_of(server) or [server.pid])


def cpu_of(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
