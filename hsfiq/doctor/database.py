"""Whether the database can be reached, and has the tables of this version."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from sqlalchemy import Engine
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError

from hsfiq.db.schema import current_revision, differences, head_revision, known_revisions
from hsfiq.db.sqlite import file_of, is_archive, is_fresh_sqlite
from hsfiq.db.urls import shown_url, unusable
from hsfiq.doctor.finding import Finding, quoted

UPGRADE = "hsfiq db upgrade"
RESTORE = "hsfiq db restore BACKUP --database NEW_URL"


def sqlite_file(engine: Engine) -> Path | None:
    """The file of a SQLite database."""
    return file_of(engine.url) if engine.dialect.name == "sqlite" else None


def examine_database(engine: Engine) -> Finding:
    """Whether it can be reached and written to; this never creates it."""
    shown = shown_url(engine.url.render_as_string())
    if is_fresh_sqlite(engine.url):
        file = sqlite_file(engine)
        needs_folder = file is not None and not file.parent.exists()
        fix = f"mkdir -p {quoted(file.parent)} && {UPGRADE}" if file and needs_folder else UPGRADE
        return Finding("database", "problem", f"{shown}: there is no database yet", fix)
    if is_archive(engine.url) and (file := sqlite_file(engine)) is not None:
        what = f"{shown}: can only be read, so it takes no answers"
        return Finding("database", "problem", what, f"chmod u+w {quoted(file)}")
    try:
        with engine.connect() as connection:
            version = connection.dialect.server_version_info or ()
            connection.exec_driver_sql(
                "SELECT count(*) FROM sqlite_master" if engine.name == "sqlite" else "SELECT 1"
            )
    except DBAPIError as error:
        return Finding(
            "database", "problem", str(unusable(shown, error.orig)), remedy(engine.url, error)
        )
    kind = "SQLite" if engine.dialect.name == "sqlite" else "PostgreSQL"
    return Finding("database", "ok", f"{shown}: {kind} {'.'.join(map(str, version))}")


def remedy(url: URL, error: DBAPIError) -> str:
    """What makes a database reachable."""
    if url.get_backend_name() == "sqlite":
        return RESTORE
    message = str(error.orig)
    if f'database "{url.database}" does not exist' in message:
        place = "".join(
            f" --{name}={quoted(str(value))}"
            for name, value in (("host", url.host), ("port", url.port), ("username", url.username))
            if value
        )
        return f"createdb{place} {quoted(str(url.database))}"
    if "authentication failed" in message or "no password supplied" in message:
        return "correct the user and the password in HSFIQ_DATABASE_URL"
    return "systemctl start postgresql"


def examine_migrations(engine: Engine) -> Finding:
    revision, newest = current_revision(engine), head_revision()
    if revision is not None and revision not in known_revisions():
        what = f"revision {revision} is of a newer hsfiq; this one knows {newest}"
        return Finding("migrations", "problem", what, "pip install --upgrade hsfiq")
    if revision != newest:
        what = f"the database is at revision {revision or 'none'}, needed is {newest}"
        return Finding("migrations", "problem", what, f"hsfiq db backup FILE && {UPGRADE}")
    different = differences(engine)
    if different:
        what = f"{len(different)} differences from revision {newest}, such as {different[0]}"
        return Finding("migrations", "problem", what, RESTORE)
    return Finding("migrations", "ok", f"revision {revision}, the newest")


def examine_sqlite(engine: Engine, file: Path) -> Iterator[Finding]:
    """The journal, its size, and whether the file is damaged."""
    with engine.connect() as connection:
        mode = str(connection.exec_driver_sql("PRAGMA journal_mode").scalar())
        try:
            state = str(connection.exec_driver_sql("PRAGMA quick_check(1)").scalar())
        except DBAPIError as error:
            state = str(error.orig)
    if mode == "wal":
        yield examine_log(file)
    else:
        # Every command that opens the database sets the mode.
        what = f"the journal mode is {mode}, so readers and the writer block each other"
        yield Finding("settings", "warning", what, "hsfiq study list")
    if state == "ok":
        yield Finding("settings", "ok", "the file is not damaged")
    else:
        what = f"the file is damaged ({' '.join(state.split())})"
        yield Finding("settings", "problem", what, RESTORE)


LARGEST_LOG = 32 * 2**20
"""Bytes: a server empties the write-ahead log every few seconds, unless something still reads."""


def examine_log(file: Path) -> Finding:
    log = Path(f"{file}-wal")
    size = log.stat().st_size if log.exists() else 0
    if size > LARGEST_LOG:
        what = (
            f"the write-ahead log has {size / 2**20:,.0f} MB: "
            "a program that reads for long keeps it from being emptied"
        )
        return Finding("settings", "warning", what, f"fuser {quoted(file)}")
    return Finding("settings", "ok", f"write-ahead log, {size / 2**20:,.1f} MB")
