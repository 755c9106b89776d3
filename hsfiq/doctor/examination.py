"""All checks, in the order in which what they find matters."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from sqlalchemy import Engine

from hsfiq.db.engine import Database
from hsfiq.doctor.clock import Clock, examine_clock, utc_now
from hsfiq.doctor.database import (
    examine_database,
    examine_migrations,
    examine_sqlite,
    sqlite_file,
)
from hsfiq.doctor.finding import Finding
from hsfiq.doctor.folders import examine_copies, examine_space, examine_writing
from hsfiq.doctor.images import examine_images
from hsfiq.doctor.postgres import examine_postgres
from hsfiq.doctor.private_files import examine_key, examine_modes
from hsfiq.doctor.proxy import examine_proxy
from hsfiq.doctor.versions import examine_versions
from hsfiq.public_url import PublicUrl


def examine(
    engine: Engine, thumbnails: Path | None, public: PublicUrl | None, clock: Clock = utc_now
) -> Iterator[Finding]:
    """Examine a server's surroundings; nothing is changed.

    `thumbnails` is their folder, None where the app is not installed. What needs the database is
    left out if it cannot be reached or is damaged, and what needs the tables if they are of another
    version.
    """
    file = sqlite_file(engine)
    reached = examine_database(engine)
    yield reached
    usable = None
    if reached.status == "ok":
        settings = list(examine_sqlite(engine, file) if file else examine_postgres(engine))
        yield from settings
        is_damaged = file is not None and any(each.status == "problem" for each in settings)
        migrations = None if is_damaged else examine_migrations(engine)
        if migrations is not None:
            yield migrations
            usable = Database(engine) if migrations.status == "ok" else None
    if usable is not None:
        yield examine_clock(engine, clock)
        yield from examine_images(usable)
    folders = [folder for folder in (file and file.parent, thumbnails) if folder is not None]
    yield from examine_space(folders)
    yield from examine_writing(folders)
    if thumbnails is not None:
        yield from examine_copies(thumbnails)
    yield from examine_key(usable)
    if file is not None and file.exists():
        yield from examine_modes(file)
    yield from examine_proxy(public)
    yield from examine_versions()
