"""Whether the process answers (`/healthz`), and whether it can take answers (`/readyz`)."""

from __future__ import annotations

from pathlib import Path

import anyio
from anyio import CapacityLimiter
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse

from hsfiq.db.engine import Database
from hsfiq.db.failures import LEAST_SPACE, first_existing, free_space, unavailable
from hsfiq.db.schema import current_revision, head_revision
from hsfiq.db.sqlite import file_of
from hsfiq.errors import Unavailable

CHECK_SECONDS = 5.0
"""A check that takes longer has failed."""

CHECKS_AT_ONCE = 2

OK = "ok"


def add_health(app: FastAPI, database: Database, image_copies: Path) -> None:
    """Add the routes; `/readyz` fails if all threads that answer requests stay busy."""
    threads = CapacityLimiter(CHECKS_AT_ONCE)

    @app.get("/healthz")
    async def health() -> dict[str, bool]:
        return {"ok": True}

    @app.get("/healthz/client")
    async def client(request: Request) -> JSONResponse:
        """What `hsfiq doctor` needs to see whether a proxy tells the client's address."""
        port = request.client.port if request.client else 0
        content = {"is_told": "x-forwarded-for" in request.headers, "port": port}
        return JSONResponse(content, headers={"Cache-Control": "no-store"})

    @app.get("/readyz")
    async def ready() -> JSONResponse:
        checks = {"threads": "none is free in time", "database": "no answer in time"}
        checks |= {"migrations": "unknown", "disk": "unknown"}

        async def check_threads() -> None:
            await anyio.to_thread.run_sync(int)  # anything, by a thread that answers requests
            checks["threads"] = OK

        async def check_state() -> None:
            checks.update(
                await anyio.to_thread.run_sync(
                    state_of, database, image_copies, abandon_on_cancel=True, limiter=threads
                )
            )

        with anyio.move_on_after(CHECK_SECONDS):
            async with anyio.create_task_group() as group:
                group.start_soon(check_threads)
                group.start_soon(check_state)
        is_ready = set(checks.values()) == {OK}
        content = {"ok": is_ready, **checks}
        return JSONResponse(content, 200 if is_ready else 503, {"Cache-Control": "no-store"})


def state_of(database: Database, image_copies: Path) -> dict[str, str]:
    """For each check `ok`, or in some words what is wrong."""
    disk = disk_state(database, image_copies)
    try:
        database.require_writable()
        with unavailable():
            revision = current_revision(database.engine)
    except Unavailable as error:
        return {"database": str(error), "migrations": "unknown", "disk": disk}
    needed = head_revision()
    migrations = OK if revision == needed else f"revision {revision}, needed is {needed}"
    return {"database": OK, "migrations": migrations, "disk": disk}


def disk_state(database: Database, image_copies: Path) -> str:
    """Whether the disks of a SQLite file and of the images' copies have space left."""
    is_sqlite = database.engine.dialect.name == "sqlite"
    file = file_of(database.engine.url) if is_sqlite else None
    for folder in ([file.parent] if file else []) + [image_copies]:
        existing = first_existing(folder)
        if existing is not None and free_space(existing) < LEAST_SPACE:
            return f"less than {LEAST_SPACE // 2**20} MB left"
    return OK
